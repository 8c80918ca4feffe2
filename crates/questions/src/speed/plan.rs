//! The request to `kiln speed`: what to measure, and the validation of the choices.

use std::time::Duration;

use kiln_kernel::cipher::Kind;
use kiln_question::algorithm::unknown_algorithm;
use kiln_question::lens::{Lens, LONGEST};
use kiln_question::{unknown, Algorithm, Error, Share};
use kiln_record::family;

use super::cores::Cores;
use super::effort::SWEEP;
use kiln_timing::peer::{self, Wanted};
use kiln_timing::{Choice, Layout, Level, Op, Own, Source, Spec, KILN};

/// What to measure. An empty list selects the default.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Algorithms, by their names in the kernel. If empty, all algorithms.
    pub algs: Vec<String>,
    /// Driver names and symbols. If empty, all implementations that can run here.
    pub impls: Vec<String>,
    /// Operations. If empty, all operations are measured, unless algorithms or implementations are
    /// named. In that case, only the first operation of each algorithm is measured.
    pub ops: Vec<Op>,
    pub lens: Lens,
    /// Key sizes in bits. If empty, 256, or the largest size that an algorithm supports.
    pub key_bits: Vec<u32>,
    /// Level. `None` selects `primitive` for Kiln's own implementations, and all levels for a tree.
    pub level: Option<Level>,
    /// Memory layout of the requests' buffers.
    pub layout: Layout,
    /// Whether each call depends on the previous one: its IV is taken from the previous call's
    /// result.
    pub latency: bool,
    pub peers: Wanted,
    /// An implementation or provider to compare all rows with, if any.
    pub baseline: Option<String>,
    /// Seed for the keys, the data and the order of samples.
    pub seed: u64,
    /// Whether to finish in about 20 s.
    pub quick: bool,
    /// Maximum measuring time. With less time, intervals are wider.
    pub within: Option<Duration>,
    /// Approximate maximum duration of this turn, if the run is one of many turns. In turns, Kiln's
    /// own implementations and the hardware limits are not measured.
    pub turn: Option<Duration>,
    /// Whether Kiln's functions are also measured with cold caches.
    pub cold: bool,
    /// The cores on which threads run each candidate at the same time, with one thread per core.
    /// `None` if a single thread measures.
    pub cores: Option<Cores>,
    /// Whether Kiln's own implementations are candidates.
    pub own: bool,
    /// The share of all tables and lengths that this process measures.
    pub share: Share,
}

impl Plan {
    /// Creates a plan with the default values.
    pub fn new(seed: u64) -> Plan {
        Plan {
            algs: Vec::new(),
            impls: Vec::new(),
            ops: Vec::new(),
            lens: Lens::default(),
            key_bits: Vec::new(),
            level: None,
            layout: Layout::Plain,
            latency: false,
            peers: Wanted::Auto,
            baseline: None,
            seed,
            quick: false,
            within: None,
            turn: None,
            cold: false,
            cores: None,
            own: true,
            share: Share::default(),
        }
    }

    /// Checks that Kiln's own implementations can do what the plan requests.
    pub fn checked(self) -> Result<Plan, Error> {
        let own = self.own_source();
        self.checked_with(&[&own]).map(|(plan, _)| plan)
    }

    /// Returns the source of Kiln's own implementations for this plan: the drivers behind the
    /// crypto API if that level was requested, otherwise the functions.
    pub(super) fn own_source(&self) -> Own {
        match self.level {
            Some(Level::Api) => Own::Requests(self.layout),
            _ => Own::Functions,
        }
    }

    /// Returns which candidates the plan selects.
    pub(super) fn choice(&self) -> Choice<'_> {
        Choice {
            impls: &self.impls,
            level: self.level,
            latency: self.latency,
        }
    }

    /// Checks that these sources can do what the plan requests, and determines the algorithms.
    pub(super) fn checked_with(
        mut self,
        sources: &[&dyn Source],
    ) -> Result<(Plan, Vec<Spec>), Error> {
        dedup(&mut self.algs);
        dedup(&mut self.ops);
        dedup(&mut self.key_bits);
        dedup(&mut self.impls);
        self.check_level()?;
        let specs = self.specs(sources)?;
        self.check_lens()?;
        for name in &self.impls {
            check_impl(name, &specs, sources)?;
        }
        for spec in &specs {
            self.check_keys(spec)?;
        }
        self.check_ops(&specs)?;
        self.check_latency(&specs)?;
        self.check_baseline(&specs, sources)?;
        Ok((self, specs))
    }

    /// Checks that the layout and the libraries are compatible with the level. tcrypt's layout
    /// requires the `api` level. Libraries support neither the `api` nor the `library` level.
    fn check_level(&mut self) -> Result<(), Error> {
        if self.level == Some(Level::Library) {
            self.check_peers("library", "other libraries are not a kernel's")?;
        }
        if self.level != Some(Level::Api) {
            return match self.layout {
                Layout::Plain | Layout::Kunit => Ok(()),
                Layout::Tcrypt => Err(Error::input(
                    "--layout tcrypt: functions take one piece of memory: add --level api",
                )),
            };
        }
        self.check_peers("api", "libraries have functions only")
    }

    /// Excludes libraries, because no library supports the requested level. Fails if a library was
    /// named.
    fn check_peers(&mut self, level: &str, why: &str) -> Result<(), Error> {
        if let (Wanted::Named(_), _) | (_, Some(_)) = (&self.peers, self.baseline_peer()) {
            return Err(Error::input(format!(
                "--level {level}: {why}: name none of them, or leave --level {level} out",
            )));
        }
        self.peers = Wanted::None;
        Ok(())
    }

    /// Returns the requested algorithms, or all algorithms. Those of the first source come first.
    fn specs(&self, sources: &[&dyn Source]) -> Result<Vec<Spec>, Error> {
        let mut all: Vec<Spec> = Vec::new();
        for spec in sources.iter().flat_map(|s| s.algorithms()) {
            // Poly1305 exists in two forms. In the first, the key is set once. In the second, which
            // only kernels have, each message is prefixed with its key. Specs of different forms
            // must not be merged, so compare the prefix as well.
            let same = |s: &&mut Spec| s.name == spec.name && s.prefix == spec.prefix;
            match all.iter_mut().find(same) {
                Some(first) => first.more.extend(spec.more),
                None => all.push(spec),
            }
        }
        let names: Vec<&str> = all.iter().map(|s| s.name.as_ref()).collect();
        if !self.algs.is_empty() {
            let mut asked = Vec::new();
            for name in &self.algs {
                let before = asked.len();
                asked.extend(all.iter().filter(|s| s.name == *name).cloned());
                if asked.len() == before {
                    return Err(unknown_algorithm(name, &names));
                }
            }
            return Ok(asked);
        }
        // If no algorithm is named, select the algorithms of the named implementations.
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
            let own = !self.algs.is_empty() && Algorithm::named(&spec.name).is_some();
            if own && spec.key_bits == [0] {
                return Err(Error::input(format!(
                    "--key-bits {bits}: {} has no key sizes to choose from: leave this option out",
                    spec.name
                )));
            }
            if own && spec.key_bits != [0] && !spec.key_bits.contains(bits) {
                let sizes: Vec<_> = spec.key_bits.iter().map(u32::to_string).collect();
                let two = match spec.name.starts_with("xts(") {
                    true => ": XTS has two keys; give the size of one",
                    false => "",
                };
                return Err(Error::input(format!(
                    "--key-bits {bits}: the keys of {} have {} bits{two}",
                    spec.name,
                    sizes.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Checks that at least one of the named algorithms supports dependent calls.
    fn check_latency(&self, specs: &[Spec]) -> Result<(), Error> {
        let chains = |spec: &Spec| spec.shape(Op::Encrypt, usize::MAX).chains();
        if !self.latency || self.algs.is_empty() || specs.iter().any(chains) {
            return Ok(());
        }
        Err(Error::input(format!(
            "--latency: calls of {} cannot be made to depend on each other by their IVs: name a cipher with an IV, such as \
             'xts(aes)'",
            self.algs.join(", ")
        )))
    }

    /// Checks that each named algorithm supports at least one of the requested operations. If no
    /// algorithm is named, a single algorithm that does so is enough.
    fn check_ops(&self, specs: &[Spec]) -> Result<(), Error> {
        let lacks = |spec: &&Spec| self.ops.iter().all(|op| !spec.kind.ops().contains(op));
        let lacking = match (self.ops.is_empty(), self.algs.is_empty()) {
            (true, _) => None,
            (false, false) => specs.iter().find(lacks),
            (false, true) if specs.iter().all(|s| lacks(&s)) => specs.first(),
            (false, true) => None,
        };
        let Some(spec) = lacking else { return Ok(()) };
        let names: Vec<_> = spec.kind.ops().iter().map(|op| op.name()).collect();
        Err(Error::input(format!(
            "operation '{}': {} has none: use --op {}",
            self.ops[0],
            spec.name,
            names.join(",")
        )))
    }

    /// Returns whether everything is measured, because neither algorithms nor implementations were
    /// named.
    pub fn whole(&self) -> bool {
        self.algs.is_empty() && self.impls.is_empty()
    }

    /// Returns the operations to measure for an algorithm.
    pub(super) fn ops_of(&self, spec: &Spec) -> Vec<Op> {
        let has = spec.kind.ops();
        match self.ops.is_empty() {
            true if self.whole() => has.to_vec(),
            true => has[..1].to_vec(),
            false => self
                .ops
                .iter()
                .copied()
                .filter(|op| has.contains(op))
                .collect(),
        }
    }

    /// Returns the key sizes to measure for an algorithm.
    pub(super) fn keys_of(&self, spec: &Spec) -> Vec<u32> {
        if self.key_bits.is_empty() || spec.key_bits == [0] {
            return vec![spec.usual_key()];
        }
        let has = |bits: &u32| spec.key_bits.contains(bits);
        self.key_bits.iter().copied().filter(has).collect()
    }

    /// Checks the lengths in advance: they must be within the limits, and each named algorithm that
    /// Kiln implements must accept them. Other implementations are left out at lengths that they do
    /// not accept.
    fn check_lens(&self) -> Result<(), Error> {
        let lens = &self.lens.0;
        let (Some(&first), Some(&last)) = (lens.first(), lens.last()) else {
            return Err(Error::input("no lengths: name one with --len"));
        };
        if last > LONGEST {
            return Err(Error::input(format!(
                "length {last}: no more than {LONGEST} bytes are measured"
            )));
        }
        if self.cold && lens.len() > SWEEP {
            return Err(Error::input(format!(
                "--cold: {} lengths: at most {SWEEP} are measured with cold caches",
                lens.len()
            )));
        }
        for alg in self.algs.iter().filter_map(|name| Algorithm::named(name)) {
            let shortest = match alg.kind() {
                // A request without bytes has no cycles per byte, so require at least one byte.
                Kind::Skcipher => alg.shortest().max(1),
                _ => alg.shortest(),
            };
            if first < shortest {
                return Err(Error::input(format!(
                    "length {first}: {alg} takes at least {shortest} byte{}",
                    if shortest == 1 { "" } else { "s" }
                )));
            }
            let part = lens.iter().find(|len| *len % alg.block() != 0);
            if let Some(len) = part.filter(|_| !self.usual_lens()) {
                return Err(Error::input(format!(
                    "length {len}: {alg} takes whole blocks of {} bytes",
                    alg.block()
                )));
            }
        }
        Ok(())
    }

    /// Returns whether the default lengths are used.
    fn usual_lens(&self) -> bool {
        self.lens == Lens::default()
    }

    /// Returns the lengths to measure for an algorithm. Default lengths are rounded up to whole
    /// blocks, as in tcrypt. For functions that accept only a few lengths, those lengths are added
    /// to the default ones.
    pub(super) fn lens_of(&self, spec: &Spec) -> Vec<usize> {
        let fit = |len: usize| match self.usual_lens() {
            true => len.next_multiple_of(spec.takes.multiple.max(1)),
            false => len,
        };
        let lens = self.lens.0.iter().map(|&len| fit(len));
        let mut lens: Vec<usize> = lens.filter(|&len| spec.takes.len(len)).collect();
        if self.usual_lens() {
            lens.extend(&spec.more);
            lens.sort_unstable();
            lens.dedup();
        }
        lens
    }

    fn check_baseline(&mut self, specs: &[Spec], sources: &[&dyn Source]) -> Result<(), Error> {
        let Some(name) = self.baseline.clone() else {
            return Ok(());
        };
        if name == KILN {
            // `kiln` selects the best implementation of each algorithm as the baseline: see
            // `is_baseline`.
            if !self.impls.is_empty() {
                let algs = specs.iter().filter_map(|s| Algorithm::named(&s.name));
                let best = algs.map(|a| a.best().driver().to_string());
                self.impls.extend(best.collect::<Vec<_>>());
                dedup(&mut self.impls);
            }
            return Ok(());
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
                Wanted::Auto => Ok(()),
                Wanted::Named(names) => {
                    if !names.iter().any(|n| n == peer) {
                        names.push(peer.to_string());
                    }
                    Ok(())
                }
            };
        }
        if family(&name) == "linux" {
            return match sources.len() > 1 {
                true => Ok(()),
                false => Err(Error::input(format!(
                    "--baseline {name} is the code of a kernel tree: add --tree DIR"
                ))),
            };
        }
        let known: Vec<&str> = [KILN]
            .into_iter()
            .chain(names.iter().map(String::as_str))
            .chain(peer::NAMES)
            .collect();
        Err(unknown("baseline", &name, &known))
    }

    /// Adds the baseline to the requested implementations unless it is already one of them.
    fn take_part(&mut self, name: String) -> Result<(), Error> {
        if !self.impls.is_empty() && !self.impls.contains(&name) {
            self.impls.push(name.clone());
        }
        self.baseline = Some(name);
        Ok(())
    }

    /// Returns the name of the library that serves as the baseline; `None` if the baseline is not a
    /// library.
    pub(super) fn baseline_peer(&self) -> Option<&'static str> {
        let name = family(self.baseline.as_deref()?);
        peer::NAMES.into_iter().find(|p| *p == name)
    }

    /// Returns whether implementation `imp` from `provider` is the baseline.
    pub(super) fn is_baseline(&self, imp: &str, provider: &str) -> bool {
        let Some(name) = self.baseline.as_deref() else {
            return false;
        };
        if name == KILN {
            return provider == KILN && Algorithm::all().iter().any(|a| a.best().driver() == imp);
        }
        imp == name || provider == name || family(provider) == name
    }
}

/// Rejects `name` if no source has an implementation with this name, or if it cannot run here.
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

/// Removes duplicates from a list and keeps the first occurrence of each value.
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
    use kiln_timing::{Candidate, Judge, Kind, Takes, Work};

    fn fault(change: impl FnOnce(&mut Plan)) -> String {
        let mut plan = Plan::new(1);
        change(&mut plan);
        let e = plan.checked().unwrap_err();
        assert_eq!(e.exit_code(), 2, "{e}");
        e.to_string()
    }

    #[test]
    fn requests_are_kilns_own() {
        let api = |plan: &mut Plan| plan.level = Some(Level::Api);
        let told = fault(|p| p.layout = Layout::Tcrypt);
        assert!(told.contains("add --level api"), "{told}");
        let told = fault(|p| {
            api(p);
            p.baseline = Some("openssl".into());
        });
        assert!(told.contains("libraries have functions only"), "{told}");
        let mut plan = Plan::new(1);
        api(&mut plan);
        assert_eq!(plan.checked().unwrap().peers, Wanted::None);
    }

    #[test]
    fn the_usual() {
        let (plan, specs) = Plan::new(1).checked_with(&[&Own::Functions]).unwrap();
        assert_eq!(specs.len(), Algorithm::all().len());
        let ecb = specs.iter().find(|s| s.name == "ecb(aes)").unwrap();
        assert_eq!(plan.ops_of(ecb), [Op::Encrypt, Op::Decrypt]);
        assert_eq!(plan.keys_of(ecb), [256]);
        assert_eq!(plan.lens.0.len(), 8);
    }

    #[test]
    fn what_cannot_be_had() {
        assert!(fault(|p| p.algs = vec!["xts(ase)".into()]).contains("did you mean 'xts(aes)'"));
        assert!(fault(|p| p.algs = vec!["xts-aes-aesni".into()]).contains("--impl xts-aes-aesni"));
        let digest = fault(|p| {
            p.algs = vec!["xts(aes)".into()];
            p.ops = vec![Op::Digest];
        });
        assert!(digest.contains("use --op encrypt,decrypt"), "{digest}");
        let of = |alg: &str, lens: &[usize]| {
            fault(|p| {
                p.algs = vec![alg.into()];
                p.lens = Lens(lens.to_vec());
            })
        };
        assert!(of("xts(aes)", &[15, 64]).contains("length 15"));
        assert!(of("cbc(aes)", &[64, 1420]).contains("length 1420"));
        assert!(fault(|p| p.lens = Lens(vec![16, 1 << 30])).contains("no more than"));
        let sweep = fault(|p| {
            p.cold = true;
            p.lens = Lens((16..100).collect());
        });
        assert!(sweep.contains("84 lengths: at most 64"), "{sweep}");
        let size = fault(|p| {
            p.algs = vec!["gcm(aes)".into()];
            p.key_bits = vec![512];
        });
        assert!(size.contains("--key-bits 512"), "{size}");
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
        assert_eq!(plan.baseline_peer(), Some("openssl"));
        assert!(plan.is_baseline("EVP_aes_256_xts", "openssl-3.0.17"));
        plan.baseline = Some("openssl-3.5.0".into());
        assert!(!plan.is_baseline("EVP_aes_256_xts", "openssl-3.0.17"));
    }

    /// A source with three algorithms: a hash and a cipher that Kiln also has, and a cipher that
    /// Kiln does not have.
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
                takes: Takes::default(),
                more: Vec::new(),
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
        let sources: [&dyn Source; 2] = [&Own::Functions, &Foreign];
        let (plan, specs) = Plan::new(1).checked_with(&sources).unwrap();
        let names: Vec<_> = specs.iter().map(|s| s.name.as_ref()).collect();
        let own = Algorithm::all().len();
        assert_eq!((names.len(), names[own]), (own + 1, "cbc(des)"));
        let of = |name: &str| specs.iter().find(|s| s.name == name).unwrap();
        // If both Kiln and another source have an algorithm, Kiln's description of it is used.
        assert_eq!(of("xts(aes)").key_bits, [128, 192, 256]);
        assert_eq!(plan.ops_of(of("sha256")), [Op::Digest]);
        assert_eq!(plan.keys_of(of("sha256")), [0]);
        assert_eq!(plan.keys_of(of("cbc(des)")), [64]);
        assert_eq!(plan.keys_of(of("nhpoly1305")), [8704]);
        assert_eq!(plan.keys_of(of("rfc4106(gcm(aes))")), [256]);
        assert_eq!(plan.lens_of(of("cbc(aes)"))[5], 1424);
        assert_eq!(
            Plan::new(1).checked_with(&sources[..1]).unwrap().1.len(),
            own
        );

        let mut plan = Plan::new(1);
        plan.impls = vec!["foreign-sha256".into()];
        plan.baseline = Some("linux".into());
        let (plan, specs) = plan.checked_with(&sources).unwrap();
        assert_eq!(specs.len(), 1);
        assert!(plan.is_baseline("x", "linux-6.12.1"));
        let mut plan = Plan::new(1);
        plan.baseline = Some("linux".into());
        let e = plan.checked().unwrap_err().to_string();
        assert!(e.contains("add --tree DIR"), "{e}");
    }
}
