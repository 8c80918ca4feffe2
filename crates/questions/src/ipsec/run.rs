//! Runs loads in rounds. In each round, the whole load runs once under every policy, with the
//! policy's control directly before or after it. The order of the two alternates between rounds.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::kiln_tsc_hz;
use kiln_kernel::esp::{self, Flow};
use kiln_kernel::fpu::Policy;
use kiln_measure::{ratio, Round, Series};
use kiln_question::{Error, Outcome, Report};

use super::gateway::{direct_price_ns, entries, esp_plan, Gateway, ENTRY, OWN_EVERY, SECTOR, WORK};
use super::plan::Settings;
use super::sweep;
use super::traffic::{self, EspLoad, Source, Traffic};
use crate::fpu::bench::Bench;
use crate::fpu::course::Course;
use crate::fpu::plan::{Entry, Fallback, Plan, BUSIEST_TABLE};
use crate::fpu::row::Row;
use crate::fpu::tally::Tally;
use crate::fpu::timeline::Timeline;

/// Minimum number of rounds. With fewer rounds, a confidence interval cannot be computed.
const ROUNDS: u32 = 6;

/// What has been counted for a policy so far.
#[derive(Default)]
struct Sum {
    tally: Tally,
    flows: [Flow; 2],
    /// Payload throughput in MB/s during the high phase, one value per round.
    rate: Series,
    recovery_us: Vec<f64>,
    never: u32,
    missed: u64,
    own: u64,
}

/// Runs the loads on an emulated CPU. Each row is followed by the row of its control. The outcome
/// is marked as failed if any policy other than the control `none` lost state.
///
/// # Errors
/// Fails if the host has no timers or no second core.
pub(super) fn run(
    plan: &Plan,
    settings: &Settings,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let mut outcome = Outcome::default();
    outcome.notes.extend(plan.inject.notes(plan.irq_rate));
    let part = 1.0 / settings.loads.len() as f64;
    for (i, load) in settings.loads.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut tell = |done: f64| progress((i as f64 + done) * part, &load.name);
        let phases = settings.rates.len() == 2 || load.source != Source::Imix;
        let run = if phases { measure_load } else { sweep::run };
        run(plan, settings, load, bench, stop, &mut tell, &mut outcome)?;
    }
    bench.put_back();
    outcome.failed = outcome.rows.iter().any(Row::fails);
    outcome.interrupted = stop.load(Ordering::Relaxed);
    notes(plan, settings, &mut outcome);
    Ok(outcome)
}

/// Creates the traffic of a load: the packets of a capture, or phases at the low and the high rate
/// in the settings. For phases, adds a note about the share of a core that the high rate needs.
fn traffic_of(
    plan: &Plan,
    settings: &Settings,
    load: &EspLoad,
    bench: &mut Bench,
    notes: &mut Vec<String>,
) -> Result<Traffic, Error> {
    if let Source::Capture(packets) = &load.source {
        let runs = 2 * ROUNDS * entries(plan).len() as u32 * settings.loads.len() as u32;
        let longest = (plan.budget / runs).saturating_sub(Duration::from_millis(60));
        return Ok(traffic::replay(
            packets,
            longest.max(Duration::from_millis(20)),
        ));
    }
    let [low, high] = settings.rates[..] else {
        return Err(Error::input("--packet-rate: use two rates, as LOW,HIGH"));
    };
    let price = direct_price_ns(plan, settings, load, bench)?;
    notes.push(format!(
        "{}: a packet takes {:.0} ns without interrupts, so the high load is {:.0} % of a core if the cipher is called directly",
        load.name,
        price,
        100.0 * high * price / 1e9
    ));
    let config = plan.config();
    let slice_us = config.slice_us.max(config.tick_us);
    Ok(traffic::imix(plan.seed, (low, high), slice_us, plan.quick))
}

#[allow(clippy::too_many_arguments)]
fn measure_load(
    plan: &Plan,
    settings: &Settings,
    load: &EspLoad,
    bench: &mut Bench,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64),
    outcome: &mut Outcome<Row>,
) -> Result<(), Error> {
    let traffic = traffic_of(plan, settings, load, bench, &mut outcome.notes)?;
    outcome
        .notes
        .push(format!("{}: {}", load.name, traffic.note));
    let mut gateway = Gateway::open(plan, &esp_plan(plan, settings, load, &traffic))?;
    let entries = entries(plan);
    let mut sums: Vec<[Sum; 2]> = Vec::new();
    sums.resize_with(entries.len(), Default::default);
    let mut lines = vec![Timeline::default(); entries.len()];
    let high_s = (traffic.phase_end[1] - traffic.phase_end[0]) as f64 / 1e9;
    let share = plan.budget / settings.loads.len() as u32;
    let (start, mut rounds) = (Instant::now(), 0u32);
    let stopped = || stop.load(Ordering::Relaxed);
    while !stopped() && (rounds < ROUNDS || start.elapsed() < share) {
        for turn in 0..entries.len() {
            // Vary the order from round to round, so that no policy always runs after the same
            // other policy.
            let n = entries.len();
            let i = (turn * if rounds % 2 == 0 { 1 } else { n - 1 } + rounds as usize) % n;
            for half in 0..2 {
                let quiet = (half + rounds) % 2 == 1;
                let (policy, sum) = (entries[i].policy, &mut sums[i][usize::from(quiet)]);
                let went = sum.run(plan, bench, policy, &mut gateway, quiet)?;
                if !quiet {
                    sums[i][0].rate.rounds.push(round(high_mb(&went) / high_s));
                    lines[i].add(&went);
                }
            }
            tell(start.elapsed().as_secs_f64() / share.as_secs_f64());
            if stopped() {
                break;
            }
        }
        rounds += 1;
    }
    outcome
        .notes
        .push(format!("{}: {rounds} rounds", load.name));
    let before = outcome.rows.len();
    rows(plan, load, &entries, &sums, &gateway, outcome);
    let phases = traffic.phase_end.map(|ns| ns as f64 / 1e6);
    let real = outcome.rows[before..].iter_mut().filter(|r| !r.control);
    for (row, line) in real.zip(&lines) {
        row.course = Some(Course::new(line, phases));
    }
    Ok(())
}

fn high_mb(o: &esp::Outcome) -> f64 {
    o.flows.iter().map(|f| f.bytes[1]).sum::<u64>() as f64 / 1e6
}

fn round(rate: f64) -> Round {
    Round {
        best: Some(rate),
        samples: vec![rate],
        complete: true,
    }
}

impl Sum {
    fn run(
        &mut self,
        plan: &Plan,
        bench: &mut Bench,
        policy: Policy,
        gateway: &mut Gateway,
        quiet: bool,
    ) -> Result<esp::Outcome, Error> {
        let o = gateway.run(plan, bench, policy, quiet, &mut self.tally)?;
        for (sum, f) in self.flows.iter_mut().zip(&o.flows) {
            sum.replay_lost += f.replay_lost;
            sum.dropped += f.dropped;
            sum.reordered += f.reordered;
            for (sum, bytes) in sum.bytes.iter_mut().zip(f.bytes) {
                *sum += bytes;
            }
        }
        match o.recovery_us {
            Some(us) => self.recovery_us.push(us),
            None => self.never += 1,
        }
        self.missed += o.missed;
        self.own += o.own_packets;
        Ok(o)
    }

    /// Returns the median recovery time; `None` if packets were still waiting at the end of most
    /// rounds.
    fn recovery(&self) -> Option<f64> {
        let mut all = self.recovery_us.clone();
        all.resize(all.len() + self.never as usize, f64::INFINITY);
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied().filter(|us| us.is_finite())
    }
}

fn rows(
    plan: &Plan,
    load: &EspLoad,
    entries: &[Entry],
    sums: &[[Sum; 2]],
    gateway: &Gateway,
    outcome: &mut Outcome<Row>,
) {
    for (entry, pair) in entries.iter().zip(sums) {
        for (control, sum) in [false, true].into_iter().zip(pair) {
            let first = &sums[0][usize::from(control)];
            let mut row = Row::new(
                plan,
                *entry,
                WORK,
                0,
                &sum.tally,
                control,
                kiln_tsc_hz() / 1e6,
            );
            row.load = load.name.clone().into();
            row.imp = gateway.driver(entry.policy).to_string().into();
            if entry.fallback == Fallback::Scalar {
                row.fallback = Cow::Borrowed("none");
            }
            row.set_ratio(sum.tally.ratio(&first.tally));
            if !control {
                row.set_of_control(pair[0].tally.ratio(&pair[1].tally));
            }
            let c = &sum.tally.counts;
            row.async_punts = Some(c.async_punts);
            row.reordered = Some(c.reordered);
            row.dropped = Some(c.dropped);
            row.packets = Some(c.softirq_ops);
            row.own_packets = Some(sum.own);
            row.ring_missed = Some(sum.missed);
            row.replay_lost = Some(sum.flows.iter().map(|f| f.replay_lost).sum());
            let bytes: u64 = sum.flows.iter().flat_map(|f| f.bytes).sum();
            row.softirq_mb_per_s =
                (sum.tally.seconds > 0.0).then(|| bytes as f64 / sum.tally.seconds / 1e6);
            if !control {
                let one = Series {
                    rounds: vec![round(1.0); sum.rate.rounds.len()],
                    ..Series::default()
                };
                row.set_esp(ratio(&sum.rate, &one), ratio(&sum.rate, &first.rate));
                row.recovery_us = sum.recovery();
            }
            if plan.irq_rate > BUSIEST_TABLE {
                row.without_throughput();
            }
            outcome.rows.push(row);
        }
    }
}

fn notes(plan: &Plan, settings: &Settings, outcome: &mut Outcome<Row>) {
    let config = plan.config();
    let model = if config.preempt_full {
        "full"
    } else {
        "voluntary"
    };
    outcome.notes.push(format!(
        "emulated CPU: {model} preemption, {}; each task switch counts as {:.1} µs",
        plan.scheduler_note(),
        config.switch_ns as f64 / 1e3
    ));
    let phases = outcome.rows.iter().any(|r| r.course.is_some());
    let own = match settings.own_every.unwrap_or(if phases { OWN_EVERY } else { 0 }) {
        0 => "sends no packets".to_string(),
        n => format!(
            "after every {n} sectors sends a packet of its own, on the security association of the packets that go into the tunnel"
        ),
    };
    outcome.notes.push(format!(
        "the task encrypts sectors of {SECTOR} B through the crypto API, {ENTRY} per emulated system call, and {own}"
    ));
    outcome.notes.push(format!(
        "column 'wrong' counts the sectors and packets that differ from the results of code without SIMD, plus lost user-mode registers; \
         every sector and packet is compared. A receiver's anti-replay window has {} sequence numbers",
        settings.window
    ));
    if phases {
        outcome.notes.push(
            "esp: payload of the high phase that the receivers accepted, per second (median of the rounds). recovery: time from the end \
             of the high phase until no packet was waiting (median)"
                .to_string(),
        );
    }
    if outcome.rows.iter().any(|r| r.sweep.is_some()) {
        outcome.notes.extend([
            "a packet is lost if cryptd's queue is full, if an anti-replay window refuses the packet, or if the core is too slow, so that \
             the network card's ring of 4096 packets is full"
                .to_string(),
            format!(
                "column 'loses from' is the rate at which losses begin. It lies between the lowest rate with losses and the next lower rate \
                 tried, which is 9 % lower. A rate has losses if over {} % of its packets are lost, or if the core, in over half of the \
                 trials, needs over 10 ms at the end to process its backlog. low and high are the ends of the range over all rounds, \
                 widened by one step of 9 % at each end",
                100.0 * sweep::LOST
            ),
            "column 'of the core' is the share of the core that packets take: the throughput that the task loses, compared with the same \
             interrupts without packets. A negative loss is shown as 0.0 %. Gbit/s counts the bits of the IP packets, without the bits \
             that ESP adds"
                .to_string(),
        ]);
    }
    if outcome.rows.iter().any(|r| r.policy == "legacy") {
        outcome.notes.push(
            "under policy 'legacy', a packet goes to cryptd if the FPU is in use, or if earlier packets of the same security association \
             wait for cryptd. cryptd's queue holds 1000 packets. The other policies call the drivers directly"
                .to_string(),
        );
    }
    let reordered_in = outcome
        .rows
        .iter()
        .any(|r| r.policy == "legacy" && r.replay_lost > Some(0));
    if reordered_in {
        outcome.notes.push(
            "reordered: the task's own packets overtook packets that waited for cryptd. This is allowed, because the task can sleep. \
             Packets of softirqs keep their order"
                .to_string(),
        );
    }
    for r in outcome
        .rows
        .iter()
        .filter(|r| !r.control && r.policy == "legacy")
    {
        if r.sweep.is_none() && r.async_punts > Some(0) && r.dropped == Some(0) {
            let more = match r.load.starts_with("pcap") {
                true => "try another --scheduler",
                false => "raise the rate",
            };
            outcome.notes.push(format!(
                "{}: cryptd's queue dropped no packets under the high load. To see losses, {more}",
                r.load
            ));
        }
    }
    let missed = outcome
        .rows
        .iter()
        .filter(|r| r.sweep.is_none())
        .filter_map(|r| r.ring_missed)
        .sum::<u64>();
    if missed > 0 {
        outcome.notes.push(format!(
            "{missed} packets found the card's ring of 4096 full and never became requests (ring_missed)"
        ));
    }
    let none = outcome
        .rows
        .iter()
        .filter(|r| r.policy == "none" && !r.control);
    let wrong: u64 = none.map(|r| r.corrupted).sum();
    if wrong > 0 {
        outcome.notes.push(format!(
            "none, the broken control, saves nothing: {wrong} results were wrong"
        ));
    }
    if outcome.interrupted {
        outcome
            .notes
            .push("interrupted: figures of the rounds until then".to_string());
    }
}
