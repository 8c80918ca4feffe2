//! Everything under each mask of tiers, as rows.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kiln_kernel::xts::{Error, Impl, Key, Op};
use kiln_kernel::Tier;
use serde::Serialize;

use super::random::{self, Failure, Tally};
use super::subject::{Subject, ALG};
use super::{lengths, vectors};

/// What to check, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// These implementations.
    pub impls: Vec<Impl>,
    /// Of the random cases.
    pub seed: u64,
    /// Random cases under each mask.
    pub cases: u64,
    /// Threads that share them.
    pub threads: usize,
}

/// A row: how one implementation did in one suite under one mask.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Algorithm.
    pub alg: String,
    /// Driver name.
    #[serde(rename = "impl")]
    pub implementation: String,
    /// `selection`, `vectors`, `lengths` or `random`.
    pub suite: String,
    /// Where the calls were made from.
    pub context: String,
    /// The mask: the tiers that were allowed, as `KILN_TIERS` takes them.
    pub tiers: String,
    /// Cases done.
    pub cases: u64,
    /// Of these, wrong.
    pub failed: u64,
    /// 1 if the suite was not run.
    pub skipped: u64,
    /// Why not.
    pub reason: Option<String>,
    /// The first failures.
    #[serde(skip)]
    pub failures: Vec<Failure>,
}

impl Outcome {
    /// Name within its mask.
    pub fn name(&self) -> String {
        format!("{} {}", self.implementation, self.suite)
    }
}

/// What `run` tells as it goes.
pub enum Event<'a> {
    /// A mask begins that will have this many rows.
    Mask {
        /// `alg` and tiers.
        name: &'a str,
        /// How many rows will follow.
        rows: usize,
    },
    /// A row is done.
    Row(&'a Outcome),
    /// The mask's rows are done, or it was stopped.
    End,
}

/// The mask is one for the whole process: two runs at once would see each other's.
static MASK: Mutex<()> = Mutex::new(());

/// The masks of a run: generic alone, then a tier more each, up to all that may be used now.
pub fn masks() -> Vec<Vec<Tier>> {
    let usable: Vec<Tier> = Tier::ALL.into_iter().filter(|t| t.usable()).collect();
    (1..=usable.len()).map(|n| usable[..n].to_vec()).collect()
}

/// The implementation that must be chosen when `highest` is the highest tier allowed. Written down here, and not
/// read from `kernel/`, so that the two can differ.
pub fn expected(highest: Tier) -> &'static str {
    match highest {
        Tier::Generic => "xts-aes-fixed-time",
        Tier::Aesni | Tier::ShaNi | Tier::Avx2 => "xts-aes-aesni",
        Tier::VaesAvx2 => "xts-aes-vaes-avx2",
        Tier::VaesAvx512 => "xts-aes-vaes-avx512",
    }
}

/// Run `plan` until done or `stop`. `progress` is called with the random cases just done, from any thread; `tell`
/// in order, from this one.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
    tell: &mut dyn FnMut(Event<'_>),
) -> io::Result<Vec<Outcome>> {
    let _alone = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let masks = masks();
    let _restore = Restore(masks.last().cloned().unwrap_or_default());
    let mut rows = Vec::new();
    for (i, mask) in masks.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        Tier::mask(mask);
        // The last mask has every tier: it gets the cases from 0 on, with the sweep.
        let turn = (masks.len() - 1 - i) as u64;
        let first = turn.saturating_mul(plan.cases);
        let under = UnderMask {
            plan,
            mask,
            last: turn == 0,
            first,
        };
        under.run(stop, progress, &mut rows, tell)?;
    }
    Ok(rows)
}

/// Run case `number` alone, on each implementation of the plan that is usable.
pub fn replay(
    plan: &Plan,
    number: u64,
    tell: &mut dyn FnMut(Event<'_>),
) -> io::Result<Vec<Outcome>> {
    let _alone = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let mask = masks().pop().unwrap_or_default();
    let under = UnderMask {
        plan: &Plan {
            cases: 1,
            threads: 1,
            ..plan.clone()
        },
        mask: &mask,
        last: true,
        first: number,
    };
    let (usable, skipped) = under.split();
    tell(Event::Mask {
        name: &under.name(),
        rows: usable.len() + skipped.len(),
    });
    let mut rows = Vec::new();
    under.random(&usable, &AtomicBool::new(false), &|_| (), &mut |row| {
        tell(Event::Row(&row));
        rows.push(row);
    })?;
    for imp in skipped {
        let row = under.skip(imp, "random");
        tell(Event::Row(&row));
        rows.push(row);
    }
    tell(Event::End);
    Ok(rows)
}

/// Random cases a whole run of `plan` will do: what `progress` adds up to.
pub fn total(plan: &Plan) -> u64 {
    plan.cases.saturating_mul(masks().len() as u64)
}

struct Restore(Vec<Tier>);

impl Drop for Restore {
    fn drop(&mut self) {
        Tier::mask(&self.0);
    }
}

struct UnderMask<'a> {
    plan: &'a Plan,
    mask: &'a [Tier],
    /// Whether it is the one with every tier.
    last: bool,
    /// Number of the first random case.
    first: u64,
}

impl UnderMask<'_> {
    fn run(
        &self,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        rows: &mut Vec<Outcome>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> io::Result<()> {
        let (usable, skipped) = self.split();
        let random = usize::from(self.plan.cases > 0);
        tell(Event::Mask {
            name: &self.name(),
            rows: 1 + usable.len() * (2 + random) + skipped.len(),
        });
        let mut done = |row: Outcome| {
            tell(Event::Row(&row));
            rows.push(row);
        };
        done(self.selection());
        let ieee1619 = vectors::ieee1619();
        for imp in &usable {
            let subject = Subject::of(*imp);
            done(self.row(*imp, "vectors", vectors::run(&subject, &ieee1619)?));
            done(self.row(*imp, "lengths", lengths::run(&subject)?));
        }
        if random > 0 {
            self.random(&usable, stop, progress, &mut done)?;
        }
        for imp in skipped {
            done(self.skip(imp, "all"));
        }
        tell(Event::End);
        Ok(())
    }

    fn random(
        &self,
        usable: &[Impl],
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        done: &mut dyn FnMut(Outcome),
    ) -> io::Result<()> {
        let subjects: Vec<Subject<'_>> = usable.iter().map(|i| Subject::of(*i)).collect();
        let cases = self.first..self.first.saturating_add(self.plan.cases);
        let (seed, threads) = (self.plan.seed, self.plan.threads);
        let tallies = random::run(&subjects, seed, cases, threads, stop, progress)?;
        for (imp, tally) in usable.iter().zip(tallies) {
            done(self.row(*imp, "random", tally));
        }
        Ok(())
    }

    /// Those to run under this mask, and those to report as skipped: once, under the last one.
    fn split(&self) -> (Vec<Impl>, Vec<Impl>) {
        let (usable, not): (Vec<Impl>, Vec<Impl>) = self
            .plan
            .impls
            .iter()
            .partition(|i| self.mask.contains(&i.tier()));
        (usable, if self.last { not } else { Vec::new() })
    }

    fn tiers(&self) -> String {
        let names: Vec<&str> = self.mask.iter().map(|t| t.name()).collect();
        names.join(",")
    }

    fn name(&self) -> String {
        format!("{ALG} {}", self.tiers())
    }

    fn row(&self, imp: Impl, suite: &str, tally: Tally) -> Outcome {
        Outcome {
            alg: ALG.into(),
            implementation: imp.driver().into(),
            suite: suite.into(),
            context: "task".into(),
            tiers: self.tiers(),
            cases: tally.cases,
            failed: tally.failed,
            skipped: 0,
            reason: None,
            failures: tally.failures,
        }
    }

    fn skip(&self, imp: Impl, suite: &str) -> Outcome {
        let reason = match imp.tier().lacks() {
            Some(feature) => format!("this CPU lacks {feature}"),
            None => "masked".into(),
        };
        Outcome {
            skipped: 1,
            reason: Some(reason),
            ..self.row(imp, suite, Tally::default())
        }
    }

    /// The one chosen is the one expected, and those above the mask refuse.
    fn selection(&self) -> Outcome {
        let best = Impl::best();
        let want = self.mask.last().map_or("none", |t| expected(*t));
        let mut tally = Tally::default();
        let mut check = |ok: bool, what: String| {
            tally.cases += 1;
            if !ok {
                tally.failed += 1;
                tally.failures.push(Failure {
                    what,
                    replay: format!("KILN_TIERS={} kiln test '{ALG}' --cases 0", self.tiers()),
                });
            }
        };
        let chosen = best.driver();
        check(
            chosen == want,
            format!("{chosen} was chosen and not {want}"),
        );
        let key = Key::new(&[7; 64]).expect("64 bytes");
        for imp in Impl::all() {
            if !self.mask.contains(&imp.tier()) {
                let mut data = [1; 16];
                let result = imp.crypt_in_place(Op::Encrypt, &key, &[0; 16], &mut data);
                check(
                    result == Err(Error::Unusable(imp.tier())) && data == [1; 16],
                    format!("{} ran under a mask without its tier", imp.driver()),
                );
            }
        }
        self.row(best, "selection", tally)
    }
}
