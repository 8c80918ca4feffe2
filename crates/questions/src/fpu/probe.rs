//! One operation of the task under one injection, from a state that depends on nothing that ran before: what it
//! finds, a replay finds again.

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

/// Bytes of a softirq's message.
pub(super) const PACKET: usize = 128;
/// Iterations for which the pattern is kept.
const SPINS: u64 = 20;
/// What `--impl` takes for the task that keeps a pattern in all registers.
pub(super) const PATTERN: &str = "pattern";

/// What the task does once.
#[derive(Clone)]
pub(super) enum Task {
    /// One message.
    Crypt(Impl, Op, Arc<Messages>),
    /// One message through a tree's crypto API.
    Ask(Rc<Stream>, Op, Arc<Messages>),
    /// A pattern in every register.
    Keep,
}

impl Task {
    /// A message that follows from the seed.
    pub(super) fn crypt(seed: u64, imp: Impl, op: Op, len: usize) -> Result<Task, Error> {
        Ok(Task::Crypt(imp, op, messages(seed, 1, op, len, 1)?))
    }

    /// Driver name.
    pub(super) fn imp(&self) -> Cow<'static, str> {
        match self {
            Task::Crypt(imp, ..) => imp.driver().into(),
            Task::Ask(stream, ..) => stream.driver().to_string().into(),
            Task::Keep => PATTERN.into(),
        }
    }

    /// Operation, if it has one.
    pub(super) fn op(&self) -> Option<&'static str> {
        match self {
            Task::Crypt(_, op, _) | Task::Ask(_, op, _) => Some(op_name(*op)),
            Task::Keep => None,
        }
    }

    /// Bytes of its message.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Task::Crypt(_, _, messages) | Task::Ask(_, _, messages) => Some(messages.message_len()),
            Task::Keep => None,
        }
    }
}

/// The operation, and what interrupts find.
#[derive(Clone)]
pub(super) struct Probe {
    pub policy: Policy,
    /// What rows call it.
    pub name: Cow<'static, str>,
    pub task: Task,
    /// Softirqs that encrypt through a tree's crypto API.
    pub softirq: Option<Rc<Stream>>,
    /// Hardirq handlers open sections, too.
    pub hardirq_fpu: bool,
    pub preempt_full: bool,
    pub seed: u64,
}

/// What a probe found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Instructions stepped over: of the task's section, of the softirq and what follows it.
    pub outer: u64,
    pub inner: u64,
    pub injected: u64,
    pub masked: u64,
    pub corrupted: u64,
    pub user_corrupted: u64,
    pub warnings: u64,
}

impl Found {
    /// State was lost.
    fn wrong(&self) -> bool {
        self.corrupted + self.user_corrupted > 0
    }
}

impl Probe {
    /// Count the section's instructions, without an interrupt.
    pub(super) fn count(&self, cpu: &mut Cpu) -> Result<Found, Error> {
        self.run(cpu, Step::At(u64::MAX), false)
    }

    /// Run it once. With `brief` the injections are the last thing that is stepped.
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

    /// Whether `found` is a loss that an interrupt caused: the broken control loses the user's state without.
    pub(super) fn lost(&self, found: &Found) -> bool {
        match self.policy.is_broken() {
            true => found.corrupted > 0,
            false => found.wrong(),
        }
    }

    /// An instruction of these before which an interrupt alone loses state; none if it takes several.
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

    /// The command that runs it again with the same injection.
    pub(super) fn replay(&self, step: Step) -> String {
        let at = match step {
            Step::Pair(k1, k2) => format!("{k1},{k2}"),
            Step::At(k) => k.to_string(),
            _ => String::new(),
        };
        format!("kiln fpu prove --at {at} {self}")
    }
}

/// As flags.
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
