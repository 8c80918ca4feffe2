//! Measures tables of candidates, one for each algorithm, operation and key size.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kiln_kernel::{Evictor, Tier};
use kiln_measure::{Series, SplitMix64};
use kiln_question::{Algorithm, Error, Outcome, Report};
use zeroize::Zeroizing;

use super::best;
use super::counters;
use super::effort;
use super::kunit;
use super::multi::bench_all;
use super::plan::Plan;
use super::row::{Against, Row};
use super::set::{Set, Table};
use super::sources::Sources;
use crate::limits::{serial_cycles, xts_cycles, Limits};
use kiln_timing::peer::release;
use kiln_timing::{bench_cold, Candidate, Entry, Layout, Level, Op, Reference, Source, Spec, Work};

/// Measures Kiln's own implementations and other libraries.
pub fn run(plan: Plan, stop: &AtomicBool, progress: Report<'_>) -> Result<Outcome<Row>, Error> {
    run_with(plan, &[], stop, progress)
}

/// Measures Kiln's own implementations, other libraries and the sources in `others`.
pub(crate) fn run_with(
    plan: Plan,
    others: &[&dyn Source],
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let own = plan.own_source();
    let mut sources: Vec<&dyn Source> = Vec::new();
    if plan.own {
        sources.push(&own);
    }
    sources.extend(others);
    let (plan, specs) = plan.checked_with(&sources)?;
    let mut outcome = Outcome::default();
    let loaded = Sources::load(&plan, &mut outcome.notes)?;
    let sources = loaded.list(others);
    progress(0.0, "limits");
    let limits = match plan.turn {
        None => Limits::measure(plan.seed, stop),
        Some(_) => Limits::default(),
    };
    let works = specs.iter().flat_map(|spec| works(&plan, spec)).collect();
    let tables = select(&plan, works);
    let lens = plan.lens.0.len();
    let groups: usize = tables.iter().map(|(_, lens)| lens.len()).sum();
    let figures = tables
        .iter()
        .map(|(w, lens)| (candidates(&plan, &sources, w) + loaded.libraries()) * lens.len());
    // Several threads warm up for as long as a sample takes, and calls with cold caches take half
    // of the time limit. In both cases, count each result twice, so that it gets half of the time.
    let twice = plan.cores.is_some() || plan.cold;
    let figures = figures.sum::<usize>() * if twice { 2 } else { 1 };
    let effort = match (plan.turn, plan.within) {
        (Some(budget), _) => effort::turn(figures, budget, plan.seed),
        (None, Some(budget)) => effort::within(figures, budget, plan.seed),
        (None, None) => effort::plan(lens, figures, plan.quick, plan.seed),
    };
    let mut run = Run {
        cold: plan
            .cold
            .then(|| (effort::cold(figures / 2, &effort), Evictor::new())),
        effort,
        plan: &plan,
        stop,
        progress,
        outcome,
        limits,
        left_out: 0,
        done: 0,
        groups,
    };
    for (work, lens) in tables {
        run.table(work, &lens, &sources)?;
    }
    Ok(run.finish())
}

/// Returns the requested tables of an algorithm: one for each operation and key size.
pub(super) fn works(plan: &Plan, spec: &Spec) -> Vec<Work> {
    let mut works = Vec::new();
    for op in plan.ops_of(spec) {
        for key_bits in plan.keys_of(spec) {
            let mut rng = SplitMix64(plan.seed ^ u64::from(key_bits) << 32);
            let mut key = Zeroizing::new(vec![0; spec.key_bytes(key_bits)]);
            rng.fill(&mut key);
            works.push(Work {
                spec: spec.clone(),
                op,
                key_bits,
                key,
            });
        }
    }
    works
}

/// Selects this shard's tables and lengths. All candidates at one length are compared with each
/// other, so they stay in one shard.
fn select(plan: &Plan, works: Vec<Work>) -> Vec<(Work, Vec<usize>)> {
    let all = works.iter().enumerate();
    let all = all.flat_map(|(w, work)| plan.lens_of(&work.spec).into_iter().map(move |n| (w, n)));
    let what = |&(w, len): &(usize, usize)| works[w].what(len);
    let own = plan.share.select(all.collect(), what);
    let lens = |w| {
        own.iter()
            .filter(move |(of, _)| *of == w)
            .map(|(_, len)| *len)
    };
    let lens: Vec<Vec<usize>> = (0..works.len()).map(|w| lens(w).collect()).collect();
    let tables = works.into_iter().zip(lens);
    // In a run without shards, keep tables without lengths, because a note explains why they have
    // no lengths.
    let divided = plan.share.shard().is_some();
    tables
        .filter(|(_, lens)| !(divided && lens.is_empty()))
        .collect()
}

/// Estimates the number of candidates in a table.
fn candidates(plan: &Plan, sources: &[&dyn Source], work: &Work) -> usize {
    let choice = plan.choice();
    let names = sources.iter().flat_map(|s| s.names(&work.spec.name));
    let wanted = names.filter(|(name, level)| choice.wants(name, *level));
    wanted.count()
}

pub(super) struct Run<'a> {
    pub plan: &'a Plan,
    pub effort: kiln_measure::Plan,
    /// The plan for calls with cold caches, and the memory that is read to evict everything from
    /// the caches.
    cold: Option<(kiln_measure::Plan, Evictor)>,
    pub stop: &'a AtomicBool,
    pub progress: Report<'a>,
    pub outcome: Outcome<Row>,
    /// The hardware limits to compare rows with.
    limits: Limits,
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

    /// Measures one table at the lengths `lens`. If the time is up, only counts them as left out.
    fn table(&mut self, work: Work, lens: &[usize], sources: &[&dyn Source]) -> Result<(), Error> {
        if self.stopped() || self.late() {
            self.left_out += lens.len();
            self.done += lens.len();
            return Ok(());
        }
        let all = self.plan.lens_of(&work.spec);
        if all != self.plan.lens.0 {
            let Spec { takes, more, .. } = &work.spec;
            let why = match more.is_empty() {
                true => format!(
                    "takes whole blocks of {} bytes, {} at least",
                    takes.multiple, takes.least
                ),
                false => "some functions take short messages only".to_string(),
            };
            self.outcome.notes.push(format!(
                "{}: {why}: lengths are {}",
                work.spec.name,
                self.lens_told(&all)
            ));
        }
        let table = Table::new(self.plan, work, sources, &mut self.outcome.notes)?;
        let title = table.work.spec.title(table.work.key_bits);
        if !table.judged() {
            self.outcome.notes.push(format!(
                "{title}: the right answers are unknown: no results"
            ));
            self.done += lens.len();
            return Ok(());
        }
        if let Some(name) = &self.plan.baseline {
            let is_here = |c: &Candidate| self.plan.is_baseline(&c.name, &c.provider);
            if !table.candidates.iter().any(is_here) {
                self.outcome.notes.push(format!(
                    "no ratios for {title}: baseline {name} is not among what was measured"
                ));
            }
        }
        let first = self.outcome.rows.len();
        for &len in lens {
            if self.stopped() || self.late() {
                self.left_out += 1;
            } else if self.plan.latency && !table.work.shape(len).chains() {
                self.outcome.notes.push(format!(
                    "{title}: calls cannot be made to depend on each other by their IVs: no figures with --latency"
                ));
            } else {
                self.group(&table, len)?;
            }
            self.done += 1;
        }
        if lens.len() > effort::SWEEP {
            self.look_again(&table, first)?;
        }
        Ok(())
    }

    fn lens_told(&self, lens: &[usize]) -> String {
        match lens.len() {
            0 => "none of those asked for".to_string(),
            n if n > effort::SWEEP => format!("{n} of {}", self.plan.lens.0.len()),
            _ => lens
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// Measures one length: all candidates that accept it, interleaved.
    fn group(&mut self, table: &Table, len: usize) -> Result<(), Error> {
        let all: Vec<usize> = (0..table.candidates.len()).collect();
        let what = table.work.what(len);
        let sets = match table.sets(len, &all) {
            Ok(sets) => sets,
            Err(why) => {
                self.outcome.failed = true;
                let note = format!("no right answers for {what}: {why}: no results");
                self.outcome.notes.push(note);
                return Ok(());
            }
        };
        let mut used: Vec<&Set> = Vec::new();
        let mut present: Vec<&Candidate> = Vec::new();
        let mut jobs: Vec<(usize, usize)> = Vec::new();
        let kunit = self.plan.layout == Layout::Kunit;
        let mut turns = kunit.then(|| kunit::Comparisons::new(len, self.plan.quick));
        for (i, candidate) in table.candidates.iter().enumerate() {
            let Some(set) = sets.iter().find(|s| s.candidates.contains(&i)) else {
                continue;
            };
            used.push(set);
            present.push(candidate);
            jobs.push((len, i));
            if let Some(turns) = &mut turns {
                turns.add(candidate, &set.messages);
            }
        }
        let (done, groups) = (self.done as f64, self.groups as f64);
        let tell = &mut self.progress;
        let timed = bench_all(
            self.plan,
            table,
            &jobs,
            &used,
            &self.effort,
            self.stop,
            &mut |n, of| {
                tell((done + n as f64 / of as f64) / groups, &what);
                if let Some(turns) = &mut turns {
                    turns.take(n, of);
                }
            },
        );
        if let Some(turns) = &mut turns {
            turns.repeat_undecided(|| self.stopped() || self.late());
        }
        let baseline = present
            .iter()
            .position(|c| self.plan.is_baseline(&c.name, &c.provider));
        let baseline = baseline.and_then(|i| timed[i].as_ref().ok());
        let both = present.iter().zip(&timed);
        let both: Vec<_> = both.map(|(c, t)| (*c, t.as_ref().ok())).collect();
        let best = best::find_best(&both);
        for (i, (candidate, timed)) in present.into_iter().zip(&timed).enumerate() {
            let mut row = self.row(
                &table.work,
                len,
                candidate,
                timed.as_ref().ok(),
                baseline,
                false,
            );
            row.best_peer = here(&best.peer, i);
            row.best_tree = here(&best.tree, i);
            row.many = here(&best.many, i);
            row.kunit = turns.as_ref().and_then(|turns| turns.result(i));
            match timed {
                Ok(_) if row.measured() => self.outcome.rows.push(row),
                Ok(_) if !self.stopped() && !self.late() => {
                    self.outcome.notes.push(format!(
                        "no result for {}, {what}: every sample was disturbed",
                        candidate.name
                    ));
                    self.outcome.rows.push(row);
                }
                Ok(_) => {}
                Err(why) => {
                    self.wrong(&what, candidate, why);
                    // A library with wrong results gets a note but no row.
                    if !is_peer(candidate) {
                        self.outcome.rows.push(row);
                    }
                }
            }
        }
        self.cold_group(table, len, &sets);
        Ok(())
    }

    /// Measures single calls with cold caches at one length, if the plan requests them and time
    /// allows.
    fn cold_group(&mut self, table: &Table, len: usize, sets: &[Set]) {
        let Some((effort, evictor)) = &self.cold else {
            return;
        };
        let mut entries = Vec::new();
        let mut references: Vec<Vec<&Reference>> = Vec::new();
        let mut present: Vec<&Candidate> = Vec::new();
        for set in sets {
            for &i in &set.candidates {
                let candidate = &table.candidates[i];
                if candidate.cold.is_some() {
                    entries.push(Entry::new(candidate, &set.messages));
                    references.push(set.references.iter().collect());
                    present.push(candidate);
                }
            }
        }
        let what = format!("{}, cold caches", table.work.what(len));
        let fraction = (self.done as f64 + 0.5) / self.groups as f64;
        let tell = &mut self.progress;
        let timed = bench_cold(
            entries,
            &references,
            evictor,
            effort,
            self.stop,
            &mut |_, _| {
                tell(fraction, &what);
            },
        );
        let is_baseline = |c: &&Candidate| self.plan.is_baseline(&c.name, &c.provider);
        let baseline = present.iter().position(is_baseline);
        let baseline = baseline.and_then(|i| timed[i].as_ref().ok());
        for (candidate, timed) in present.into_iter().zip(&timed) {
            let series = timed.as_ref().ok();
            let row = self.row(&table.work, len, candidate, series, baseline, true);
            if let Err(why) = timed {
                self.wrong(&what, candidate, why);
            }
            if row.measured() || timed.is_err() {
                self.outcome.rows.push(row);
            }
        }
    }

    fn row(
        &self,
        work: &Work,
        len: usize,
        candidate: &Candidate,
        series: Option<&Series>,
        baseline: Option<&Series>,
        cold: bool,
    ) -> Row {
        let (limit, chain) = self.limit(work, len, candidate);
        let mut row = Row {
            alg: work.spec.name.clone(),
            imp: candidate.name.to_string(),
            provider: candidate.provider.clone(),
            released: release::year(&candidate.provider),
            config: candidate.config.clone(),
            tier: candidate.tier.clone(),
            level: candidate.level,
            layout: self.plan.layout,
            op: work.op.name().into(),
            key_bits: work.key_bits,
            len,
            latency: self.plan.latency,
            cold,
            threads: self.plan.cores.as_ref().map(|cores| cores.count() as u32),
            cycles_per_op: f64::NAN,
            cycles_per_byte: f64::NAN,
            mb_per_s: f64::NAN,
            ci_low: f64::NAN,
            ci_high: f64::NAN,
            ns_per_op: f64::NAN,
            ns_low: f64::NAN,
            ns_high: f64::NAN,
            limit_cycles: limit,
            chain_cycles: chain,
            against: self
                .plan
                .baseline
                .as_ref()
                .map(|_| against(series, baseline)),
            together: candidate.together,
            ..Row::default()
        };
        if let Some(series) = series {
            row.set(series);
        }
        row
    }

    /// Returns the minimum number of cycles that the AES rounds of a call take with this tier's
    /// vectors. For dependent XTS calls, also returns the number of cycles that their serial chain
    /// of AES rounds takes; the first value is then at least as large as the second.
    fn limit(&self, work: &Work, len: usize, candidate: &Candidate) -> (Option<f64>, Option<f64>) {
        let limits = &self.limits;
        let tier = candidate.tier.as_ref();
        let tier = tier.and_then(|name| name.parse::<Tier>().ok());
        let Some(tier) = tier else {
            return (None, None);
        };
        let xts = work.spec.name == Algorithm::XTS_AES.name();
        let parallel = match &*work.spec.name {
            "xts(aes)" | "ecb(aes)" | "ctr(aes)" | "gcm(aes)" | "rfc4106(gcm(aes))" => true,
            "cbc(aes)" => work.op == Op::Decrypt,
            _ => false,
        };
        if !parallel {
            return (None, None);
        }
        let throughput = xts_cycles(limits, tier, work.key_bits, len);
        let chain = match self.plan.latency && xts {
            true => serial_cycles(limits, tier, work.key_bits),
            false => None,
        };
        let limit = throughput.map(|t| chain.map_or(t, |c| c.max(t)));
        (limit, chain)
    }

    pub(super) fn wrong(&mut self, what: &str, candidate: &Candidate, why: &str) {
        let Candidate { name, provider, .. } = candidate;
        let family = candidate.family();
        // A library's wrong results do not make the command fail unless the library was requested
        // by name.
        let named = self.plan.peers.names(family) || self.plan.baseline_peer() == Some(family);
        self.outcome.failed |= !is_peer(candidate) || named;
        self.outcome.notes.push(format!(
            "WRONG ANSWER: {provider} {name}, {what}: {why}: no figure"
        ));
    }

    fn finish(self) -> Outcome<Row> {
        let mut outcome = self.outcome;
        outcome.interrupted = self.stop.load(Ordering::Relaxed);
        let notes = &mut outcome.notes;
        // Remove duplicates, because encryption and decryption may produce the same note.
        let mut said = HashSet::new();
        notes.retain(|note| said.insert(note.clone()));
        notes.extend(best::Summary::new(&outcome.rows).sentences());
        notes.extend(kunit::note(&outcome.rows));
        notes.extend(counters::note(&outcome.rows));
        if outcome.rows.iter().any(|r| r.together) {
            notes.push(
                "rows marked * (field together) process several messages at a time, and show the speed for a stream of messages; a single \
                 message takes longer"
                    .to_string(),
            );
        }
        if self.left_out > 0 {
            let why = if outcome.interrupted {
                "interrupted"
            } else if self.plan.within.is_some() {
                "the time of --seconds was over: name fewer lengths or algorithms, or raise --seconds"
            } else {
                "the time of --quick was over: name fewer lengths or algorithms, or leave --quick out"
            };
            notes.push(format!(
                "{} of {} lengths not measured: {why}",
                self.left_out, self.groups
            ));
        }
        if self.plan.own && self.plan.level == Some(Level::Api) {
            notes.push(match self.plan.layout {
                Layout::Plain | Layout::Kunit => {
                    "api: a request for each message, one piece on either side, to Kiln's synchronous driver".to_string()
                }
                Layout::Tcrypt => "api, laid out as by tcrypt: one request in pages, put again and again, to Kiln's \
                     synchronous driver; ciphers in place, behind the key's bytes in the first page"
                    .to_string(),
            });
        }
        if let Some((_, evictor)) = &self.cold {
            let kib = evictor.lines() * 64 / 1024;
            notes.push(format!(
                "cold: the median of single calls. Before each call, {kib} KiB of other memory are read and 128 KiB of other code are run, \
                 which evicts the caches. The interval is that of the median"
            ));
        }
        if let Some(cores) = &self.plan.cores {
            notes.push(cores.note());
        }
        if self.plan.latency {
            notes.push(
                "dependent calls: each IV is the last result's first block; the limit includes the serial chain"
                    .to_string(),
            );
        }
        notes.push(
            "±, ci_low, ci_high: the range in which the result of a rerun is expected. limit: the cycles that the AES unit needs for \
             the AES rounds alone, without GCM's hash, at the rate of the fastest tier's AES instructions"
                .to_string(),
        );
        outcome
    }
}

/// Returns a copy of the comparison in `best` if it belongs to the row with index `row`.
fn here<T: Clone>(best: &Option<(usize, T)>, row: usize) -> Option<T> {
    let found = best.as_ref().filter(|(of, _)| *of == row);
    found.map(|(_, comparison)| comparison.clone())
}

fn is_peer(candidate: &Candidate) -> bool {
    kiln_timing::peer::NAMES.contains(&candidate.family())
}

fn against(series: Option<&Series>, baseline: Option<&Series>) -> Against {
    match series.zip(baseline).and_then(|(s, b)| best::compare(s, b)) {
        Some(of) => Against {
            ratio: Some(of.cycles.ratio),
            ratio_low: Some(of.cycles.low),
            ratio_high: Some(of.cycles.high),
            time_ratio: Some(of.time.ratio),
            time_ratio_low: Some(of.time.low),
            time_ratio_high: Some(of.time.high),
            verdict: Some(of.verdict),
        },
        None => Against::default(),
    }
}
