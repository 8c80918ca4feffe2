//! Runs one operation of the task under one injection. The initial state does not depend on earlier
//! runs, so a replay gives the same result.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Step, Stepping};
use kiln_kernel::load::{best_impl, Load, Messages, TaskWork, Worker};
use kiln_question::algorithm::op_name;
use kiln_question::Error;
use kiln_tree::stream::Stream;

use super::workload::{load_plan, messages};

/// Size of a softirq's message in bytes.
pub(super) const PACKET: usize = 128;
/// Number of loop iterations during which the task keeps the pattern in its registers.
const SPINS: u64 = 20;
/// Value of `--impl` that selects the task that keeps a pattern in all registers.
pub(super) const PATTERN: &str = "pattern";

/// What the task does in the section.
#[derive(Clone)]
pub(super) enum Task {
    /// Encrypts or decrypts one message.
    Crypt(Impl, Op, Arc<Messages>),
    /// Encrypts or decrypts one message through a tree's crypto API.
    Ask(Rc<Stream>, Op, Arc<Messages>),
    /// Keeps a pattern in all registers.
    Keep,
}

impl Task {
    /// Creates a task that processes one message derived from the seed.
    pub(super) fn crypt(seed: u64, imp: Impl, op: Op, len: usize) -> Result<Task, Error> {
        Ok(Task::Crypt(imp, op, messages(seed, 1, op, len, 1)?))
    }

    pub(super) fn imp(&self) -> Cow<'static, str> {
        match self {
            Task::Crypt(imp, ..) => imp.driver().into(),
            Task::Ask(stream, ..) => stream.driver().to_string().into(),
            Task::Keep => PATTERN.into(),
        }
    }

    /// Returns the operation's name; `None` for the pattern task.
    pub(super) fn op(&self) -> Option<&'static str> {
        match self {
            Task::Crypt(_, op, _) | Task::Ask(_, op, _) => Some(op_name(*op)),
            Task::Keep => None,
        }
    }

    /// Returns the size of the task's message in bytes; `None` for the pattern task.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Task::Crypt(_, _, messages) | Task::Ask(_, _, messages) => Some(messages.message_len()),
            Task::Keep => None,
        }
    }
}

/// One operation of the task, and the conditions under which interrupts are injected.
#[derive(Clone)]
pub(super) struct Probe {
    pub policy: Policy,
    /// The policy's name as it appears in rows.
    pub name: Cow<'static, str>,
    pub task: Task,
    /// The cipher in a tree's crypto API that the softirqs use; `None` if they use Kiln's own
    /// cipher.
    pub softirq: Option<Rc<Stream>>,
    /// Whether hardirq handlers also open sections.
    pub hardirq_fpu: bool,
    pub preempt_full: bool,
    pub seed: u64,
}

/// Results of running a probe once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of instructions that were single-stepped: `outer` in the task's section, `inner` in
    /// the softirq and the code after it.
    pub outer: u64,
    pub inner: u64,
    pub injected: u64,
    pub masked: u64,
    pub corrupted: u64,
    pub user_corrupted: u64,
    pub warnings: u64,
}

impl Found {
    /// Returns whether state was lost.
    fn wrong(&self) -> bool {
        self.corrupted + self.user_corrupted > 0
    }
}

impl Probe {
    /// Runs the probe without an interrupt, to count the instructions in the section.
    pub(super) fn count(&self, cpu: &mut Cpu) -> Result<Found, Error> {
        self.run(cpu, Step::At(u64::MAX), false)
    }

    /// Runs the probe once. If `brief` is true, single-stepping ends after the last injection.
    pub(super) fn run(&self, cpu: &mut Cpu, step: Step, brief: bool) -> Result<Found, Error> {
        self.policy.set(cpu);
        let (task, imp) = match &self.task {
            Task::Crypt(imp, _, messages) => (TaskWork::Crypt(*imp, messages.clone()), *imp),
            Task::Ask(stream, _, messages) => (
                TaskWork::Ask(stream.operation(), messages.clone(), 1),
                best_impl(),
            ),
            Task::Keep => {
                let seed = self.seed;
                (TaskWork::Keep { seed, spins: SPINS }, best_impl())
            }
        };
        let worker = match &self.softirq {
            Some(stream) => Worker::Op(stream.operation()),
            None => imp.into(),
        };
        let plan = load_plan(self.seed, task, worker, PACKET, self.hardirq_fpu)?;
        let mut load = Load::attach(cpu, plan).map_err(|e| Error::lacks(e.to_string()))?;
        load.cpu().reset_stats();
        let mut stepping = Stepping::start(load.cpu(), step).map_err(|e| {
            Error::lacks(format!(
                "this host does not allow single steps: {e}: use 'kiln fpu', which does not need them"
            ))
        })?;
        stepping.set_brief(brief);
        load.set_stepping(true, matches!(step, Step::Pair(..) | Step::Nest(..)));
        load.run(1);
        load.set_stepping(false, false);
        let (outer, inner) = stepping.instructions();
        let (injected, masked) = stepping.injected();
        drop(stepping);
        load.drain();
        let counts = load.counts();
        Ok(Found {
            outer,
            inner,
            injected,
            masked,
            corrupted: counts.task_corrupted + counts.softirq_corrupted,
            user_corrupted: counts.user_corrupted,
            warnings: load.cpu().stats().warnings,
        })
    }

    /// Returns whether an interrupt made the probe lose state. Under the broken control, lost user
    /// states do not count, because the control loses them even without an interrupt.
    pub(super) fn lost(&self, found: &Found) -> bool {
        match self.policy.is_broken() {
            true => found.corrupted > 0,
            false => found.wrong(),
        }
    }

    /// Finds an instruction between `first` (inclusive) and `end` (exclusive) at which a single
    /// interrupt loses state; `None` if it takes several interrupts to lose state.
    pub(super) fn bisect(
        &self,
        cpu: &mut Cpu,
        mut first: u64,
        mut end: u64,
    ) -> Result<Option<u64>, Error> {
        while end - first > 1 {
            let middle = first + (end - first) / 2;
            if self.lost(&self.run(cpu, Step::Range(first, middle), false)?) {
                end = middle;
            } else if self.lost(&self.run(cpu, Step::Range(middle, end), false)?) {
                first = middle;
            } else {
                return Ok(None);
            }
        }
        let found = self.run(cpu, Step::At(first), true)?;
        Ok(self.lost(&found).then_some(first))
    }

    /// Returns the command that repeats the probe with the same injection.
    pub(super) fn replay(&self, step: Step) -> String {
        let at = match step {
            Step::Pair(k1, k2) => format!("{k1},{k2}"),
            Step::At(k) => k.to_string(),
            _ => String::new(),
        };
        format!("kiln fpu prove --at {at} {self}")
    }
}

/// Formats the probe as command-line flags.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--policy {} --impl {}", self.name, self.task.imp())?;
        if let (Some(len), Some(op)) = (self.task.len(), self.task.op()) {
            write!(f, " --len {len} --op {op}")?;
        }
        if self.hardirq_fpu {
            f.write_str(" --hardirq-fpu")?;
        }
        if self.preempt_full {
            f.write_str(" --preempt full")?;
        }
        write!(f, " --seed {}", self.seed)
    }
}
