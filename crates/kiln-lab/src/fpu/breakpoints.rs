//! Corruption runs: interrupts at random instructions of a section, as many as can be had.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::kiln_tsc_hz;
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Breakpoints, Step, Stepping};
use kiln_kernel::load::Load;
use kiln_kernel::xts::Impl;

use super::bench::{idle_load, Bench};
use super::plan::Plan;
use super::row::Row;
use super::run::Outcome;
use super::tally::{cpu_time, Tally};
use super::workload::{load_plan, Workload, SHORT_PACKET};
use super::Progress;
use crate::Error;

/// How long a policy is interrupted at most.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(24);

/// Messages traced to find what is executed.
const TRACED: u64 = 4;

pub fn run(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Outcome, Error> {
    let mut outcome = Outcome::default();
    let runs = plan.policies.len() * plan.loads.len();
    // Kiln's own policies have a million interrupts among them; a tree is to have them alone.
    let longest = if plan.tree.is_some() { LONG } else { SHORT };
    let each = (plan.budget / runs as u32).min(longest);
    let mut done = 0;
    for &work in &plan.loads {
        for &policy in &plan.policies {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress(done as f64 / runs as f64, &plan.name(policy));
            let row = corrupt(plan, bench, policy, work, each, stop)?;
            outcome.rows.push(row);
            done += 1;
        }
    }
    let (hit, wrong) =
        outcome
            .rows
            .iter()
            .filter(|r| r.policy != "none")
            .fold((0, 0), |(hit, wrong), r| {
                (
                    hit + r.irqs_in_section,
                    wrong + r.corrupted + r.user_corrupted,
                )
            });
    outcome.notes.push(format!(
        "interrupts before random instructions of the task's sections, its messages as the load's name says, the softirqs' \
         of {SHORT_PACKET} B (of {} B under load pattern); without the broken control {wrong} wrong after {hit} interrupts into sections; no \
         throughput and no controls in this kind of run",
        Workload::PATTERN.packet
    ));
    Ok(outcome)
}

fn corrupt(
    plan: &Plan,
    bench: &mut Bench,
    policy: Policy,
    work: Workload,
    time: Duration,
    stop: &AtomicBool,
) -> Result<Row, Error> {
    let packet = work.packet.min(SHORT_PACKET);
    if let Some(tree) = plan.tree_of(policy) {
        policy.set(bench.cpu());
        let (mut sides, streams) = bench.tree_sides(plan, tree, work, packet)?;
        let mut load = Load::attach(bench.cpu(), idle_load(plan)?).map_err(lacks)?;
        load.exchange(&mut sides);
        let mut row = interrupted(plan, &mut load, policy, (work, packet), time, stop)?;
        row.imp = streams.driver().into();
        return Ok(row);
    }
    let imp = plan.imp.unwrap_or_else(Impl::best);
    let task = work.task(imp, plan.seed)?;
    let load = load_plan(plan.seed, task, imp.into(), packet, false)?;
    policy.set(bench.cpu());
    let mut load = Load::attach(bench.cpu(), load).map_err(lacks)?;
    let mut row = interrupted(plan, &mut load, policy, (work, packet), time, stop)?;
    row.imp = imp.driver().into();
    Ok(row)
}

fn lacks(e: kiln_kernel::xts::Error) -> Error {
    Error::lacks(e.to_string())
}

fn interrupted(
    plan: &Plan,
    load: &mut Load<'_>,
    policy: Policy,
    (work, packet): (Workload, usize),
    time: Duration,
    stop: &AtomicBool,
) -> Result<Row, Error> {
    let refused = |e| {
        Error::lacks(format!(
            "this host lets nobody set breakpoints: {e}: use --inject timer"
        ))
    };
    let mut stepping = Stepping::start(load.cpu(), Step::Trace).map_err(refused)?;
    load.set_stepping(true, false);
    load.run(TRACED);
    // What every message comes by, so that hardly a breakpoint is waited for in vain.
    let addresses = stepping.addresses(TRACED as usize);
    load.set_stepping(false, false);
    drop(stepping);
    load.cpu().reset_stats();
    let before = load.counts();
    let mut points = Breakpoints::start(load.cpu(), &addresses, plan.seed).map_err(refused)?;
    let (start, had) = (Instant::now(), cpu_time());
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        load.run(20);
        points.redraw();
    }
    let lasted = cpu_time() - had;
    drop(points);
    load.drain();
    let mut tally = Tally::default();
    let done = load.counts() - before;
    tally.add(load, done, lasted);
    let mut row = Row::new(
        plan,
        policy,
        work,
        packet,
        &tally,
        false,
        kiln_tsc_hz() / 1e6,
    );
    row.without_throughput();
    Ok(row)
}
