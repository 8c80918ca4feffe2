//! Runs proofs: injects an interrupt before every instruction of a section, from the first
//! instruction of `kernel_fpu_begin` to the return of `kernel_fpu_end`, under every policy and for
//! every tier, length and direction. Also replays single injections.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cipher::Impl;
use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::Step;
use kiln_kernel::load::all_impls;
use kiln_kernel::Tier;
use kiln_question::algorithm::op_name;
use kiln_question::{Error, Outcome, Report};
use kiln_tree::stream::Stream;

use super::bench::Bench;
use super::examined::Examined;
use super::inject::{Inject, Steps};
use super::plan::{Plan, TreeName};
use super::power::{self, is_control, Count};
use super::probe::{Probe, Task, PACKET};
use super::replay::REPLAY;
use super::step_row::StepRow;
use super::workload::messages;
use super::{nest, pairs, single};

/// Number of interrupt pairs to try per policy and task: without `--quick`, and with it.
const PAIRS: [u64; 2] = [200, 40];
/// Maximum number of replay lines per policy. It is low because each replay line requires a
/// bisection.
const REPLAYS: usize = 3;

type Proof = Outcome<StepRow>;

/// Runs the proof, or replays a single injection.
///
/// # Errors
/// Fails if the host does not allow single-stepping, if the instruction to replay does not exist,
/// or if the tree lacks the driver.
pub(super) fn prove(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<StepRow>, Error> {
    let mut proof = match plan.inject {
        Inject::Step(Steps::At(k)) => replay(plan, bench, Step::At(k))?,
        Inject::Step(Steps::Pair(k1, k2)) => replay(plan, bench, Step::Pair(k1, k2))?,
        _ => prove_all(plan, bench, stop, progress)?,
    };
    bench.put_back();
    proof.interrupted = stop.load(Ordering::Relaxed);
    conclude(plan, &mut proof);
    Ok(proof)
}

fn probe(
    plan: &Plan,
    policy: Policy,
    task: &Task,
    softirq: Option<Rc<Stream>>,
    hardirq_fpu: bool,
) -> Probe {
    Probe {
        policy,
        name: plan.name(policy),
        task: task.clone(),
        softirq,
        hardirq_fpu,
        preempt_full: plan.preempt_full,
        seed: plan.seed,
    }
}

/// Creates the pattern task, and one task for each combination of implementation, length and
/// direction.
fn tasks(plan: &Plan) -> Result<Vec<Task>, Error> {
    let mut tasks = Vec::new();
    if plan.pattern || plan.imp.is_none() {
        tasks.push(Task::Keep);
    }
    let impls: Vec<Impl> = match plan.imp {
        _ if plan.pattern => Vec::new(),
        Some(imp) => vec![imp],
        None => all_impls()
            .into_iter()
            .filter(|i| i.tier().usable() && i.tier() != Tier::Generic)
            .collect(),
    };
    for imp in impls {
        for &len in &plan.lens {
            for &op in &plan.ops {
                tasks.push(Task::crypt(plan.seed, imp, op, len)?);
            }
        }
    }
    Ok(tasks)
}

/// Creates the same tasks as [`tasks`], but uses a tree's crypto API. Also returns the stream that
/// the softirqs use.
fn tree_tasks(
    plan: &Plan,
    bench: &mut Bench,
    tree: &TreeName,
) -> Result<(Vec<Task>, Rc<Stream>), Error> {
    bench.put_back();
    let softirq = bench.softirq_stream(plan, tree, PACKET)?;
    let mut tasks = Vec::new();
    if plan.pattern || plan.imp.is_none() && tree.driver.is_none() {
        tasks.push(Task::Keep);
    }
    if !plan.pattern {
        for &len in &plan.lens {
            for &op in &plan.ops {
                let messages = messages(plan.seed, 1, op, len, 1)?;
                let stream = bench.task_stream(plan, tree, &messages)?;
                tasks.push(Task::Ask(stream, op, messages));
            }
        }
    }
    Ok((tasks, softirq))
}

/// Creates one probe per policy and task.
fn probes(plan: &Plan, bench: &mut Bench, hardirq_fpu: bool) -> Result<Vec<Probe>, Error> {
    let own = tasks(plan)?;
    let mut probes = Vec::new();
    for &policy in &plan.policies {
        match plan.tree_of(policy) {
            None => {
                let of = |task| probe(plan, policy, task, None, hardirq_fpu);
                // If the control was added only because a verdict requires it, one message per
                // implementation is enough to show that losses are detected.
                let few = plan.added_control && policy.is_broken();
                let (op, len) = (
                    plan.ops.first().copied().map(op_name),
                    plan.lens.first().copied(),
                );
                let wanted = |t: &&Task| !few || t.op().is_none() || t.op() == op && t.len() == len;
                probes.extend(own.iter().filter(wanted).map(of));
            }
            Some(tree) => {
                let (tasks, softirq) = tree_tasks(plan, bench, tree)?;
                let of = |task| probe(plan, policy, task, Some(softirq.clone()), hardirq_fpu);
                probes.extend(tasks.iter().map(of));
            }
        }
    }
    Ok(probes)
}

/// Selects the probes of this shard and those of the control. Every shard runs the control, to show
/// that the shard would have detected a loss.
fn select(plan: &Plan, probes: Vec<Probe>) -> Vec<Probe> {
    let is_control = |p: &Probe| plan.added_control && p.policy.is_broken();
    let (control, judged): (Vec<Probe>, Vec<Probe>) = probes.into_iter().partition(is_control);
    let mut own = plan.share.select(judged, Probe::to_string);
    // A shard without probes needs no control.
    if !own.is_empty() {
        own.extend(control);
    }
    own
}

fn prove_all(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Proof, Error> {
    let start = Instant::now();
    let stopped = || stop.load(Ordering::Relaxed);
    let probes = select(plan, probes(plan, bench, false)?);
    let cpu = bench.cpu();
    let total = probes.len() as f64;
    let mut done: Vec<(Probe, Examined)> = Vec::new();
    for &policy in &plan.policies {
        let mut replays = match plan.added_control && policy.is_broken() {
            true => 0,
            false => REPLAYS,
        };
        for probe in probes.iter().filter(|p| p.policy == policy) {
            if stopped() {
                break;
            }
            progress(0.5 * done.len() as f64 / total, &probe.name);
            let probe = probe.clone();
            let mut examined = passes(&probe, cpu, &mut replays)?;
            nest::pass(&probe, cpu, &mut examined)?;
            single::pass(&probe, cpu, &mut examined, plan.quick, &stopped)?;
            if !plan.quick {
                single::waiting(&probe, cpu, &mut examined, &stopped)?;
            }
            done.push((probe, examined));
        }
    }
    let count = PAIRS[usize::from(plan.quick)];
    let left = done.len();
    for (i, (probe, examined)) in done.iter_mut().enumerate() {
        if stopped() {
            break;
        }
        if !examined.findings.is_empty() || probe.policy.is_broken() {
            continue;
        }
        progress(0.5 + 0.5 * i as f64 / total, "pairs");
        let time = plan.budget.saturating_sub(start.elapsed()) / (left - i) as u32;
        // In the second half of the pairs, hardirq handlers also open sections.
        for hardirq_fpu in [false, true] {
            probe.hardirq_fpu = hardirq_fpu;
            let share: Duration = time / 2;
            pairs::sample(probe, cpu, examined, count / 2, share, &stopped)?;
        }
    }
    let mut proof = Proof::default();
    for (_, mut examined) in done {
        // Report a loss only if it occurs again when the injection is repeated. Otherwise, the
        // replay command might not reproduce it.
        for (probe, step) in &examined.findings {
            if probe.lost(&probe.run(cpu, *step, true)?) {
                let line = probe.replay(*step);
                examined.row.replay.get_or_insert_with(|| line.clone());
                proof.notes.push(format!("{REPLAY}{line}"));
            }
        }
        proof.rows.push(examined.row);
    }
    Ok(proof)
}

/// Injects an interrupt before every instruction, in two passes. In the second pass, hardirq
/// handlers also open sections.
fn passes(probe: &Probe, cpu: &mut Cpu, replays: &mut usize) -> Result<Examined, Error> {
    let quiet = probe.count(cpu)?;
    if probe.lost(&quiet) {
        return Err(Error::Failed(format!(
            "{probe}: wrong without any interrupt: run 'kiln test'"
        )));
    }
    let mut examined = Examined::new(probe, quiet.outer);
    for hardirq_fpu in [false, true] {
        let probe = Probe {
            hardirq_fpu,
            ..probe.clone()
        };
        let found = probe.run(cpu, Step::Every, false)?;
        examined.add(&found);
        if !hardirq_fpu {
            examined.row.points = found.outer;
        }
        if probe.lost(&found) && *replays > 0 {
            if let Some(k) = probe.bisect(cpu, 0, found.outer)? {
                examined.finding(&probe, Step::At(k));
                *replays -= 1;
            }
        }
    }
    Ok(examined)
}

/// Repeats one injection, as requested by `--at`.
fn replay(plan: &Plan, bench: &mut Bench, step: Step) -> Result<Proof, Error> {
    let probe = probes(plan, bench, plan.hardirq_fpu)?.swap_remove(0);
    let cpu = bench.cpu();
    let count = probe.count(cpu)?.outer;
    let found = probe.run(cpu, step, true)?;
    if found.injected == 0 {
        return Err(Error::input(format!(
            "--at: the section has {count} instructions, numbered from 0: name one of them"
        )));
    }
    let mut examined = Examined::new(&probe, count);
    examined.add(&found);
    examined.row.points = 1;
    examined.row.pairs = u64::from(matches!(step, Step::Pair(..)) && found.injected == 2);
    let mut proof = Proof::default();
    if probe.lost(&found) {
        examined.row.replay = Some(probe.replay(step));
    }
    proof.rows.push(examined.row);
    Ok(proof)
}

fn conclude(plan: &Plan, proof: &mut Proof) {
    let broken = |r: &&StepRow| is_control(&r.policy);
    let wrong = |r: &StepRow| r.corrupted + r.user_corrupted;
    let lost: u64 = proof.rows.iter().filter(|r| !broken(r)).map(wrong).sum();
    let sum = |f: fn(&StepRow) -> u64| proof.rows.iter().filter(|r| !broken(r)).map(f).sum::<u64>();
    if proof.rows.iter().any(|r| !broken(&r)) {
        proof.notes.push(format!(
            "Kiln interrupted {} instructions of FPU sections, {} of softirqs, and {} once more in separate runs. After {} interrupts \
             in all, including {} pairs of interrupts, {} results were wrong and {} user states were lost",
            sum(|r| r.points),
            sum(|r| r.softirq_points),
            sum(|r| r.singles),
            sum(|r| r.injected),
            sum(|r| r.pairs),
            sum(|r| r.corrupted),
            sum(|r| r.user_corrupted)
        ));
    }
    let of_control = |f: fn(&StepRow) -> u64| proof.rows.iter().filter(broken).map(f).sum::<u64>();
    if proof.rows.iter().any(|r| broken(&r)) {
        proof.notes.push(format!(
            "the control, policy none, saves nothing: {} wrong results and {} lost user states in {} interrupts",
            of_control(|r| r.corrupted),
            of_control(|r| r.user_corrupted),
            of_control(|r| r.injected)
        ));
    }
    let blind = match plan.inject {
        Inject::Step(Steps::All) => {
            let counts: Vec<Count> = proof.rows.iter().map(StepRow::count).collect();
            let blind = power::judge(&counts).err().map(|why| why.to_string());
            let expected: Vec<Option<f64>> =
                counts.iter().map(|c| power::expected(c, &counts)).collect();
            for (row, expected) in proof.rows.iter_mut().zip(expected) {
                row.expected_wrong = expected.filter(|_| !is_control(&row.policy));
            }
            blind
        }
        // A replay of the control fails if it does not reproduce the loss.
        _ => (of_control(wrong) == 0 && proof.rows.iter().any(|r| broken(&r)))
            .then(|| "nothing was lost under the control that saves nothing: this is not a replay of a loss".to_string()),
    };
    let blind = blind.filter(|_| !proof.rows.is_empty());
    proof.notes.extend(blind.clone());
    if matches!(plan.inject, Inject::Step(Steps::All)) {
        proof.notes.push(
            "points: instructions from the first of kernel_fpu_begin to the return of kernel_fpu_end, each with an interrupt before it. In \
             a second pass, hardirqs open sections, too; a third pass interrupts every instruction of a softirq. singles: every \
             instruction is interrupted once more, in short sections and at the beginning of long ones each in its own run. The reason: \
             if many softirqs run, the first of them saves the user's state, and the section does not. pairs: an interrupt in the \
             section and one in the softirq that it raises, at random instructions, as many pairs as the time allows. The results of \
             the task and the softirqs, and the user's state, are checked each time"
                .to_string(),
        );
    }
    if proof.interrupted {
        proof
            .notes
            .push("interrupted: what was examined until then".to_string());
    }
    proof.failed = lost > 0 || blind.is_some() && !proof.interrupted;
}
