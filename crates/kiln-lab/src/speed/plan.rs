//! What is asked of `speed`.

use kiln_kernel::xts::{Impl, Op};

use crate::algorithm::{parse_op, unknown, usable_impl};
use crate::lens::{Lens, LONGEST};
use crate::peer::{self, Wanted};
use crate::{Algorithm, Error};

/// At which level calls are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// The function, in one FPU section with the calls around it.
    #[default]
    Primitive,
}

/// What to measure. Empty lists mean the usual.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Algorithms; all.
    pub algs: Vec<Algorithm>,
    /// Driver names; all that can run here.
    pub impls: Vec<String>,
    /// Operations; encryption.
    pub ops: Vec<Op>,
    /// Lengths.
    pub lens: Lens,
    /// Bits of the AES key; 256.
    pub key_bits: Vec<u32>,
    /// Level.
    pub level: Level,
    /// Dependent calls: each IV is the last call's result.
    pub latency: bool,
    /// Other libraries.
    pub peers: Wanted,
    /// An implementation or a provider that all rows are compared with.
    pub baseline: Option<String>,
    /// Keys, data and order of samples.
    pub seed: u64,
    /// Done in about 20 s.
    pub quick: bool,
}

impl Plan {
    /// The usual table.
    pub fn new(seed: u64) -> Plan {
        Plan {
            algs: Vec::new(),
            impls: Vec::new(),
            ops: Vec::new(),
            lens: Lens::default(),
            key_bits: Vec::new(),
            level: Level::Primitive,
            latency: false,
            peers: Wanted::Auto,
            baseline: None,
            seed,
            quick: false,
        }
    }

    /// Fills the empty lists and looks whether all that is asked for can be had.
    pub fn checked(mut self) -> Result<Plan, Error> {
        if self.algs.is_empty() {
            self.algs = Algorithm::ALL.to_vec();
        }
        if self.ops.is_empty() {
            self.ops = vec![Op::Encrypt];
        }
        if self.key_bits.is_empty() {
            self.key_bits = vec![256];
        }
        dedup(&mut self.algs);
        dedup(&mut self.ops);
        dedup(&mut self.key_bits);
        dedup(&mut self.impls);
        for &bits in &self.key_bits {
            if ![128, 192, 256].contains(&bits) {
                return Err(Error::input(format!(
                    "key size {bits}: AES keys have 128, 192 or 256 bits (XTS takes two of them)"
                )));
            }
        }
        for alg in self.algs.clone() {
            self.check_lens(alg)?;
            for driver in &self.impls {
                usable_impl(alg, driver)?;
            }
            self.check_baseline(alg)?;
        }
        Ok(self)
    }

    fn check_lens(&self, alg: Algorithm) -> Result<(), Error> {
        let lens = &self.lens.0;
        match (lens.first(), lens.last()) {
            (Some(&len), _) if len < alg.shortest() => Err(Error::input(format!(
                "length {len}: {alg} takes at least {} bytes",
                alg.shortest()
            ))),
            (_, Some(&len)) if len > LONGEST => Err(Error::input(format!(
                "length {len}: no more than {LONGEST} bytes are measured"
            ))),
            (None, _) => Err(Error::input("no lengths: name one with --len")),
            _ => Ok(()),
        }
    }

    fn check_baseline(&mut self, alg: Algorithm) -> Result<(), Error> {
        let Some(name) = self.baseline.clone() else {
            return Ok(());
        };
        if name == super::KILN || alg.impls().iter().any(|i| i.driver() == name) {
            let driver = if name == super::KILN {
                Impl::best().driver().to_string()
            } else {
                usable_impl(alg, &name)?.driver().to_string()
            };
            if !self.impls.is_empty() && !self.impls.contains(&driver) {
                self.impls.push(driver.clone());
            }
            self.baseline = Some(driver);
            return Ok(());
        }
        let family = name.split('-').next().unwrap_or_default();
        if let Some(peer) = peer::NAMES.into_iter().find(|p| *p == family) {
            return match &mut self.peers {
                Wanted::None => Err(Error::input(format!(
                    "--baseline {name} and --peers none contradict each other: leave one out"
                ))),
                Wanted::Auto => {
                    self.peers = Wanted::Named(vec![peer.to_string()]);
                    Ok(())
                }
                Wanted::Named(_) => Ok(()),
            };
        }
        let impls = alg.impls();
        let known: Vec<_> = [super::KILN]
            .into_iter()
            .chain(impls.iter().map(|i| i.driver()))
            .chain(peer::NAMES)
            .collect();
        Err(unknown("baseline", &name, &known))
    }

    /// Kiln's implementations that take part.
    pub fn impls_of(&self, alg: Algorithm) -> Vec<Impl> {
        let wanted =
            |i: &Impl| self.impls.is_empty() || self.impls.iter().any(|name| name == i.driver());
        alg.impls()
            .into_iter()
            .filter(|i| i.tier().usable() && wanted(i))
            .collect()
    }

    /// Whether a row of this candidate is what others are compared with.
    pub fn is_baseline(&self, imp: &str, provider: &str) -> bool {
        let Some(name) = self.baseline.as_deref() else {
            return false;
        };
        let family = provider.split('-').next().unwrap_or_default();
        imp == name || provider == name || family == name
    }

    /// Operations from their names, for each algorithm asked for.
    pub fn parse_ops(algs: &[Algorithm], names: &[String]) -> Result<Vec<Op>, Error> {
        let algs = if algs.is_empty() {
            &Algorithm::ALL[..]
        } else {
            algs
        };
        let mut ops = Vec::new();
        for &alg in algs {
            for name in names {
                ops.push(parse_op(alg, name)?);
            }
        }
        Ok(ops)
    }
}

/// Keeps the first of each.
fn dedup<T: PartialEq + Clone>(list: &mut Vec<T>) {
    let mut once: Vec<T> = Vec::new();
    for item in list.iter() {
        if !once.contains(item) {
            once.push(item.clone());
        }
    }
    *list = once;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::new(1);
        change(&mut plan);
        let e = plan.checked().unwrap_err();
        assert_eq!(e.exit_code(), 2, "{e}");
        e.to_string()
    }

    #[test]
    fn the_usual() {
        let plan = Plan::new(1).checked().unwrap();
        assert_eq!(plan.ops, [Op::Encrypt]);
        assert_eq!(plan.key_bits, [256]);
        assert_eq!(plan.lens.0.len(), 8);
        assert_eq!(
            plan.impls_of(Algorithm::XtsAes)[0].driver(),
            "xts-aes-generic"
        );
    }

    #[test]
    fn what_cannot_be_had() {
        assert!(fault(|p| p.lens = Lens(vec![15, 64])).contains("length 15"));
        assert!(fault(|p| p.lens = Lens(vec![16, 1 << 30])).contains("no more than"));
        assert!(fault(|p| p.key_bits = vec![512]).contains("key size 512"));
        assert!(fault(|p| p.impls = vec!["xts-aes-genric".into()]).contains("xts-aes-generic"));
        assert!(fault(|p| p.baseline = Some("opnssl".into())).contains("openssl"));
        let contradiction = fault(|p| {
            p.baseline = Some("openssl".into());
            p.peers = Wanted::None;
        });
        assert!(contradiction.contains("contradict"), "{contradiction}");
    }

    #[test]
    fn a_baseline_takes_part_even_if_not_asked_for() {
        let mut plan = Plan::new(1);
        plan.impls = vec!["xts-aes-fixed-time".into()];
        plan.baseline = Some("xts-aes-generic".into());
        let plan = plan.checked().unwrap();
        assert_eq!(plan.impls_of(Algorithm::XtsAes).len(), 2);
        assert!(plan.is_baseline("xts-aes-generic", "kiln"));
        assert!(!plan.is_baseline("xts-aes-fixed-time", "kiln"));
    }

    #[test]
    fn a_peer_as_baseline_by_family_or_version() {
        let mut plan = Plan::new(1);
        plan.baseline = Some("openssl".into());
        let mut plan = plan.checked().unwrap();
        assert!(plan.peers.names("openssl"));
        assert!(plan.is_baseline("EVP_aes_256_xts", "openssl-3.0.17"));
        plan.baseline = Some("openssl-3.5.0".into());
        assert!(!plan.is_baseline("EVP_aes_256_xts", "openssl-3.0.17"));
    }
}
