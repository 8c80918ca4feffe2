//! The candidates and judges of one table, and the messages of each length with their expected
//! results.

use std::rc::Rc;

use kiln_measure::SplitMix64;
use kiln_question::Error;

use super::plan::Plan;
use kiln_timing::{
    Candidate, Judge, Kind, Layout, Level, Messages, Op, Reference, Shape, Source, Work, KILN,
};

/// The candidates of one table, which are compared with each other at every length.
pub(super) struct Table<'s> {
    pub work: Work,
    pub candidates: Vec<Candidate<'s>>,
    /// Implementations that compute the expected results. Candidates must agree with all of them.
    judges: Vec<Rc<Judge<'s>>>,
    /// Implementation that creates the ciphertexts for measuring AEAD decryption.
    sealer: Option<Judge<'s>>,
    seed: u64,
    chained: bool,
    layout: Layout,
}

/// Messages of one shape, their expected results, and the candidates that process them.
pub(super) struct Set<'s> {
    pub messages: Messages,
    pub references: Vec<Reference<'s>>,
    /// Table indices of the candidates that process these messages.
    pub candidates: Vec<usize>,
}

impl<'s> Table<'s> {
    /// Collects the candidates and judges of all sources.
    pub(super) fn new(
        plan: &Plan,
        work: Work,
        sources: &[&'s dyn Source],
        notes: &mut Vec<String>,
    ) -> Result<Table<'s>, Error> {
        let choice = plan.choice();
        let mut candidates = Vec::new();
        let mut judges = Vec::new();
        let mut sealer = None;
        for (i, source) in sources.iter().enumerate() {
            // In turns, only the other sources are compared. Kiln, the first source, still computes
            // the expected results.
            if i > 0 || plan.turn.is_none() {
                candidates.extend(source.candidates(&work, choice, notes)?);
            }
            judges.extend(source.judge(&work)?.map(Rc::new));
            if work.spec.kind == Kind::Aead && work.op == Op::Decrypt && sealer.is_none() {
                sealer = source.judge(&work.with_op(Op::Encrypt))?;
            }
        }
        // API calls to Kiln are compared only with libraries, so leave them out if no library is
        // measured.
        let is_library = |c: &Candidate| c.provider != KILN && c.family() != "linux";
        if plan.level.is_none() && !candidates.iter().any(is_library) {
            candidates.retain(|c| c.provider != KILN || c.level == Level::Primitive);
        }
        Ok(Table {
            work,
            candidates,
            judges,
            sealer,
            seed: plan.seed,
            chained: plan.latency,
            layout: plan.layout,
        })
    }

    /// Returns whether expected results are available for all candidates.
    pub(super) fn judged(&self) -> bool {
        !self.judges.is_empty() || self.candidates.iter().all(|c| c.judge.is_some())
    }

    /// Creates messages of `len` bytes for the candidates in `which` that accept this length: one
    /// set for each shape and judge.
    pub(super) fn sets(&self, len: usize, which: &[usize]) -> Result<Vec<Set<'s>>, String> {
        let mut sets: Vec<Set> = Vec::new();
        for &i in which {
            let candidate = &self.candidates[i];
            let mut shape = self.work.shape(len);
            shape.digest = candidate.digest.unwrap_or(shape.digest);
            if !candidate.takes.len(len) {
                continue;
            }
            let alike = |set: &&mut Set| {
                let of = &self.candidates[set.candidates[0]];
                set.messages.shape == shape && same(&of.judge, &candidate.judge)
            };
            if let Some(set) = sets.iter_mut().find(alike) {
                set.candidates.push(i);
                continue;
            }
            let messages = self.messages(shape)?;
            let judges = match &candidate.judge {
                Some(judge) => std::slice::from_ref(judge),
                None => &self.judges[..],
            };
            let references = judges
                .iter()
                .map(|judge| Reference::new(judge.clone(), &messages))
                .collect::<Result<_, _>>()?;
            sets.push(Set {
                messages,
                references,
                candidates: vec![i],
            });
        }
        Ok(sets)
    }

    /// Adapts random IVs and associated data to what the algorithm and the candidates accept.
    fn fit(&self, messages: &mut Messages) {
        let alg = &self.work.spec.name;
        fit(alg, messages);
        // chacha20poly1305_encrypt() in a tree's library uses only the last 8 bytes of the IV, so
        // set the first 4 bytes to 0.
        let library = self.candidates.iter().any(|c| c.level == Level::Library);
        if library && alg.starts_with("rfc7539(") {
            messages.ivs_mut().for_each(|iv| iv[..4].fill(0));
        }
    }

    fn messages(&self, shape: Shape) -> Result<Messages, String> {
        let rng = || SplitMix64(self.seed.wrapping_add((shape.len as u64) << 20));
        let random = |shape, chained| match self.layout {
            Layout::Plain => Messages::random(shape, chained, &mut rng()),
            Layout::Tcrypt | Layout::Kunit => Messages::so_many(1, shape, chained, &mut rng()),
        };
        let mut messages = random(shape, self.chained);
        self.fit(&mut messages);
        if let Some(sealer) = &self.sealer {
            let encrypted = Shape {
                op: Op::Encrypt,
                ..shape
            };
            let mut plain = random(encrypted, false);
            self.fit(&mut plain);
            let count = plain.count();
            (sealer.run)(&mut plain, count as u64)
                .map_err(|why| format!("{}: {why}", sealer.name))?;
            for i in 0..count {
                let sealed = plain.result(i)[shape.prefix..].to_vec();
                let prefix = plain.one_mut(i).1[..shape.prefix].to_vec();
                let to = messages.one_mut(i).1;
                to[..shape.prefix].copy_from_slice(&prefix);
                to[shape.prefix..].copy_from_slice(&sealed);
            }
        }
        Ok(messages)
    }
}

fn same(a: &Option<Rc<Judge>>, b: &Option<Rc<Judge>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

/// Adapts random IVs and associated data to what the algorithm accepts.
fn fit(alg: &str, messages: &mut Messages) {
    let alg = alg.trim_start_matches("__");
    if alg.starts_with("ccm(") {
        // SP 800-38C: the first byte of the IV gives the size of the length field, and the counter
        // after the nonce starts at 0.
        for iv in messages.ivs_mut() {
            iv[0] = 3;
            iv[12..].fill(0);
        }
    }
    if ["rfc4106(", "rfc4309(", "rfc4543(", "rfc7539esp("]
        .iter()
        .any(|name| alg.starts_with(name))
    {
        // In ESP, the associated data ends with the IV, so copy the IV there.
        let prefix = messages.shape.prefix;
        for i in 0..messages.count() {
            let (iv, src) = messages.one_mut(i);
            let at = prefix.saturating_sub(iv.len());
            src[at..prefix].copy_from_slice(&iv[iv.len() - (prefix - at)..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_measure::SplitMix64;

    use super::*;
    use kiln_timing::requests::candidate;
    use kiln_timing::Spec;

    /// Returns the work that a table measures for one algorithm and operation, with a fixed key.
    fn work(spec: &Spec, op: Op) -> Work {
        let key_bits = spec.usual_key();
        let mut key = vec![0; spec.key_bytes(key_bits)];
        SplitMix64(7).fill(&mut key);
        Work {
            spec: spec.clone(),
            op,
            key_bits,
            key: key.into(),
        }
    }

    fn plan(layout: Layout) -> Plan {
        Plan {
            level: Some(Level::Api),
            layout,
            impls: kiln_kernel::cipher::Impl::all()
                .iter()
                .map(|i| i.driver().to_string())
                .collect(),
            ..Plan::new(1)
        }
    }

    /// Returns whether a candidate's results for a set's messages agree with the judge.
    fn checked(set: &Set, candidate: &Candidate, judge: &Judge) -> bool {
        let count = set.messages.count() as u64;
        let mut right = set.messages.afresh();
        (judge.run)(&mut right, count).unwrap();
        let mut got = set.messages.afresh();
        // The candidate processes all messages twice, and the first message a third time.
        let ran = (candidate.run)(&mut got, 2 * count + 1);
        ran.is_ok_and(|()| got.compare(&right, count).is_ok())
    }

    #[test]
    fn every_driver_answers_what_its_function_does_in_both_layouts() {
        let mut drivers = 0;
        for layout in [Layout::Plain, Layout::Tcrypt] {
            let plan = plan(layout);
            let own = plan.own_source();
            for spec in own.algorithms() {
                for &op in spec.kind.ops() {
                    let sources: [&dyn Source; 1] = [&own];
                    let table = Table::new(&plan, work(&spec, op), &sources, &mut Vec::new());
                    let table = table.unwrap();
                    let judge = own.judge(&table.work).unwrap().unwrap();
                    let all: Vec<usize> = (0..table.candidates.len()).collect();
                    for len in [16, 64, 1024, 4096, 12_288] {
                        for set in table.sets(len, &all).unwrap() {
                            for &i in &set.candidates {
                                let candidate = &table.candidates[i];
                                let name = &candidate.name;
                                assert_eq!(candidate.level, Level::Api);
                                assert!(checked(&set, candidate, &judge), "{name} {op} {len} B");
                                drivers += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(drivers > 500, "{drivers}");
    }

    /// As a control, checks that a result computed with another key is rejected.
    #[test]
    fn a_driver_with_another_key_is_found() {
        for layout in [Layout::Plain, Layout::Tcrypt] {
            let plan = plan(layout);
            let own = plan.own_source();
            let specs = own.algorithms();
            let spec = specs.iter().find(|s| s.name == "gcm(aes)").unwrap();
            let sources: [&dyn Source; 1] = [&own];
            for op in [Op::Encrypt, Op::Decrypt] {
                let table = Table::new(&plan, work(spec, op), &sources, &mut Vec::new()).unwrap();
                let judge = own.judge(&table.work).unwrap().unwrap();
                let mut other = work(spec, op);
                other.key[31] ^= 1;
                let imp = kiln_question::Algorithm::named("gcm(aes)").unwrap().best();
                let wrong = candidate(imp, &other, layout).unwrap();
                let sets = table.sets(4096, &[0]).unwrap();
                assert!(checked(&sets[0], &table.candidates[0], &judge));
                assert!(!checked(&sets[0], &wrong, &judge));
            }
        }
    }
}
