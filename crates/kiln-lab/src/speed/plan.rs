//! What is asked of `speed`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::candidate::family;
use super::own::Own;
use super::shape::Op;
use super::source::{Source, Spec};
use super::KILN;
use crate::algorithm::unknown;
use crate::lens::{Lens, LONGEST};
use crate::peer::{self, Wanted};
use crate::{Algorithm, Error};

/// At which level calls are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The function, in one FPU section with the calls around it.
    #[default]
    Primitive,
    /// A request through the crypto API, by driver name.
    Api,
}

impl Level {
    /// As rows and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Primitive => "primitive",
            Level::Api => "api",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(name: &str) -> Result<Level, Error> {
        let all = [Level::Primitive, Level::Api];
        all.into_iter()
            .find(|l| l.name() == name)
            .ok_or_else(|| unknown("level", name, &all.map(Level::name)))
    }
}

/// What to measure. Empty lists mean the usual.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Algorithms, by the kernel's names; all.
    pub algs: Vec<String>,
    /// Driver names and symbols; all that can run here.
    pub impls: Vec<String>,
    /// Operations; for each algorithm the first it has.
    pub ops: Vec<Op>,
    /// Lengths.
    pub lens: Lens,
    /// Bits of the key; 256, or the largest an algorithm has.
    pub key_bits: Vec<u32>,
    /// Level; all there are.
    pub level: Option<Level>,
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
    /// One of many turns, for at most about so long; Kiln's own and limits are not measured.
    pub turn: Option<Duration>,
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
            level: None,
            latency: false,
            peers: Wanted::Auto,
            baseline: None,
            seed,
            quick: false,
            turn: None,
        }
    }

    /// Looks whether all that is asked for can be had of Kiln's own.
    pub fn checked(self) -> Result<Plan, Error> {
        self.checked_with(&[&Own]).map(|(plan, _)| plan)
    }

    /// Looks whether all that is asked for can be had of these, and what algorithms that makes.
    pub fn checked_with(mut self, sources: &[&dyn Source]) -> Result<(Plan, Vec<Spec>), Error> {
        dedup(&mut self.algs);
        dedup(&mut self.ops);
        dedup(&mut self.key_bits);
        dedup(&mut self.impls);
        let specs = self.specs(sources)?;
        self.check_lens(sources.len() > 1)?;
        for name in &self.impls {
            check_impl(name, &specs, sources)?;
        }
        for spec in &specs {
            self.check_keys(spec)?;
        }
        self.check_ops(&specs)?;
        self.check_baseline(&specs, sources)?;
        Ok((self, specs))
    }

    /// The algorithms asked for, or all; those of earlier sources first.
    fn specs(&self, sources: &[&dyn Source]) -> Result<Vec<Spec>, Error> {
        let mut all: Vec<Spec> = Vec::new();
        for spec in sources.iter().flat_map(|s| s.algorithms()) {
            if all.iter().all(|s| s.name != spec.name) {
                all.push(spec);
            }
        }
        let names: Vec<&str> = all.iter().map(|s| s.name.as_ref()).collect();
        let find = |name: &String| {
            let found = all.iter().find(|s| s.name == *name).cloned();
            found.ok_or_else(|| unknown("algorithm", name, &names))
        };
        if !self.algs.is_empty() {
            return self.algs.iter().map(find).collect();
        }
        // Without names: the algorithms of the implementations named.
        let named = |spec: &Spec| {
            let of = |s: &&dyn Source| s.names(&spec.name);
            let mut names = sources.iter().flat_map(of);
            names.any(|(name, _)| self.impls.contains(&name))
        };
        if self.impls.is_empty() || !all.iter().any(named) {
            return Ok(all);
        }
        Ok(all.iter().filter(|s| named(s)).cloned().collect())
    }

    fn check_keys(&self, spec: &Spec) -> Result<(), Error> {
        for bits in &self.key_bits {
            let aes = Algorithm::ALL.iter().any(|a| a.name() == spec.name);
            if aes && !spec.key_bits.contains(bits) {
                return Err(Error::input(format!(
                    "key size {bits}: AES keys have 128, 192 or 256 bits (XTS takes two of them)"
                )));
            }
        }
        Ok(())
    }

    /// Some algorithm must have one of the operations, and so must each that was named.
    fn check_ops(&self, specs: &[Spec]) -> Result<(), Error> {
        let without = |spec: &&Spec| !self.ops.iter().any(|op| spec.kind.ops().contains(op));
        let lacking = specs.iter().filter(without).count();
        let refused = lacking == specs.len() || !self.algs.is_empty();
        match (self.ops.first(), specs.iter().find(without)) {
            (Some(op), Some(spec)) if refused => {
                let names: Vec<_> = spec.kind.ops().iter().map(|op| op.name()).collect();
                Err(Error::input(format!(
                    "operation '{op}': {} has none: use --op {}",
                    spec.name,
                    names.join(",")
                )))
            }
            _ => Ok(()),
        }
    }

    /// The operations to be measured of an algorithm.
    pub fn ops_of(&self, spec: &Spec) -> Vec<Op> {
        let has = spec.kind.ops();
        match self.ops.is_empty() {
            true => has[..1].to_vec(),
            false => self
                .ops
                .iter()
                .copied()
                .filter(|op| has.contains(op))
                .collect(),
        }
    }

    /// The key sizes to be measured of an algorithm.
    pub fn keys_of(&self, spec: &Spec) -> Vec<u32> {
        if self.key_bits.is_empty() || spec.key_bits == [0] {
            return vec![spec.usual_key()];
        }
        let has = |bits: &u32| spec.key_bits.contains(bits);
        self.key_bits.iter().copied().filter(has).collect()
    }

    /// What Kiln has is told beforehand; others say for each length whether they take it.
    fn check_lens(&self, others: bool) -> Result<(), Error> {
        let lens = &self.lens.0;
        let (Some(&first), Some(&last)) = (lens.first(), lens.last()) else {
            return Err(Error::input("no lengths: name one with --len"));
        };
        if last > LONGEST {
            return Err(Error::input(format!(
                "length {last}: no more than {LONGEST} bytes are measured"
            )));
        }
        let asked = |alg: &Algorithm| match self.algs.is_empty() {
            true => !others,
            false => self.algs.iter().any(|name| name == alg.name()),
        };
        let short = |alg: &Algorithm| asked(alg) && first < alg.shortest();
        match Algorithm::ALL.into_iter().find(short) {
            Some(alg) => Err(Error::input(format!(
                "length {first}: {alg} takes at least {} bytes",
                alg.shortest()
            ))),
            None => Ok(()),
        }
    }

    fn check_baseline(&mut self, specs: &[Spec], sources: &[&dyn Source]) -> Result<(), Error> {
        let Some(name) = self.baseline.clone() else {
            return Ok(());
        };
        if name == KILN {
            let best = kiln_kernel::xts::Impl::best().driver().to_string();
            return self.take_part(best);
        }
        let mut names: Vec<String> = Vec::new();
        for spec in specs {
            for source in sources {
                let known = source.names(&spec.name);
                if known.iter().any(|(n, _)| *n == name) {
                    source.usable(&spec.name, &name)?;
                    return self.take_part(name);
                }
                names.extend(known.into_iter().map(|(n, _)| n));
            }
        }
        if let Some(peer) = peer::NAMES.into_iter().find(|p| *p == family(&name)) {
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
        if sources.len() > 1 && family(&name) == "linux" {
            return Ok(());
        }
        let known: Vec<&str> = [KILN]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .chain(peer::NAMES)
            .collect();
        Err(unknown("baseline", &name, &known))
    }

    /// A baseline is measured even if it was not asked for.
    fn take_part(&mut self, name: String) -> Result<(), Error> {
        if !self.impls.is_empty() && !self.impls.contains(&name) {
            self.impls.push(name.clone());
        }
        self.baseline = Some(name);
        Ok(())
    }

    /// Whether a row of this candidate is what others are compared with.
    pub fn is_baseline(&self, imp: &str, provider: &str) -> bool {
        let Some(name) = self.baseline.as_deref() else {
            return false;
        };
        imp == name || provider == name || family(provider) == name
    }
}

/// Refuses a name that nobody has, or that cannot run here.
fn check_impl(name: &str, specs: &[Spec], sources: &[&dyn Source]) -> Result<(), Error> {
    let mut known: Vec<String> = Vec::new();
    for spec in specs {
        for source in sources {
            let names = source.names(&spec.name);
            if names.iter().any(|(n, _)| n == name) {
                return source.usable(&spec.name, name);
            }
            known.extend(names.into_iter().map(|(n, _)| n));
        }
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Err(unknown("implementation", name, &known))
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
    use super::super::candidate::{Candidate, Judge};
    use super::super::shape::Kind;
    use super::super::source::{Choice, Work};
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
        let (plan, specs) = Plan::new(1).checked_with(&[&Own]).unwrap();
        assert_eq!(specs.len(), Algorithm::ALL.len());
        assert_eq!(plan.ops_of(&specs[0]), [Op::Encrypt]);
        assert_eq!(plan.keys_of(&specs[0]), [256]);
        assert_eq!(plan.lens.0.len(), 8);
    }

    #[test]
    fn what_cannot_be_had() {
        assert!(fault(|p| p.algs = vec!["xts(ase)".into()]).contains("did you mean 'xts(aes)'"));
        assert!(fault(|p| p.ops = vec![Op::Digest]).contains("xts(aes) has none"));
        let digest = fault(|p| {
            p.algs = vec!["xts(aes)".into()];
            p.ops = vec![Op::Digest];
        });
        assert!(digest.contains("use --op encrypt,decrypt"), "{digest}");
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
        assert_eq!(plan.impls.len(), 2);
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

    /// A source with a hash and a cipher, beside Kiln's own.
    struct Foreign;

    impl Source for Foreign {
        fn algorithms(&self) -> Vec<Spec> {
            let spec = |name: &'static str, kind, key_bits| Spec {
                name: name.into(),
                kind,
                key_bits,
                iv: 16,
                prefix: 0,
                tag: 0,
                digest: 32,
            };
            vec![
                spec("sha256", Kind::Hash, vec![0]),
                spec("xts(aes)", Kind::Skcipher, vec![256]),
                spec("cbc(des)", Kind::Skcipher, vec![64]),
            ]
        }

        fn names(&self, alg: &str) -> Vec<(String, Level)> {
            vec![(format!("foreign-{alg}"), Level::Api)]
        }

        fn candidates(
            &self,
            _: &Work,
            _: Choice,
            _: &mut Vec<String>,
        ) -> Result<Vec<Candidate<'_>>, Error> {
            Ok(Vec::new())
        }

        fn judge(&self, _: &Work) -> Result<Option<Judge<'_>>, Error> {
            Ok(None)
        }
    }

    #[test]
    fn sources_add_their_algorithms_and_names() {
        let sources: [&dyn Source; 2] = [&Own, &Foreign];
        let (plan, specs) = Plan::new(1).checked_with(&sources).unwrap();
        let names: Vec<_> = specs.iter().map(|s| s.name.as_ref()).collect();
        assert_eq!(names, ["xts(aes)", "sha256", "cbc(des)"]);
        // Kiln's own description of what both have.
        assert_eq!(specs[0].key_bits, [128, 192, 256]);
        assert_eq!(plan.ops_of(&specs[1]), [Op::Digest]);
        assert_eq!(
            (plan.keys_of(&specs[1]), plan.keys_of(&specs[2])),
            (vec![0], vec![64])
        );
        assert!(Plan::new(1).checked_with(&sources[..1]).unwrap().1.len() == 1);

        let mut plan = Plan::new(1);
        plan.impls = vec!["foreign-sha256".into()];
        plan.baseline = Some("linux".into());
        let (plan, specs) = plan.checked_with(&sources).unwrap();
        assert_eq!(specs.len(), 1);
        assert!(plan.is_baseline("x", "linux-6.12.1"));
        let mut plan = Plan::new(1);
        plan.baseline = Some("linux".into());
        assert!(plan.checked().is_err(), "without a tree there is no linux");
    }
}
