//! Loads: a task that encrypts on an emulated CPU while softirqs encrypt over it.

use std::ffi::c_void;
use std::fmt;
use std::ops::{AddAssign, Sub};
use std::sync::Arc;

use crate::cipher::{Context, Impl, Op, Sections, BLOCK};
use crate::cpu::{self, Cpu, Pattern};
use crate::sys;
pub use crate::sys::OpCrypt;
use crate::tier::Tier;

/// What a load refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `xts(aes)` takes keys of 32, 48 or 64 bytes.
    KeyLength(usize),
    /// A message has at least 16 bytes.
    TooShort(usize),
    /// The CPU lacks, or the mask forbids, the implementation's tier.
    Unusable(Tier),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::KeyLength(n) => write!(f, "a key of {n} bytes: {ALG} takes 32, 48 or 64"),
            Error::TooShort(n) => write!(f, "a message of {n} bytes: XTS takes at least {BLOCK}"),
            Error::Unusable(t) => write!(f, "tier {t} cannot be used here"),
        }
    }
}

impl std::error::Error for Error {}

/// The algorithm of all messages: `kernel/load` relies on whole messages leaving their IVs unchanged.
pub const ALG: &str = "xts(aes)";

/// All implementations that can encrypt messages, usable here or not, in order of priority.
pub fn all_impls() -> Vec<Impl> {
    Impl::find_all(ALG)
}

/// The implementation that a caller gets by default: usable, with the highest priority.
pub fn best_impl() -> Impl {
    Impl::best(ALG).expect("the generic tier is always usable")
}

/// Messages, the expected results and the key.
pub struct Messages {
    raw_key: Vec<u8>,
    ctx: Context,
    op: Op,
    len: usize,
    stride: usize,
    src: Vec<u8>,
    want: Vec<u8>,
    ivs: Vec<[u8; BLOCK]>,
}

impl Messages {
    /// `count` messages of `len` bytes from a generator of random bytes; the answers are
    /// those of `judge`.
    ///
    /// # Panics
    /// If `judge` is not an implementation of [`ALG`].
    pub fn new(
        judge: Impl,
        raw_key: &[u8],
        op: Op,
        len: usize,
        count: usize,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Arc<Messages>, Error> {
        usable([judge])?;
        let ctx = Context::new(judge, raw_key).map_err(|e| Error::KeyLength(e.0))?;
        if len < judge.shortest() {
            return Err(Error::TooShort(len));
        }
        let stride = len.next_multiple_of(64);
        let mut src = vec![0; stride * count];
        random(&mut src);
        let mut ivs = vec![[0; BLOCK]; count];
        for iv in &mut ivs {
            random(iv);
        }
        let mut want = vec![0; stride * count];
        for (i, iv) in ivs.iter().enumerate() {
            let at = i * stride..i * stride + len;
            judge.crypt(op, &ctx, iv, &src[at.clone()], &mut want[at]);
        }
        Ok(Arc::new(Messages {
            raw_key: raw_key.to_vec(),
            ctx,
            op,
            len,
            stride,
            src,
            want,
            ivs,
        }))
    }

    /// The argument of `kiln_calls_run` for one message with this key, and no buffers yet.
    #[doc(hidden)]
    pub fn calls(&self, imp: Impl) -> sys::Calls {
        sys::Calls {
            impl_: imp.0,
            ctx: self.ctx.as_ptr(),
            m: sys::Messages {
                count: 1,
                calls: 1,
                ..Default::default()
            },
            sections: Sections::Each as u32,
            ..Default::default()
        }
    }

    /// The key's bytes.
    pub fn raw_key(&self) -> &[u8] {
        &self.raw_key
    }

    /// Where they are; without gaps, if their length is a multiple of 64.
    pub(crate) fn view(&self) -> View {
        assert_eq!(self.len, self.stride, "messages without gaps");
        View {
            src: self.src.as_ptr(),
            want: self.want.as_ptr(),
            ivs: self.ivs.as_ptr().cast(),
            len: self.len,
            count: self.ivs.len(),
        }
    }

    /// Bytes of one.
    pub fn message_len(&self) -> usize {
        self.len
    }
}

/// Messages as `kernel/` sees them.
pub(crate) struct View {
    pub src: *const u8,
    pub want: *const u8,
    pub ivs: *const u8,
    pub len: usize,
    pub count: usize,
}

/// An operation of code outside `kernel/` that may answer later: `struct kiln_op`.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    crypt: OpCrypt,
    ctx: *mut c_void,
    slots: u32,
}

impl Operation {
    /// Of a function, its first argument, which has the key of the messages it is used with, and
    /// how many may be in flight.
    ///
    /// # Safety
    /// `crypt` is what `struct kiln_op` asks for with this `ctx`, for as long as a load uses it.
    pub unsafe fn new(crypt: OpCrypt, ctx: *mut c_void, slots: u32) -> Operation {
        Operation { crypt, ctx, slots }
    }
}

/// What encrypts a softirq's messages.
#[derive(Clone, Copy, Debug)]
pub enum Worker {
    /// An implementation of Kiln's, a section each; scalar code where none may be opened.
    Impl(Impl),
    /// Other code, which checks by itself whether it may use the FPU.
    Op(Operation),
}

impl From<Impl> for Worker {
    fn from(imp: Impl) -> Worker {
        Worker::Impl(imp)
    }
}

/// What the task does.
pub enum TaskWork {
    /// Encrypt these with this implementation, a section each.
    Crypt(Impl, Arc<Messages>),
    /// Let other code encrypt them, with at most this many in flight.
    Ask(Operation, Arc<Messages>, u32),
    /// Keep a pattern in every register for this many iterations of an empty loop.
    Keep {
        /// Seed of the pattern.
        seed: u64,
        /// Iterations.
        spins: u64,
    },
}

/// Counts of a load's results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The task's operations.
    pub task_ops: u64,
    /// Those of them with a wrong result.
    pub task_corrupted: u64,
    /// The softirqs' operations.
    pub softirq_ops: u64,
    /// Those of them with a wrong result.
    pub softirq_corrupted: u64,
    /// The kernel thread's operations.
    pub second_ops: u64,
    /// Those of them with a wrong result.
    pub second_corrupted: u64,
    /// Of the softirqs', done by scalar code because SIMD was not usable.
    pub scalar_fallbacks: u64,
    /// Sections opened by the hardirq handler.
    pub hardirq_sections: u64,
    /// Kernel entries that changed the user's FPU state.
    pub user_corrupted: u64,
    /// Operations of other code that answered later: the task's and the softirqs'.
    pub async_punts: u64,
    /// Those that were not accepted because a queue was full.
    pub dropped: u64,
    /// Requests answered after a later one of the same context.
    pub reordered: u64,
    /// Those answered with an error; they are among the corrupted, too.
    pub errors: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.task_ops += other.task_ops;
        self.task_corrupted += other.task_corrupted;
        self.softirq_ops += other.softirq_ops;
        self.softirq_corrupted += other.softirq_corrupted;
        self.second_ops += other.second_ops;
        self.second_corrupted += other.second_corrupted;
        self.scalar_fallbacks += other.scalar_fallbacks;
        self.hardirq_sections += other.hardirq_sections;
        self.user_corrupted += other.user_corrupted;
        self.async_punts += other.async_punts;
        self.dropped += other.dropped;
        self.reordered += other.reordered;
        self.errors += other.errors;
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        Counts {
            task_ops: self.task_ops - before.task_ops,
            task_corrupted: self.task_corrupted - before.task_corrupted,
            softirq_ops: self.softirq_ops - before.softirq_ops,
            softirq_corrupted: self.softirq_corrupted - before.softirq_corrupted,
            second_ops: self.second_ops - before.second_ops,
            second_corrupted: self.second_corrupted - before.second_corrupted,
            scalar_fallbacks: self.scalar_fallbacks - before.scalar_fallbacks,
            hardirq_sections: self.hardirq_sections - before.hardirq_sections,
            user_corrupted: self.user_corrupted - before.user_corrupted,
            async_punts: self.async_punts - before.async_punts,
            dropped: self.dropped - before.dropped,
            reordered: self.reordered - before.reordered,
            errors: self.errors - before.errors,
        }
    }
}

/// What a load is to be.
pub struct Plan {
    /// The task's part.
    pub task: TaskWork,
    /// The softirqs' part.
    pub softirq: (Worker, Arc<Messages>),
    /// What softirqs use when SIMD is not usable.
    pub fallback: Impl,
    /// A kernel thread that encrypts in competition with the task, one section per message.
    pub second: Option<(Impl, Arc<Messages>)>,
    /// The hardirq handler opens a section of its own, too, where it may.
    pub hardirq_fpu: bool,
}

/// A load on a CPU, until it is dropped.
pub struct Load<'a> {
    /// Boxed: `kernel/` keeps its address.
    raw: Box<sys::Load>,
    cpu: &'a mut Cpu,
    user: Pattern,
    user_found: Pattern,
    user_corrupted: u64,
    /// What the raw pointers of `raw` point to.
    sides: Sides,
    _second: (Arc<Messages>, Buffers),
    _pattern: Box<(Pattern, Pattern)>,
}

/// What a side needs memory for.
struct Buffers {
    dst: Vec<u8>,
    op: Option<Box<sys::Op>>,
    slots: Vec<sys::OpSlot>,
}

impl Buffers {
    fn new(op: Option<Operation>, messages: &Messages) -> Buffers {
        let slots = op.map_or(0, |o| o.slots as usize);
        let free = sys::OpSlot::default();
        Buffers {
            dst: vec![0; messages.stride * slots.max(messages.ivs.len())],
            op: op.map(|o| {
                Box::new(sys::Op {
                    crypt: Some(o.crypt),
                    ctx: o.ctx,
                    slots: o.slots,
                })
            }),
            slots: vec![free; slots],
        }
    }
}

fn side(
    imp: Option<Impl>,
    depth: u32,
    messages: &Messages,
    buffers: &mut Buffers,
) -> sys::LoadSide {
    sys::LoadSide {
        impl_: imp.map_or(std::ptr::null(), |i| i.0),
        op: buffers
            .op
            .as_deref()
            .map_or(std::ptr::null(), std::ptr::from_ref),
        slots: buffers.slots.as_mut_ptr(),
        depth,
        ctx: messages.ctx.as_ptr(),
        src: messages.src.as_ptr(),
        want: messages.want.as_ptr(),
        dst: buffers.dst.as_mut_ptr(),
        // Not written to: `usable` has seen that the algorithm leaves it unchanged.
        iv: messages.ivs.as_ptr().cast_mut().cast(),
        len: messages.len as u32,
        stride: messages.stride as u32,
        count: messages.ivs.len() as u32,
        decrypt: messages.op == Op::Decrypt,
        ..Default::default()
    }
}

/// A task's and the softirqs' parts of a load, which may be changed for others.
pub struct Sides {
    task: sys::LoadSide,
    softirq: sys::LoadSide,
    seed: u64,
    spins: u64,
    /// What the raw pointers point to.
    _keep: (TaskWork, (Worker, Arc<Messages>)),
    _buffers: [Buffers; 2],
}

impl Sides {
    /// Of what the task does and what softirqs do.
    pub fn new(task: TaskWork, softirq: (Worker, Arc<Messages>)) -> Result<Sides, Error> {
        let soft = softirq.1.clone();
        let (soft_impl, soft_op) = match softirq.0 {
            Worker::Impl(imp) => (Some(imp), None),
            Worker::Op(op) => (None, Some(op)),
        };
        usable(soft_impl.into_iter().chain(task.implementation()))?;
        let (task_impl, task_op, depth, messages, seed, spins) = match &task {
            TaskWork::Crypt(imp, messages) => (Some(*imp), None, 0, messages.clone(), 0, 0),
            TaskWork::Ask(op, messages, depth) => (None, Some(*op), *depth, messages.clone(), 0, 0),
            TaskWork::Keep { seed, spins } => (None, None, 0, soft.clone(), *seed, *spins),
        };
        assert!(task_op.is_none_or(|op| (1..=op.slots).contains(&depth)));
        let mut buffers = [
            Buffers::new(task_op, &messages),
            Buffers::new(soft_op, &soft),
        ];
        Ok(Sides {
            task: side(task_impl, depth, &messages, &mut buffers[0]),
            softirq: side(soft_impl, 0, &soft, &mut buffers[1]),
            seed,
            spins,
            _keep: (task, softirq),
            _buffers: buffers,
        })
    }
}

/// # Panics
/// If one is not an implementation of [`ALG`], whose keys messages have.
fn usable(impls: impl IntoIterator<Item = Impl>) -> Result<(), Error> {
    for imp in impls {
        assert_eq!(imp.alg(), ALG, "{imp:?}");
        if !imp.tier().usable() {
            return Err(Error::Unusable(imp.tier()));
        }
    }
    Ok(())
}

impl<'a> Load<'a> {
    /// Attach a load to the calling thread's CPU: from now on its interrupts raise
    /// softirqs that encrypt.
    pub fn attach(cpu: &'a mut Cpu, plan: Plan) -> Result<Load<'a>, Error> {
        let sides = Sides::new(plan.task, plan.softirq)?;
        usable(
            [plan.fallback]
                .into_iter()
                .chain(plan.second.as_ref().map(|s| s.0)),
        )?;
        let (second_impl, second) = match &plan.second {
            Some((imp, messages)) => (Some(*imp), messages.clone()),
            None => (None, sides._keep.1 .1.clone()),
        };
        let mut buffers = Buffers::new(None, &second);
        let mut pattern = Box::new((Pattern::from_seed(sides.seed), Pattern::zero()));
        let mut raw = Box::new(sys::Load {
            task: sides.task,
            softirq: sides.softirq,
            second: side(second_impl, 0, &second, &mut buffers),
            fallback: plan.fallback.0,
            hardirq_fpu: plan.hardirq_fpu,
            spins: sides.spins,
            pattern: (&raw const pattern.0).cast(),
            found: (&raw mut pattern.1).cast(),
            ..Default::default()
        });
        // SAFETY: the structure and all it points to live in this Load until `drop` has
        // detached it.
        unsafe { cpu::gate(sys::kiln_load_attach, (&raw mut *raw).cast()) };
        Ok(Load {
            raw,
            cpu,
            user: Pattern::from_seed(!sides.seed),
            user_found: Pattern::zero(),
            user_corrupted: 0,
            sides,
            _second: (second, buffers),
            _pattern: pattern,
        })
    }

    /// Wait until what softirqs and the task have put is answered. Interrupts do nothing
    /// meanwhile.
    pub fn drain(&mut self) {
        // SAFETY: a field of this Load; volatile, since interrupts read it at any moment.
        let empty = unsafe { std::ptr::read_volatile(&raw const self.raw.empty) };
        self.set_empty(true);
        // SAFETY: the function takes this structure, attached to this CPU.
        unsafe { cpu::gate(sys::kiln_load_drain, (&raw mut *self.raw).cast()) };
        self.set_empty(empty);
    }

    /// Change what task and softirqs do; `sides` is what they did before. Counts are those of
    /// the sides.
    pub fn exchange(&mut self, sides: &mut Sides) {
        // SAFETY: as in `drain`.
        let empty = unsafe { std::ptr::read_volatile(&raw const self.raw.empty) };
        self.set_empty(true);
        self.drain();
        self.sides.task = self.raw.task;
        self.sides.softirq = self.raw.softirq;
        std::mem::swap(&mut self.sides, sides);
        self.raw.task = self.sides.task;
        self.raw.softirq = self.sides.softirq;
        self.raw.spins = self.sides.spins;
        // SAFETY: as in `drain`; nothing is in flight.
        unsafe { cpu::gate(sys::kiln_load_ready, (&raw mut *self.raw).cast()) };
        self.set_empty(empty);
    }

    /// The CPU it is attached to.
    pub fn cpu(&mut self) -> &mut Cpu {
        self.cpu
    }

    /// With `empty`, interrupts do nothing at all: the control of a measurement.
    pub fn set_empty(&mut self, empty: bool) {
        // SAFETY: a field of this Load; volatile, since interrupts read it at any moment.
        unsafe { std::ptr::write_volatile(&raw mut self.raw.empty, empty) };
    }

    /// Set the trap flag around the task's sections, or around the softirqs' work.
    pub fn set_stepping(&mut self, task: bool, softirq: bool) {
        self.raw.step = task;
        self.raw.step_softirq = softirq;
    }

    /// A function of the host to be called in each hardirq: the control for law 2.
    #[doc(hidden)]
    pub fn set_hardirq_hook(&mut self, hook: Option<unsafe extern "C" fn()>) {
        self.raw.hardirq_hook = hook;
    }

    /// Do `ops` operations in one kernel entry, made by a user program that has patterns in
    /// all its registers and checks them on return.
    pub fn run(&mut self, ops: u64) {
        self.raw.ops = ops;
        // SAFETY: the function takes this structure, attached to this CPU.
        unsafe {
            cpu::gate_with(
                &self.user,
                &mut self.user_found,
                sys::kiln_load_run,
                (&raw mut *self.raw).cast(),
            )
        };
        self.user_corrupted += u64::from(self.user_found != self.user);
    }

    /// What has been done since it was attached.
    pub fn counts(&self) -> Counts {
        Counts {
            task_ops: self.raw.task.ops,
            task_corrupted: self.raw.task.corrupted,
            softirq_ops: self.raw.softirq.ops,
            softirq_corrupted: self.raw.softirq.corrupted,
            second_ops: self.raw.second.ops,
            second_corrupted: self.raw.second.corrupted,
            scalar_fallbacks: self.raw.scalar_fallbacks,
            hardirq_sections: self.raw.hardirq_sections,
            user_corrupted: self.user_corrupted,
            async_punts: self.raw.task.async_punts + self.raw.softirq.async_punts,
            dropped: self.raw.task.dropped + self.raw.softirq.dropped,
            reordered: self.raw.task.reordered + self.raw.softirq.reordered,
            errors: self.raw.task.errors + self.raw.softirq.errors,
        }
    }
}

impl TaskWork {
    fn implementation(&self) -> Option<Impl> {
        match self {
            TaskWork::Crypt(imp, _) => Some(*imp),
            TaskWork::Ask(..) | TaskWork::Keep { .. } => None,
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `attach`; after this `kernel/` does not use the structure.
        unsafe { cpu::gate(sys::kiln_load_detach, (&raw mut *self.raw).cast()) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pattern_is_what_kernel_takes_it_for() {
        // SAFETY: no arguments; a constant.
        let size = unsafe { crate::sys::kiln_pattern_size() };
        assert_eq!(size, size_of::<crate::cpu::Pattern>());
    }
}
