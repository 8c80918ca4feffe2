//! Algorithms and implementations by name.

use std::fmt;
use std::str::FromStr;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::Tier;
use serde::{Serialize, Serializer};

use crate::{unknown, Error};

/// An algorithm of `kernel/ciphers`, by its name in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm(&'static str);

impl Algorithm {
    /// AES-XTS, IEEE 1619.
    pub const XTS_AES: Algorithm = Algorithm("xts(aes)");

    /// All algorithms, in the order of the table.
    pub fn all() -> Vec<Algorithm> {
        Impl::algorithms().into_iter().map(Algorithm).collect()
    }

    /// The algorithm of this name.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::all().into_iter().find(|a| a.name() == name)
    }

    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Its implementations in order of priority, including those that this CPU cannot run.
    pub fn impls(self) -> Vec<Impl> {
        Impl::find_all(self.0)
    }

    /// The implementation that a caller gets: the usable one with the highest priority.
    pub fn best(self) -> Impl {
        let usable = |i: &Impl| i.tier().usable();
        let best = self.impls().into_iter().rfind(usable);
        best.expect("the generic tier is always usable")
    }

    /// The generic implementation, which runs everywhere. It provides the right answers and the properties that all
    /// implementations share. Its priority need not be the lowest of all.
    pub fn any(self) -> Impl {
        let impls = self.impls();
        let generic = |i: &&Impl| i.tier() == Tier::Generic;
        *impls.iter().find(generic).unwrap_or(&impls[0])
    }

    pub fn kind(self) -> Kind {
        self.any().kind()
    }

    /// Length of the shortest message, in bytes.
    pub fn shortest(self) -> usize {
        self.any().shortest()
    }

    /// Length of the longest text of an AEAD, in bytes.
    pub fn longest(self) -> usize {
        self.any().longest()
    }

    /// Block size in bytes: messages consist of whole blocks. 1 if any length is allowed.
    pub fn block(self) -> usize {
        match self.kind() {
            Kind::Skcipher => self.any().block_size(),
            _ => 1,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(s: &str) -> Result<Algorithm, Error> {
        Algorithm::named(s).ok_or_else(|| {
            let all = Algorithm::all();
            let names: Vec<_> = all.iter().map(|a| a.name()).collect();
            unknown("algorithm", s, &names)
        })
    }
}

/// `encrypt` or `decrypt`, as in rows and flags.
pub fn op_name(op: Op) -> &'static str {
    match op {
        Op::Encrypt => "encrypt",
        Op::Decrypt => "decrypt",
    }
}

/// The operation of this name. Fails if `alg` does not have it.
pub fn parse_op(alg: Algorithm, name: &str) -> Result<Op, Error> {
    match name {
        "encrypt" => Ok(Op::Encrypt),
        "decrypt" => Ok(Op::Decrypt),
        "digest" => Err(Error::input(format!(
            "operation 'digest': {alg} has none: use --op encrypt,decrypt"
        ))),
        _ => Err(unknown("operation", name, &["encrypt", "decrypt"])),
    }
}

/// The implementation with this driver name. Fails if it cannot run here.
pub fn usable_impl(alg: Algorithm, driver: &str) -> Result<Impl, Error> {
    let all = alg.impls();
    let Some(imp) = all.iter().copied().find(|i| i.driver() == driver) else {
        let names: Vec<_> = all.iter().map(|i| i.driver()).collect();
        return Err(unknown("implementation", driver, &names));
    };
    runs_here(driver, imp.tier())?;
    Ok(imp)
}

fn runs_here(driver: &str, tier: Tier) -> Result<(), Error> {
    match tier.lacks() {
        Some(feature) => Err(Error::lacks(format!(
            "implementation '{driver}': this CPU lacks {feature}, which tier {tier} needs: \
             'kiln list' shows what runs here"
        ))),
        None if !tier.usable() => Err(Error::input(format!(
            "implementation '{driver}': KILN_TIERS masks its tier: add {tier} to it, or leave it unset"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_named_and_the_far_is_not() {
        let near = "xts(ase)".parse::<Algorithm>().unwrap_err().to_string();
        assert!(near.contains("did you mean 'xts(aes)'"), "{near}");
        let far = "blowfish-ofb-wide"
            .parse::<Algorithm>()
            .unwrap_err()
            .to_string();
        let first = Algorithm::all()[0];
        assert!(far.contains(&format!("there are {first}, ")), "{far}");
        let other = "gcm(camellia)"
            .parse::<Algorithm>()
            .unwrap_err()
            .to_string();
        assert!(!other.contains("did you mean"), "{other}");
        let several = parse_op(Algorithm::XTS_AES, "sign")
            .unwrap_err()
            .to_string();
        assert!(several.contains("there are encrypt, decrypt"), "{several}");
    }

    #[test]
    fn every_algorithm_has_one_that_runs_everywhere() {
        for alg in Algorithm::all() {
            assert_eq!(alg.any().tier(), Tier::Generic, "{alg}");
            assert!(alg.best().tier().usable());
        }
    }

    #[test]
    fn unknown_implementations() {
        let e = usable_impl(Algorithm::XTS_AES, "xts-aes-vaes-avx-512").unwrap_err();
        assert!(e.to_string().contains("'xts-aes-vaes-avx512'"), "{e}");
        assert_eq!(e.exit_code(), 2);
    }
}
