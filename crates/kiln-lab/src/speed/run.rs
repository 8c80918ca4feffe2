//! The run: groups of candidates, one group for each operation, key size and length.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kiln_kernel::xts::{Impl, Key, Op};
use kiln_kernel::Tier;
use kiln_measure::verdict::FLOOR;
use kiln_measure::{ratio, verdict, Series, SplitMix64};
use zeroize::Zeroizing;

use super::bench::{bench, Entry, Reference};
use super::candidate::Candidate;
use super::effort;
use super::messages::Messages;
use super::plan::{Level, Plan};
use super::row::{Against, Row};
use crate::algorithm::op_name;
use crate::limits::{serial_cycles, xts_cycles};
use crate::peer::Peers;
use crate::{Algorithm, Error, Limits};

/// Told how much of the run is done, from 0 to 1, and what is being measured.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the order measured.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// The limits the rows are held against.
    pub limits: Limits,
    /// Somebody gave a wrong answer.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

/// Measures. `core_hz` is for the column of bytes a second alone.
pub fn run(
    plan: Plan,
    core_hz: f64,
    stop: &AtomicBool,
    progress: Progress,
) -> Result<Outcome, Error> {
    let plan = plan.checked()?;
    let mut outcome = Outcome::default();
    let peers = Peers::load(&plan.peers, &mut outcome.notes)?;
    progress(0.0, "limits");
    outcome.limits = Limits::measure(plan.seed, stop);
    let figures = (plan.impls_of(Algorithm::XtsAes).len() + usize::from(peers.openssl.is_some()))
        * plan.lens.0.len()
        * plan.ops.len()
        * plan.key_bits.len();
    let mut run = Run {
        effort: effort::plan(plan.lens.0.len(), figures, plan.quick, plan.seed),
        plan: &plan,
        core_hz,
        stop,
        progress,
        outcome,
        left_out: 0,
        done: 0,
        groups: plan.algs.len() * plan.ops.len() * plan.key_bits.len() * plan.lens.0.len(),
    };
    for &alg in &plan.algs {
        run.note_absent(alg);
        for &op in &plan.ops {
            for &key_bits in &plan.key_bits {
                run.curves(&Kind { alg, op, key_bits }, &peers)?;
            }
        }
    }
    Ok(run.finish())
}

/// What all candidates of a group do.
pub(super) struct Kind {
    pub alg: Algorithm,
    pub op: Op,
    pub key_bits: u32,
}

impl Kind {
    pub fn what(&self, len: usize) -> String {
        format!(
            "{} {}, {len} B",
            self.alg.title(self.key_bits),
            op_name(self.op)
        )
    }
}

pub(super) struct Run<'a> {
    pub plan: &'a Plan,
    pub effort: kiln_measure::Plan,
    pub core_hz: f64,
    pub stop: &'a AtomicBool,
    pub progress: Progress<'a>,
    pub outcome: Outcome,
    pub left_out: usize,
    pub done: usize,
    pub groups: usize,
}

impl Run<'_> {
    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn late(&self) -> bool {
        self.effort
            .deadline
            .is_some_and(|end| Instant::now() >= end)
    }

    /// All lengths of one operation and key size.
    fn curves(&mut self, kind: &Kind, peers: &Peers) -> Result<(), Error> {
        let mut rng = SplitMix64(self.plan.seed ^ u64::from(kind.key_bits) << 32);
        let mut raw = Zeroizing::new(vec![0; kind.alg.key_bytes(kind.key_bits)]);
        rng.fill(&mut raw);
        let key = Key::new(&raw).map_err(|e| Error::Failed(e.to_string()))?;
        let mut candidates: Vec<Candidate> = self
            .plan
            .impls_of(kind.alg)
            .into_iter()
            .map(|imp| Candidate::xts(imp, &key))
            .collect();
        if let Some(openssl) = &peers.openssl {
            match openssl.candidate(&raw, kind.op) {
                Ok(candidate) => candidates.push(candidate),
                Err(why) => self.outcome.notes.push(format!("{why}: no rows of it")),
            }
        }
        if let Some(name) = &self.plan.baseline {
            let is_here = |c: &Candidate| self.plan.is_baseline(&c.name, &c.provider);
            if !candidates.iter().any(is_here) {
                self.outcome.notes.push(format!(
                    "no ratios for {}: baseline {name} is not among what was measured",
                    kind.alg.title(kind.key_bits)
                ));
            }
        }
        let first = self.outcome.rows.len();
        for &len in &self.plan.lens.0 {
            if self.stopped() || self.late() {
                self.left_out += 1;
            } else {
                self.group(kind, len, &candidates, &key)?;
            }
            self.done += 1;
        }
        if self.plan.lens.0.len() > effort::SWEEP {
            self.look_again(kind, first, &candidates, &key)?;
        }
        Ok(())
    }

    pub(super) fn messages(&self, kind: &Kind, len: usize) -> Messages {
        let mut rng = SplitMix64(self.plan.seed.wrapping_add((len as u64) << 20));
        Messages::random(kind.op, len, self.plan.latency, &mut rng)
    }

    pub(super) fn reference<'k>(key: &'k Key, messages: &Messages) -> Result<Reference<'k>, Error> {
        let generic = Impl::all()[0];
        Reference::new(generic, key, messages).map_err(Error::Failed)
    }

    /// One length: all candidates, interleaved.
    fn group(
        &mut self,
        kind: &Kind,
        len: usize,
        candidates: &[Candidate],
        key: &Key,
    ) -> Result<(), Error> {
        let messages = self.messages(kind, len);
        let reference = Self::reference(key, &messages)?;
        let entries = candidates
            .iter()
            .map(|c| Entry::new(c, &messages))
            .collect();
        let references = vec![&reference; candidates.len()];
        let what = kind.what(len);
        let (done, groups) = (self.done as f64, self.groups as f64);
        let tell = &mut self.progress;
        let timed = bench(
            entries,
            &references,
            &self.effort,
            self.stop,
            &mut |n, of| {
                tell((done + n as f64 / of as f64) / groups, &what);
            },
        );
        let baseline = candidates
            .iter()
            .position(|c| self.plan.is_baseline(&c.name, &c.provider));
        let baseline = baseline.and_then(|i| timed[i].as_ref().ok());
        let mut rows = Vec::new();
        for (candidate, timed) in candidates.iter().zip(&timed) {
            match timed {
                Ok(series) => {
                    let row = self.row(kind, len, candidate, series, baseline);
                    if row.measured() {
                        rows.push(row);
                    } else if !self.stopped() && !self.late() {
                        self.outcome.notes.push(format!(
                            "no figure for {}, {what}: every sample was disturbed",
                            candidate.name
                        ));
                        rows.push(row);
                    }
                }
                Err(why) => self.wrong(&what, candidate, why),
            }
        }
        self.outcome.rows.append(&mut rows);
        Ok(())
    }

    fn row(
        &self,
        kind: &Kind,
        len: usize,
        candidate: &Candidate,
        series: &Series,
        baseline: Option<&Series>,
    ) -> Row {
        let limits = &self.outcome.limits;
        let bits = kind.key_bits;
        let throughput = candidate
            .tier
            .and_then(|t| xts_cycles(limits, t, bits, len));
        let chain = candidate
            .tier
            .filter(|_| self.plan.latency)
            .and_then(|t| serial_cycles(limits, t, bits));
        let mut row = Row {
            alg: kind.alg.name(),
            imp: candidate.name.to_string(),
            provider: candidate.provider.clone(),
            tier: candidate.tier.map(Tier::name),
            level: match self.plan.level {
                Level::Primitive => "primitive",
            },
            op: op_name(kind.op),
            key_bits: bits,
            len,
            latency: self.plan.latency,
            cycles_per_op: f64::NAN,
            cycles_per_byte: f64::NAN,
            mb_per_s: f64::NAN,
            ci_low: f64::NAN,
            ci_high: f64::NAN,
            limit_cycles: throughput.map(|t| chain.map_or(t, |c| c.max(t))),
            chain_cycles: chain,
            against: self
                .plan
                .baseline
                .as_ref()
                .map(|_| against(series, baseline)),
        };
        if let Some(estimate) = series.estimate() {
            row.set(&estimate, self.core_hz);
        }
        row
    }

    pub(super) fn wrong(&mut self, what: &str, candidate: &Candidate, why: &str) {
        let Candidate { name, provider, .. } = candidate;
        let is_peer = provider != super::KILN;
        // A peer that nobody asked for by name has no part in this command's success.
        let family = provider.split('-').next().unwrap_or_default();
        self.outcome.failed |= !is_peer || self.plan.peers.names(family);
        self.outcome.notes.push(format!(
            "WRONG ANSWER: {provider} {name}, {what}: {why}: no figure"
        ));
    }

    fn note_absent(&mut self, alg: Algorithm) {
        if !self.plan.impls.is_empty() {
            return;
        }
        for imp in alg.impls().into_iter().filter(|i| !i.tier().usable()) {
            let why = crate::tiers::reason(imp.tier());
            self.outcome.notes.push(format!("{}: {why}", imp.driver()));
        }
    }

    fn finish(self) -> Outcome {
        let mut outcome = self.outcome;
        outcome.interrupted = self.stop.load(Ordering::Relaxed);
        let notes = &mut outcome.notes;
        // Encryption and decryption may have the same to say.
        let mut said = HashSet::new();
        notes.retain(|note| said.insert(note.clone()));
        if self.left_out > 0 {
            let why = if outcome.interrupted {
                "interrupted"
            } else {
                "the time of --quick was over: ask for fewer, or leave --quick out"
            };
            notes.push(format!(
                "{} of {} lengths not measured: {why}",
                self.left_out, self.groups
            ));
        }
        if self.plan.latency {
            notes.push(
                "dependent calls: each IV is the last result's first block; the limit includes the serial chain"
                    .to_string(),
            );
        }
        notes.push(format!(
            "±, ci_low, ci_high: where the figure of a rerun falls; limit: the AES rounds alone, at the fastest \
             tier's rate; MB/s: at {:.3} GHz",
            self.core_hz / 1e9
        ));
        outcome
    }
}

fn against(series: &Series, baseline: Option<&Series>) -> Against {
    match baseline.and_then(|b| ratio(series, b)) {
        Some(r) => Against {
            ratio: Some(r.ratio),
            ratio_low: Some(r.low),
            ratio_high: Some(r.high),
            verdict: Some(verdict(&r, FLOOR)),
        },
        None => Against::default(),
    }
}
