//! Measures the curve of packets delivered against packets offered. The curve's knee is the rate at
//! which losses begin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kiln_kernel::cpu::kiln_tsc_hz;
use kiln_question::{Error, Outcome};

use super::gateway::{direct_price_ns, entries, esp_plan, Gateway, WORK};
use super::plan::{Settings, HIGHEST_PPS};
use super::traffic::{self, EspLoad, IMIX_BYTES};
use crate::fpu::bench::Bench;
use crate::fpu::packets::Sweep;
use crate::fpu::plan::{Entry, Fallback, Plan};
use crate::fpu::row::Row;
use crate::fpu::tally::Tally;

/// Largest share of the offered packets that may be lost before a rate counts as lossy.
pub(super) const LOST: f64 = 0.001;
/// Number of steps per octave. Step n corresponds to 1000 * 2^(n / PER_OCTAVE) packets per second.
const PER_OCTAVE: u32 = 8;
/// Step of the lowest rate in a search, which is 32,000 packets per second.
const LOWEST: u32 = 5 * PER_OCTAVE;
/// Number of searches per policy. Their spread becomes part of the knee's interval.
const ROUNDS: u32 = 4;
/// Number of trials whose losses are added up to decide whether a rate is lossy. Losses come in
/// bursts, which a single trial can miss.
const TRIALS: u32 = 3;
/// A rate can be the knee only if it still counts as lossy after this many trials. This prevents a
/// single disturbance on the host from deciding the result.
const CONFIRMED: u32 = 9;

fn rate_of(step: u32) -> f64 {
    1000.0 * 2f64.powf(f64::from(step) / f64::from(PER_OCTAVE))
}

fn step_below(rate: f64) -> u32 {
    ((rate / 1000.0).log2() * f64::from(PER_OCTAVE)) as u32
}

fn gbit(pps: f64) -> f64 {
    pps * IMIX_BYTES * 8.0 / 1e9
}

/// The result of a search, in steps: the highest rate without losses, and the lowest rate above it
/// that has losses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bracket {
    clean: Option<u32>,
    lossy: Option<u32>,
}

/// Raises the rate in octaves until packets are lost, then bisects. If `around` contains an earlier
/// result, the search begins near that result.
fn search(
    around: Option<Bracket>,
    highest: u32,
    loses: &mut dyn FnMut(u32) -> Result<bool, Error>,
) -> Result<Bracket, Error> {
    let near = around.and_then(|b| Some((b.clean?, b.lossy?)));
    let mut at = near.map_or(LOWEST, |(clean, _)| {
        clean.saturating_sub(PER_OCTAVE / 2).max(LOWEST)
    });
    let mut clean = None;
    // If the first rate already has losses, try lower rates.
    while loses(at)? {
        if at == LOWEST {
            return Ok(Bracket {
                clean: None,
                lossy: Some(at),
            });
        }
        at = at.saturating_sub(PER_OCTAVE).max(LOWEST);
    }
    let mut lossy = None;
    while lossy.is_none() {
        clean = Some(at);
        if at == highest {
            return Ok(Bracket { clean, lossy });
        }
        let up = match near {
            Some((_, lossy)) if at < lossy => lossy + PER_OCTAVE / 2,
            _ => at + PER_OCTAVE,
        };
        at = up.min(highest);
        if loses(at)? {
            lossy = Some(at);
        }
    }
    if let (Some(mut low), Some(mut high)) = (clean, lossy) {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match loses(middle)? {
                true => high = middle,
                false => low = middle,
            }
        }
        (clean, lossy) = (Some(low), Some(high));
    }
    Ok(Bracket { clean, lossy })
}

/// Finds the lowest rate that has losses when the trials of all rounds are judged together, and the
/// next lower rate. This is necessary because a single round can miss bursts of losses, and does
/// not try every rate. `loses` adds trials at a rate until there are as many as requested, and
/// judges them together with the earlier ones.
fn settle(
    mut tried: BTreeSet<u32>,
    loses: &mut dyn FnMut(u32, u32) -> Result<bool, Error>,
) -> Result<Bracket, Error> {
    loop {
        let (mut clean, mut lossy) = (None, None);
        for &step in &tried {
            if loses(step, TRIALS)? && loses(step, CONFIRMED)? {
                lossy = Some(step);
                break;
            }
            clean = Some(step);
        }
        match (clean, lossy) {
            (Some(low), Some(high)) if high - low > 1 => tried.insert(low + (high - low) / 2),
            _ => return Ok(Bracket { clean, lossy }),
        };
    }
}

/// Returns the knee according to all trials, and the lower and upper end of its interval. The
/// interval covers the results of all rounds and one more step on each side, because two processes
/// with the same knee can end at adjacent steps. If the knee is outside the range of rates tried,
/// it has no value, and its interval has only one end: the lowest or the highest rate tried.
fn knee_of(settled: Bracket, rounds: &[Bracket]) -> (Option<f64>, Option<f64>, Option<f64>) {
    let all = || rounds.iter().chain([&settled]);
    let value = match (settled.clean, settled.lossy) {
        (Some(a), Some(b)) => Some((rate_of(a) * rate_of(b)).sqrt()),
        _ => None,
    };
    let margin = u32::from(value.is_some());
    // If a round has no clean rate, its knee is below all rates tried, so the interval has no lower
    // end. If a round has no lossy rate, its knee is above them, so the interval has no upper end.
    let low = all().map(|b| b.clean).min().flatten();
    let high = match all().all(|b| b.lossy.is_some()) {
        true => all().filter_map(|b| b.lossy).max(),
        false => None,
    };
    (
        value,
        low.map(|step| rate_of(step - margin)),
        high.map(|step| rate_of(step + margin)),
    )
}

/// The losses in all trials at one rate.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    trials: u32,
    /// Number of trials in which the core had not caught up by the end of the idle time.
    late: u32,
    offered: u64,
    delivered: u64,
}

impl Losses {
    fn share(&self) -> f64 {
        match self.offered {
            0 => 0.0,
            offered => 1.0 - self.delivered as f64 / offered as f64,
        }
    }

    /// Returns whether the rate counts as lossy: more than the tolerated share of packets was lost,
    /// or the core fell behind in most trials. Falling behind counts even if the ring still had
    /// room for the backlog.
    fn matter(&self) -> bool {
        self.share() > LOST || 2 * self.late > self.trials
    }

    /// Returns whether the remaining trials can be skipped, because a total of `trials` trials will
    /// count as lossy even if the remaining ones lose nothing. A margin allows for trials that
    /// offer different numbers of packets.
    fn decided(&self, trials: u32) -> bool {
        let least = self.offered as f64 / f64::from(self.trials.max(1)) * f64::from(trials);
        (self.offered - self.delivered) as f64 > 1.2 * LOST * least.max(1.0)
            || 2 * self.late > trials
    }

    fn since(&self, earlier: Losses) -> Losses {
        Losses {
            trials: self.trials - earlier.trials,
            late: self.late - earlier.late,
            offered: self.offered - earlier.offered,
            delivered: self.delivered - earlier.delivered,
        }
    }
}

/// Sums over all trials of one policy at one rate.
#[derive(Default)]
struct Point {
    tally: Tally,
    losses: Losses,
    dropped: u64,
    missed: u64,
    replay_lost: u64,
    own: u64,
}

impl Point {
    /// Returns the number of operations per second that the task completed.
    fn task_rate(&self) -> f64 {
        self.tally.counts.task_ops as f64 / self.tally.seconds.max(1e-9)
    }

    fn main_loss(&self) -> &'static str {
        let losses = [
            (self.dropped, "cryptd"),
            (self.replay_lost, "replay"),
            (self.missed, "core"),
        ];
        losses.iter().max_by_key(|l| l.0).map_or("core", |l| l.1)
    }
}

/// The state of the search for one policy's knee.
struct Search {
    entry: Entry,
    points: BTreeMap<u32, Point>,
    control: Point,
    rounds: Vec<Bracket>,
    settled: Option<Bracket>,
}

/// Everything needed to run trials. A trial runs the load at one rate under one policy for a short
/// time.
struct Bank<'a> {
    plan: &'a Plan,
    settings: &'a Settings,
    bench: &'a mut Bench,
    stop: &'a AtomicBool,
    gateway: Gateway,
    /// Number of trials run so far, for all policies and rates.
    ran: u64,
}

impl Bank<'_> {
    /// Runs trials at one rate until `least` trials have been run since `before`, or until the
    /// losses already decide the result.
    fn trials(
        &mut self,
        entry: Entry,
        step: u32,
        (before, least): (Losses, u32),
        into: &mut Point,
    ) -> Result<(), Error> {
        while into.losses.trials - before.trials < least
            && !into.losses.since(before).decided(least)
            && !self.stop.load(Ordering::Relaxed)
        {
            self.trial(entry, Some(rate_of(step)), into)?;
        }
        Ok(())
    }

    /// Runs one trial at a rate. If `rate` is `None`, runs the control, which has no packets.
    fn trial(&mut self, entry: Entry, rate: Option<f64>, into: &mut Point) -> Result<(), Error> {
        // The seed changes from trial to trial, so that packets arrive at different times in each
        // trial.
        self.ran += 1;
        let seed = self.plan.seed ^ self.ran << 40;
        let traffic = traffic::constant(seed, rate.unwrap_or(1000.0), self.plan.quick);
        let (policy, quiet) = (entry.policy, rate.is_none());
        let esp = self.gateway.esp(policy);
        esp.set_arrivals(&traffic.arrivals, traffic.phase_end);
        let tally = &mut into.tally;
        let o = self
            .gateway
            .run(self.plan, self.bench, policy, quiet, tally)?;
        let sum = |f: fn(&kiln_kernel::esp::Flow) -> u64| o.flows.iter().map(f).sum::<u64>();
        let (dropped, replay_lost) = (sum(|f| f.dropped), sum(|f| f.replay_lost));
        let offered = traffic.arrivals.len() as u64;
        let lost = dropped + replay_lost + o.missed + sum(|f| f.errors);
        into.losses.trials += 1;
        into.own += o.own_packets;
        into.dropped += dropped;
        into.missed += o.missed;
        into.replay_lost += replay_lost;
        if rate.is_some() {
            into.losses.offered += offered;
            into.losses.delivered += offered.saturating_sub(lost);
        }
        let late = o
            .recovery_us
            .is_none_or(|us| us > traffic::DRAIN_NS as f64 / 1e3);
        into.losses.late += u32::from(late && rate.is_some());
        Ok(())
    }
}

/// Searches for the knee of every policy. With `--packet-rate N`, measures only that rate.
pub(super) fn run(
    plan: &Plan,
    settings: &Settings,
    load: &EspLoad,
    bench: &mut Bench,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64),
    outcome: &mut Outcome<Row>,
) -> Result<(), Error> {
    let price = direct_price_ns(plan, settings, load, bench)? + settings.stack_ns as f64;
    let highest = step_below(HIGHEST_PPS);
    let first = traffic::constant(plan.seed, 1000.0, true);
    let gateway = Gateway::open(plan, &esp_plan(plan, settings, load, &first))?;
    let mut bank = Bank {
        plan,
        settings,
        bench,
        stop,
        gateway,
        ran: 0,
    };
    let begin = |entry| Search {
        entry,
        points: BTreeMap::new(),
        control: Point::default(),
        rounds: Vec::new(),
        settled: None,
    };
    let mut searches: Vec<Search> = entries(plan).into_iter().map(begin).collect();
    let share = plan.budget / settings.loads.len() as u32;
    let least = if plan.quick { 1 } else { ROUNDS };
    let (start, mut rounds) = (Instant::now(), 0u32);
    let stopped = || stop.load(Ordering::Relaxed);
    while !stopped()
        && (rounds < least || start.elapsed().as_secs_f64() < 0.8 * share.as_secs_f64())
    {
        let n = searches.len();
        for turn in 0..n {
            // Vary the order from round to round, so that no policy always runs after the same
            // other policy.
            let i = (turn * if rounds % 2 == 0 { 1 } else { n - 1 } + rounds as usize) % n;
            let Search {
                entry,
                points,
                control,
                rounds: done,
                ..
            } = &mut searches[i];
            bank.trial(*entry, None, control)?;
            let mut loses = |step: u32| -> Result<bool, Error> {
                // Judge only the trials of this round, so that rounds can have different results.
                let point = points.entry(step).or_default();
                let before = point.losses;
                bank.trials(*entry, step, (before, TRIALS), point)?;
                Ok(point.losses.since(before).matter())
            };
            match settings.rates.as_slice() {
                [rate] => {
                    bank.trial(*entry, Some(*rate), points.entry(0).or_default())?;
                }
                _ => {
                    let bracket = search(done.last().copied(), highest, &mut loses)?;
                    if !stopped() {
                        done.push(bracket);
                    }
                }
            }
            tell(start.elapsed().as_secs_f64() / share.as_secs_f64());
            if stopped() {
                break;
            }
        }
        rounds += 1;
    }
    if settings.rates.is_empty() {
        if !plan.quick {
            fill(&mut bank, &mut searches, highest)?;
        }
        for s in &mut searches {
            let (entry, points) = (s.entry, &mut s.points);
            let tried = points.keys().copied().collect();
            s.settled = Some(settle(tried, &mut |step, least| {
                let point = points.entry(step).or_default();
                bank.trials(entry, step, (Losses::default(), least), point)?;
                Ok(point.losses.matter())
            })?);
        }
    }
    outcome.notes.push(format!(
        "{}: processing a packet takes {price:.0} ns if nothing interrupts it. Number of rounds: {rounds}. Packets have 40, 576 and 1500 B \
         in the ratio 7:4:1, and arrive at random (Poisson) times. They alternately come from the tunnel (and are decrypted) and go into \
         it (and are encrypted)",
        load.name
    ));
    if rounds == 1 && settings.rates.is_empty() {
        outcome.notes.push(
            "only one round was run, so low and high are the ends of the range that a single search for the rate found. Another search \
             can find a rate several times as high or low, because a single burst of packets decides. Before you quote a rate, run without --quick"
                .to_string(),
        );
    }
    for s in &searches {
        rows(&bank, load, s, &searches[0], outcome);
    }
    Ok(())
}

/// Measures the missing rates, so that the curves of all policies have the same points.
fn fill(bank: &mut Bank<'_>, searches: &mut [Search], highest: u32) -> Result<(), Error> {
    let tops = searches
        .iter()
        .flat_map(|s| s.rounds.iter().filter_map(|b| b.lossy));
    let top = tops
        .max()
        .map_or(highest, |t| (t + PER_OCTAVE).min(highest));
    for s in searches {
        for step in (LOWEST..=top).step_by(PER_OCTAVE as usize / 2) {
            let point = s.points.entry(step).or_default();
            bank.trials(s.entry, step, (Losses::default(), 1), point)?;
        }
    }
    Ok(())
}

fn rows(bank: &Bank<'_>, load: &EspLoad, s: &Search, first: &Search, outcome: &mut Outcome<Row>) {
    let (plan, settings) = (bank.plan, bank.settings);
    let config = plan.config();
    let base = Sweep {
        scheduler: config.scheduler.name().to_string(),
        scheduler_cpus: plan.scheduler_cpus,
        tick_us: config.tick_us,
        slice_us: config.slice_us,
        stack_ns: settings.stack_ns,
        ..Sweep::default()
    };
    let driver = bank.gateway.driver(s.entry.policy);
    let row = |point: &Point, control: bool| {
        let mut row = Row::new(
            plan,
            s.entry,
            WORK,
            0,
            &point.tally,
            control,
            kiln_tsc_hz() / 1e6,
        );
        row.load = load.name.clone().into();
        row.imp = driver.to_string().into();
        if s.entry.fallback == Fallback::Scalar {
            row.fallback = "none".into();
        }
        let c = &point.tally.counts;
        row.async_punts = Some(c.async_punts);
        row.reordered = Some(c.reordered);
        row.dropped = Some(point.dropped);
        row.packets = Some(c.softirq_ops);
        row.own_packets = Some(point.own);
        row.ring_missed = Some(point.missed);
        row.replay_lost = Some(point.replay_lost);
        // Clear this field, because packets have different sizes. The throughput of the softirqs is
        // in `delivered_pps`.
        row.softirq_mb_per_s = None;
        row
    };
    let free = s.control.task_rate();
    let core = |p: &Point| (free > 0.0).then(|| 1.0 - p.task_rate() / free);
    for (&step, point) in s.points.iter().filter(|(_, p)| p.losses.trials > 0) {
        let mut row = row(point, false);
        let rate = match settings.rates.as_slice() {
            [rate] => *rate,
            _ => rate_of(step),
        };
        row.set_ratio(
            first
                .points
                .get(&step)
                .and_then(|f| point.tally.ratio(&f.tally)),
        );
        row.sweep = Some(Sweep {
            offered_pps: Some(rate),
            offered_gbit_s: Some(gbit(rate)),
            delivered_pps: Some(rate * (1.0 - point.losses.share())),
            lost_share: Some(point.losses.share()),
            core_share: core(point),
            trials: Some(point.losses.trials),
            softirqs_behind: Some(point.tally.stats.softirqs_behind),
            ..base.clone()
        });
        outcome.rows.push(row);
    }
    let mut control = row(&s.control, true);
    control.sweep = Some(base.clone());
    outcome.rows.push(control);
    if let (Some(settled), false) = (s.settled, s.rounds.is_empty()) {
        // The knee's row has no counts, because the knee is derived from other rows.
        let mut knee = row(&Point::default(), false);
        let (value, low, high) = knee_of(settled, &s.rounds);
        let near = |rate: Option<f64>| {
            let at = |p: &&u32| Some(rate_of(**p)) <= rate;
            s.points.keys().rfind(at).and_then(|p| s.points.get(p))
        };
        let above = |rate: Option<f64>| {
            let at = |p: &(&u32, &Point)| Some(rate_of(*p.0)) >= rate && p.1.losses.matter();
            s.points.iter().find(at).map(|(_, p)| p)
        };
        knee.sweep = Some(Sweep {
            knee_pps: value,
            knee_pps_low: low,
            knee_pps_high: high,
            knee_gbit_s: value.map(gbit),
            knee_core_share: near(value.or(low)).and_then(core),
            knee_loss: high.map(|_| above(value).map_or("core", Point::main_loss).to_string()),
            ..base
        });
        outcome.rows.push(knee);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for the knee of a simulated gateway that has losses at step `knee` and above. Also
    /// returns the number of rates tried.
    fn found(knee: u32, highest: u32, around: Option<Bracket>) -> (Bracket, u32) {
        let mut asked = 0;
        let bracket = search(around, highest, &mut |step| {
            asked += 1;
            assert!((LOWEST..=highest).contains(&step));
            Ok(step >= knee)
        });
        (bracket.unwrap(), asked)
    }

    #[test]
    fn a_search_ends_at_two_neighbouring_rates() {
        for knee in LOWEST + 1..100 {
            let (b, _) = found(knee, 100, None);
            let want = Bracket {
                clean: Some(knee - 1),
                lossy: Some(knee),
            };
            assert_eq!(b, want);
            // A search that starts from a guess gives the same result even if the guess is wrong,
            // and tries few rates if the guess is right.
            for guess in LOWEST..100 {
                let guess = Bracket {
                    clean: Some(guess),
                    lossy: Some(guess + 1),
                };
                assert_eq!(found(knee, 100, Some(guess)).0, want);
            }
            assert!(found(knee, 100, Some(want)).1 <= 6);
        }
    }

    /// Returns the knee for a search in which a single round and all trials together both give the
    /// result `b`.
    fn knee(b: Bracket) -> (Option<f64>, Option<f64>, Option<f64>) {
        knee_of(b, &[b])
    }

    #[test]
    fn a_knee_beyond_the_rates_has_one_end() {
        let above = found(200, 90, None).0;
        assert_eq!((above.clean, above.lossy), (Some(90), None));
        assert_eq!(knee(above), (None, Some(rate_of(90)), None));
        let below = found(0, 90, None).0;
        assert_eq!((below.clean, below.lossy), (None, Some(LOWEST)));
        assert_eq!(knee(below), (None, None, Some(rate_of(LOWEST))));
    }

    fn pair(clean: u32) -> Bracket {
        Bracket {
            clean: Some(clean),
            lossy: Some(clean + 1),
        }
    }

    #[test]
    fn the_interval_covers_all_rounds_and_a_step_more() {
        let (value, low, high) = knee_of(pair(61), &[pair(60), pair(62), pair(61)]);
        assert_eq!((low, high), (Some(rate_of(59)), Some(rate_of(64))));
        assert!((value.unwrap() / rate_of(61) - 2f64.powf(1.0 / 16.0)).abs() < 1e-9);
        // All trials together can show losses at a lower rate than any single round. The interval
        // must include this rate, too.
        let (value, low, high) = knee_of(pair(45), &[pair(60), pair(62)]);
        assert_eq!((low, high), (Some(rate_of(44)), Some(rate_of(64))));
        assert!(value < Some(rate_of(46)));
    }

    /// A simulated gateway. At step `full` and above, every trial loses a tenth of its packets.
    /// Between step `bursts` and step `full`, one trial in five loses 2%.
    struct Gateway {
        bursts: u32,
        full: u32,
        ran: u32,
        points: BTreeMap<u32, Losses>,
    }

    impl Gateway {
        fn new(bursts: u32, full: u32) -> Gateway {
            Gateway {
                bursts,
                full,
                ran: 0,
                points: BTreeMap::new(),
            }
        }

        fn top_up(&mut self, step: u32, before: Losses, least: u32) -> Losses {
            let at = self.points.entry(step).or_default();
            while at.trials - before.trials < least && !at.since(before).decided(least) {
                let lost = match step {
                    step if step >= self.full => 1000,
                    step if step >= self.bursts && at.trials % 5 == 2 => 200,
                    _ => 0,
                };
                self.ran += 1;
                at.trials += 1;
                at.offered += 10_000;
                at.delivered += 10_000 - lost;
            }
            *at
        }

        /// Searches like `run`, but considers a rate lossy only if `repeats` consecutive trials
        /// have losses.
        fn search_by_repeats(&mut self, repeats: u32) -> Bracket {
            let repeated = |g: &mut Gateway, step: u32| {
                (0..repeats).all(|_| {
                    let before = g.points.get(&step).copied().unwrap_or_default();
                    g.top_up(step, before, 1).since(before).matter()
                })
            };
            search(None, 100, &mut |step| Ok(repeated(self, step))).unwrap()
        }

        fn search(&mut self) -> Bracket {
            let mut loses = |step: u32| {
                let before = self.points.get(&step).copied().unwrap_or_default();
                let now = self.top_up(step, before, TRIALS);
                Ok(now.since(before).matter())
            };
            search(None, 100, &mut loses).unwrap()
        }

        fn settle(&mut self) -> Bracket {
            let tried = self.points.keys().copied().collect();
            settle(tried, &mut |step, least| {
                Ok(self.top_up(step, Losses::default(), least).matter())
            })
            .unwrap()
        }

        /// Returns the share of packets lost at a rate, averaged over many trials.
        fn truth(&mut self, step: u32) -> f64 {
            self.top_up(step, Losses::default(), 100).share()
        }
    }

    #[test]
    fn a_knee_is_not_above_a_rate_that_loses_in_bursts() {
        for (bursts, full) in [(60, 80), (58, 90), (66, 67), (41, 97)] {
            let mut g = Gateway::new(bursts, full);
            assert!(g.truth(bursts) > LOST && g.truth(bursts - 1) == 0.0);
            g.points.clear();
            let round = g.search();
            let settled = g.settle();
            assert_eq!(settled, pair(bursts - 1), "{bursts} {full}");
            let (value, ..) = knee_of(settled, &[round]);
            assert!(value < Some(rate_of(bursts)));
            // Control: if a rate counts as lossy only after losses in two consecutive trials, the
            // search misses the bursts and finds the rate at which every trial has losses.
            let mut g = Gateway::new(bursts, full);
            assert_eq!(g.search_by_repeats(2), pair(full - 1));
        }
    }

    #[test]
    fn losses_that_a_round_missed_are_found_below_its_knee() {
        let mut g = Gateway::new(60, 80);
        // Simulate a round that misses all bursts.
        let round = g.search_by_repeats(2);
        assert_eq!(round, pair(79));
        assert_eq!(g.settle(), pair(59));
        // Control: without bursts, `settle` confirms the round's knee.
        let mut g = Gateway::new(80, 80);
        assert_eq!((g.search_by_repeats(2), g.settle()), (pair(79), pair(79)));
    }

    #[test]
    fn trials_are_spared_only_where_they_could_not_change_the_verdict() {
        let one = |lost: u64, late: u32| Losses {
            trials: 1,
            late,
            offered: 10_000,
            delivered: 10_000 - lost,
        };
        let clean = Losses {
            trials: 8,
            late: 0,
            offered: 80_000,
            delivered: 80_000,
        };
        for (lost, late, decided) in [(100, 0, false), (109, 0, true), (0, 1, false)] {
            let first = one(lost, late);
            assert_eq!(first.decided(CONFIRMED), decided, "{lost} {late}");
            let all = Losses {
                trials: first.trials + clean.trials,
                late: first.late + clean.late,
                offered: first.offered + clean.offered,
                delivered: first.delivered + clean.delivered,
            };
            assert!(all.matter() || !decided, "{lost} {late}");
        }
        // If all trials have losses, the search needs one trial per rate instead of three.
        let mut g = Gateway::new(80, 80);
        assert_eq!(g.top_up(80, Losses::default(), TRIALS).trials, 1);
        assert_eq!(g.top_up(79, Losses::default(), TRIALS).trials, TRIALS);
    }

    #[test]
    fn one_hiccup_of_the_host_does_not_move_the_knee() {
        let mut g = Gateway::new(80, 80);
        g.search();
        let hiccup = |g: &mut Gateway, lost: u64| {
            let at = g.points.get_mut(&(LOWEST + 16)).unwrap();
            at.delivered -= lost;
        };
        hiccup(&mut g, 80);
        assert!(g.points[&(LOWEST + 16)].matter());
        assert_eq!(g.settle(), pair(79));
        // Control: after another 80 lost packets, the losses in all trials together exceed the
        // limit, so the knee moves.
        hiccup(&mut g, 80);
        assert_eq!(g.settle(), pair(LOWEST + 15));
    }

    #[test]
    fn rates_are_the_same_in_every_run() {
        assert_eq!(rate_of(LOWEST), 32_000.0);
        assert!(rate_of(step_below(1e6)) <= 1e6);
        assert!((gbit(220_000.0) - 0.599).abs() < 0.001);
    }
}
