//! Injects one interrupt per run, before each instruction in turn, always starting from the same
//! state.
//!
//! These runs cover code that is never executed if a run interrupts every instruction of a section.
//! In such a run, the first softirq saves the user's state and updates the section timer, so the
//! section's own code that does this is never executed. If a policy delays softirqs until the end
//! of the section, later interrupts run these softirqs on their own return path. With a single
//! interrupt, the section itself runs them.

use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::{usable, Context};
use kiln_kernel::irq::Step;
use kiln_question::Error;

use super::examined::Examined;
use super::probe::{Probe, Task};

/// Sections of at most this many instructions are interrupted at every instruction, each in a
/// separate run. The limit is needed because each run single-steps up to its interrupt, so the
/// total time is quadratic in the number of instructions.
const LONGEST: u64 = 800;
/// In a longer section, only the first `BEGINNING` instructions are interrupted in separate runs.
/// `kernel_fpu_begin` executes fewer instructions than this, even if it saves the user's state.
const BEGINNING: u64 = 160;

/// Returns whether to run the probe. If `quick` is true, only the pattern task and encryptions of
/// at most 16 bytes are run.
fn worth(probe: &Probe, quick: bool) -> bool {
    match &probe.task {
        Task::Keep => true,
        task => !quick || task.len() <= Some(16) && task.op() == Some("encrypt"),
    }
}

/// Interrupts each instruction of a short section in a separate run. In a longer section, only the
/// beginning is interrupted in this way, and a single run interrupts all later instructions. The
/// control continues after a loss, because the total number of its losses is needed to judge the
/// other policies.
pub(super) fn pass(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    quick: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let control = probe.policy.is_broken();
    if !worth(probe, quick || control) {
        return Ok(());
    }
    let instructions = examined.row.instructions;
    let mut end = instructions;
    if instructions > LONGEST {
        end = BEGINNING;
    }
    if end < instructions && !control {
        let step = Step::Range(BEGINNING, u64::MAX);
        let found = probe.run(cpu, step, false)?;
        examined.add(&found);
        examined.row.singles += found.injected;
        if probe.lost(&found) {
            if let Some(k) = probe.bisect(cpu, BEGINNING, found.outer)? {
                examined.finding(probe, Step::At(k));
            }
            return Ok(());
        }
    }
    for k in 0..end {
        if stopped() {
            break;
        }
        let found = probe.run(cpu, Step::At(k), true)?;
        examined.add(&found);
        examined.row.singles += found.injected;
        if probe.lost(&found) && !control {
            examined.finding(probe, Step::At(k));
            break;
        }
    }
    Ok(())
}

/// The second interrupt is injected at the last `BEFORE` instructions before the end of the
/// section, at the first `AFTER` instructions after it, and at the last `LAST` instructions of the
/// whole run. Together, these ranges are assumed to cover the path to the waiting softirqs and
/// back.
const BEFORE: u64 = 64;
const AFTER: u64 = 160;
const LAST: u64 = 96;

/// Returns whether the probe's policy makes a softirq that is raised during a section wait until
/// the section ends.
fn softirqs_wait(probe: &Probe, cpu: &mut Cpu) -> bool {
    probe.policy.set(cpu);
    !usable(cpu, Context::Softirq, true).over_section
}

/// Tests a softirq that waits for the end of the section. Each run injects a second interrupt, at a
/// different instruction on the path to the softirq and back.
pub(super) fn waiting(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if probe.task.len() != Some(16)
        || probe.task.op() != Some("encrypt")
        || !softirqs_wait(probe, cpu)
    {
        return Ok(());
    }
    let n = examined.row.instructions;
    let k1 = n / 2;
    let end = probe.run(cpu, Step::Pair(k1, u64::MAX), false)?.inner;
    let rest = n - k1;
    let way = rest.saturating_sub(BEFORE)..(rest + AFTER).min(end);
    let back = end.saturating_sub(LAST).max(way.end)..end;
    for k2 in way.chain(back) {
        if stopped() {
            break;
        }
        let step = Step::Pair(k1, k2);
        let found = probe.run(cpu, step, true)?;
        examined.add(&found);
        examined.row.pairs += u64::from(found.injected == 2);
        if probe.lost(&found) {
            examined.finding(probe, step);
            break;
        }
    }
    Ok(())
}
