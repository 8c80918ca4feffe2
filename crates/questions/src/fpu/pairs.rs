//! Injects pairs of interrupts: one in the task's section, and one in the softirq that the first
//! interrupt raises.

use std::time::{Duration, Instant};

use kiln_kernel::cpu::Cpu;
use kiln_kernel::irq::Step;
use kiln_measure::SplitMix64;
use kiln_question::Error;

use super::examined::Examined;
use super::probe::Probe;

/// Number of instructions at each end of a section that are interrupted more often than the rest,
/// because they include the policy's own code.
const EDGE: u64 = 128;
/// Number of pairs to try even if `time` has run out.
const FEWEST: u64 = 2;

/// Tries `count` pairs, or fewer if `time` runs out.
pub(super) fn sample(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    count: u64,
    time: Duration,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let start = Instant::now();
    let n = examined.row.instructions.max(1);
    let softirq = examined.row.softirq_instructions.max(1);
    let mut rng = SplitMix64(probe.seed ^ n);
    for tried in 0..count {
        if stopped() || tried >= FEWEST && start.elapsed() >= time {
            break;
        }
        let k1 = match rng.next_u64() % 3 {
            0 => rng.next_u64() % n.min(EDGE),
            1 => n - 1 - rng.next_u64() % n.min(EDGE),
            _ => rng.next_u64() % n,
        };
        // The softirq runs either immediately or, if the policy delays it, at the end of the
        // section. Try both.
        let late = (n - k1) * (rng.next_u64() % 2);
        let k2 = late + rng.next_u64() % softirq;
        let step = Step::Pair(k1, k2);
        let found = probe.run(cpu, step, true)?;
        examined.row.pairs += u64::from(found.injected == 2);
        examined.add(&found);
        if probe.lost(&found) {
            examined.finding(probe, step);
            break;
        }
    }
    Ok(())
}
