//! Looks up algorithms and implementations by name, and parses their names on the command line.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::Tier;
use serde::{Serialize, Serializer};

use crate::{list, unknown, Error};

/// An algorithm in `kernel/ciphers`, identified by its name in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm(&'static str);

impl Algorithm {
    /// AES-XTS (IEEE 1619).
    pub const XTS_AES: Algorithm = Algorithm("xts(aes)");

    /// Returns all algorithms, in the order of the implementation table in `kernel/`.
    pub fn all() -> Vec<Algorithm> {
        Impl::algorithms().into_iter().map(Algorithm).collect()
    }

    /// Returns the algorithm with this kernel name.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::all().into_iter().find(|a| a.name() == name)
    }

    /// Returns the algorithm's name in the kernel, such as `xts(aes)`.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Returns the algorithm's implementations in order of priority, including those that this CPU
    /// cannot run.
    pub fn impls(self) -> Vec<Impl> {
        Impl::find_all(self.0)
    }

    /// Returns the implementation that the crypto API selects by default: the one with the highest
    /// priority that this CPU can run.
    pub fn best(self) -> Impl {
        let usable = |i: &Impl| i.tier().usable();
        let best = self.impls().into_iter().rfind(usable);
        best.expect("the generic tier is always usable")
    }

    /// Returns the generic implementation, which runs on every CPU. Other implementations are
    /// checked against its results, and have the same properties, such as key sizes. Its priority
    /// is not necessarily the lowest.
    pub fn any(self) -> Impl {
        let impls = self.impls();
        let generic = |i: &&Impl| i.tier() == Tier::Generic;
        *impls.iter().find(generic).unwrap_or(&impls[0])
    }

    pub fn kind(self) -> Kind {
        self.any().kind()
    }

    /// Returns the minimum message length in bytes.
    pub fn shortest(self) -> usize {
        self.any().shortest()
    }

    /// Returns the maximum text length of an AEAD in bytes.
    pub fn longest(self) -> usize {
        self.any().longest()
    }

    /// Returns the block size in bytes, or 1 if any length is allowed. The length of every message
    /// must be a multiple of it.
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
        Algorithm::named(&resolve(s)).ok_or_else(|| {
            let all = Algorithm::all();
            let names: Vec<_> = all.iter().map(|a| a.name()).collect();
            unknown_algorithm(s, &names)
        })
    }
}

/// Creates the error for an unknown algorithm. The message says if the name is that of something
/// else: a directory, an operation or an implementation.
pub fn unknown_algorithm(name: &str, known: &[&str]) -> Error {
    let imp = Impl::all().into_iter().find(|i| i.driver() == name);
    if Path::new(name).is_dir() {
        Error::input(format!(
            "'{name}' is a directory, not an algorithm: name a kernel tree with --tree {name}"
        ))
    } else if ["encrypt", "decrypt", "digest", "derive"].contains(&name) {
        Error::input(format!(
            "'{name}' is an operation, not an algorithm: join operations by commas, such as --op encrypt,decrypt"
        ))
    } else if let Some(alg) = imp.map(Impl::alg) {
        Error::input(format!(
            "'{name}' is an implementation, not an algorithm: name '{alg}', with --impl {name} if the command has --impl"
        ))
    } else {
        unknown("algorithm", name, known)
    }
}

/// Creates the error for an implementation that is not among those in `known`. The message says if
/// it is one of another algorithm.
fn unknown_impl(driver: &str, known: &[&str]) -> Error {
    match Impl::all().into_iter().find(|i| i.driver() == driver) {
        Some(imp) => Error::input(format!(
            "'{driver}' implements {}, a different algorithm: {}",
            imp.alg(),
            list(known)
        )),
        None => unknown("implementation", driver, known),
    }
}

/// Returns the name that is customary outside the kernel: AES modes without "aes", and dashes
/// instead of parentheses.
fn alias(name: &str) -> String {
    match name {
        "rfc7539(chacha20,poly1305)" => return "chacha20-poly1305".to_string(),
        "rfc4106(gcm(aes))" => return "rfc4106".to_string(),
        _ => {}
    }
    match name.strip_suffix("(aes)") {
        Some(mode) => mode.to_string(),
        None => name.trim_end_matches(')').replace('(', "-"),
    }
}

/// Converts an alias, such as `xts`, `aes-xts`, `xts-aes`, `aes-256-xts`, `hmac-sha256` or
/// `sha-256`, to the algorithm's kernel name. Other names, such as those of algorithms in kernel
/// trees, are returned unchanged. The only key length that an alias may contain is 256, the
/// default, as in `aes-256-xts`.
pub fn resolve(name: &str) -> String {
    let all = Algorithm::all();
    if all.iter().any(|a| a.name() == name) {
        return name.to_string();
    }
    let lower = name.to_lowercase();
    let is_alias = |a: &&Algorithm| {
        let alias = alias(a.name());
        let plain = alias == lower || a.name() == lower.replace("sha-", "sha");
        let aes = a.name().ends_with("(aes)");
        let forms = [
            format!("aes-{alias}"),
            format!("{alias}-aes"),
            format!("aes-256-{alias}"),
        ];
        plain || aes && forms.contains(&lower)
    };
    let found = all.iter().find(is_alias);
    found.map_or_else(|| name.to_string(), |a| a.name().to_string())
}

/// A clap parser for algorithm names that resolves aliases. Shell completion offers the aliases,
/// because they need no quoting in a shell. The parser accepts unknown names and leaves it to the
/// command to check them, because a kernel tree may have more algorithms.
#[derive(Clone)]
pub struct Names;

impl TypedValueParser for Names {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        Ok(resolve(&text))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        static ALIASES: OnceLock<Vec<String>> = OnceLock::new();
        let all = || Algorithm::all().iter().map(|a| alias(a.name())).collect();
        let aliases = ALIASES.get_or_init(all);
        Some(Box::new(
            aliases.iter().map(|a| PossibleValue::new(a.as_str())),
        ))
    }
}

/// A clap parser for implementation names. Shell completion offers the names of Kiln's
/// implementations.
#[derive(Clone)]
pub struct Drivers;

impl TypedValueParser for Drivers {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = Impl::all().into_iter();
        Some(Box::new(all.map(|i| PossibleValue::new(i.driver()))))
    }
}

/// Returns `encrypt` or `decrypt`, as used in rows and flags.
pub fn op_name(op: Op) -> &'static str {
    match op {
        Op::Encrypt => "encrypt",
        Op::Decrypt => "decrypt",
    }
}

/// Parses `encrypt` or `decrypt`. Fails for any other name. `alg` is used only in an error message.
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

/// Returns the implementation with this driver name. Fails if the name is unknown, if this CPU
/// cannot run the implementation, or if `KILN_TIERS` excludes its tier.
pub fn usable_impl(alg: Algorithm, driver: &str) -> Result<Impl, Error> {
    let all = alg.impls();
    let Some(imp) = all.iter().copied().find(|i| i.driver() == driver) else {
        let names: Vec<_> = all.iter().map(|i| i.driver()).collect();
        return Err(unknown_impl(driver, &names));
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
    fn every_algorithm_has_an_alias_of_its_own() {
        let all = Algorithm::all();
        for alg in &all {
            let alias = alias(alg.name());
            assert_eq!(resolve(&alias), alg.name());
            assert_eq!(resolve(alg.name()), alg.name());
            assert!(!alias.contains(['(', ')', ',']), "{alias}");
        }
        for (alias, name) in [
            ("xts", "xts(aes)"),
            ("AES-256-GCM", "gcm(aes)"),
            ("ctr-aes", "ctr(aes)"),
            ("chacha20-poly1305", "rfc7539(chacha20,poly1305)"),
            ("hmac-sha256", "hmac(sha256)"),
            ("sha-256", "sha256"),
            // Names with another key length must not resolve, because commands would measure the
            // default key size instead of the size in the name.
            ("aes-128-gcm", "aes-128-gcm"),
            ("adiantum(xchacha12,aes)", "adiantum(xchacha12,aes)"),
        ] {
            assert_eq!(resolve(alias), name);
        }
    }

    #[test]
    fn the_nearest_is_named_and_the_far_is_not() {
        let near = "xts(ase)".parse::<Algorithm>().unwrap_err().to_string();
        assert!(near.contains("did you mean 'xts(aes)'"), "{near}");
        let far = "blowfish-ofb-wide"
            .parse::<Algorithm>()
            .unwrap_err()
            .to_string();
        let first = Algorithm::all()[0];
        assert!(far.contains(&format!("choose from {first}, ")), "{far}");
        let other = "gcm(camellia)"
            .parse::<Algorithm>()
            .unwrap_err()
            .to_string();
        assert!(!other.contains("did you mean"), "{other}");
        let several = parse_op(Algorithm::XTS_AES, "sign")
            .unwrap_err()
            .to_string();
        assert!(
            several.contains("choose from encrypt, decrypt"),
            "{several}"
        );
    }

    #[test]
    fn names_of_other_things_are_recognised() {
        let fault = |name: &str| name.parse::<Algorithm>().unwrap_err().to_string();
        let imp = fault("xts-aes-aesni");
        assert!(
            imp.contains("name 'xts(aes)', with --impl xts-aes-aesni"),
            "{imp}"
        );
        let op = fault("decrypt");
        assert!(op.contains("--op encrypt,decrypt"), "{op}");
        let neither = fault("xts-aes-neon");
        assert!(neither.starts_with("unknown algorithm"), "{neither}");
        let other = usable_impl(Algorithm::XTS_AES, "gcm-aes-aesni").unwrap_err();
        let other = other.to_string();
        assert!(
            other.contains("implements gcm(aes), ") && other.contains("choose from xts-aes-"),
            "{other}"
        );
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
