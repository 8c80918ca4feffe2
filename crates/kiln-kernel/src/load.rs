//! Loads: a task encrypts on an emulated CPU, and softirqs that interrupt the task also encrypt.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use crate::cipher::{Context, Impl, Op, Sections, BLOCK};
use crate::cpu::{self, Cpu, Pattern, UserProgram};
use crate::derive::counts;
use crate::sys;
pub use crate::sys::OpCrypt;
use crate::tier::Tier;

/// The reason for rejecting a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The key size in bytes is not 32, 48 or 64, as `xts(aes)` requires.
    KeyLength(usize),
    /// A message is shorter than 16 bytes; the value is its length.
    TooShort(usize),
    /// An implementation needs this tier, which the CPU lacks or the mask forbids.
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

/// The algorithm of all messages. `kernel/load` requires an algorithm that leaves the IV unchanged
/// when it processes a whole message, as `xts(aes)` does.
pub const ALG: &str = "xts(aes)";

/// Returns all implementations of [`ALG`] in ascending order of priority, including those that are
/// not usable here.
pub fn all_impls() -> Vec<Impl> {
    Impl::find_all(ALG)
}

/// Returns the implementation that callers get by default: the usable one with the highest
/// priority.
pub fn best_impl() -> Impl {
    Impl::best(ALG).expect("the generic tier is always usable")
}

/// Messages, their expected results, and the key.
pub struct Messages {
    raw_key: Vec<u8>,
    ctx: Context,
    op: Op,
    pub(crate) len: usize,
    /// Distance in bytes between messages: `len`, rounded up to a multiple of 64.
    pub(crate) stride: usize,
    pub(crate) src: Vec<u8>,
    pub(crate) want: Vec<u8>,
    pub(crate) ivs: Vec<[u8; BLOCK]>,
}

impl Messages {
    /// Creates `count` messages of `len` random bytes. `judge` computes the expected results.
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
        check_usable([judge])?;
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

    /// Returns an argument for `kiln_calls_run` that processes one message with this key. The
    /// caller must set the buffers.
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

    /// Returns the key as it was before expansion.
    pub fn raw_key(&self) -> &[u8] {
        &self.raw_key
    }

    pub fn message_len(&self) -> usize {
        self.len
    }
}

/// An operation that is implemented outside `kernel/` and may complete asynchronously. Wraps
/// `struct kiln_op`.
#[derive(Clone, Copy, Debug)]
pub struct Operation(sys::Op);

impl Operation {
    /// Creates an operation that passes `ctx` as the first argument to `crypt`. `ctx` must contain
    /// the messages' key. Up to `slots` operations may be in flight.
    ///
    /// # Safety
    /// `crypt` must fulfil the contract of `struct kiln_op` with this `ctx` as long as a load uses
    /// the operation.
    pub unsafe fn new(crypt: OpCrypt, ctx: *mut c_void, slots: u32) -> Operation {
        let crypt = Some(crypt);
        Operation(sys::Op { crypt, ctx, slots })
    }
}

/// The code that encrypts a softirq's messages.
#[derive(Clone, Copy, Debug)]
pub enum Worker {
    /// One of Kiln's implementations, with one section per message. Where a section is not allowed,
    /// scalar code is used.
    Impl(Impl),
    /// An operation that itself decides whether to use the FPU.
    Op(Operation),
}

impl From<Impl> for Worker {
    fn from(imp: Impl) -> Worker {
        Worker::Impl(imp)
    }
}

/// What the task of a load does.
pub enum TaskWork {
    /// Encrypt the messages with the implementation, one section per message.
    Crypt(Impl, Arc<Messages>),
    /// Encrypt the messages with an [`Operation`], with at most this many messages in flight.
    Ask(Operation, Arc<Messages>, u32),
    /// Fill every register with a pattern, run an empty loop, and check the registers.
    Keep {
        /// Seed from which the pattern is generated.
        seed: u64,
        /// Number of iterations of the empty loop.
        spins: u64,
    },
}

counts! {
    /// Counts of the operations that a load performed, and of the errors it detected.
    pub struct Counts {
        /// Number of operations that the task completed.
        task_ops,
        /// Task operations that produced a wrong result.
        task_corrupted,
        /// Number of operations that the softirqs completed.
        softirq_ops,
        /// Softirq operations that produced a wrong result.
        softirq_corrupted,
        /// Number of operations that the kernel thread completed.
        second_ops,
        /// Kernel thread operations that produced a wrong result.
        second_corrupted,
        /// Softirq operations that used scalar code because SIMD was not usable.
        scalar_fallbacks,
        /// Sections opened by the hardirq handler.
        hardirq_sections,
        /// Kernel entries that changed the user program's FPU state.
        user_corrupted,
        /// Task and softirq operations that completed asynchronously.
        async_punts,
        /// Operations rejected because a queue was full or no slot was free.
        dropped,
        /// Operations that completed after a later operation in the same context.
        reordered,
        /// Operations that failed with an error. They also count as corrupted.
        errors,
    }
}

/// The settings of a load, passed to [`Load::attach`].
pub struct Plan {
    pub task: TaskWork,
    /// The code that the softirqs run, and the messages that they encrypt.
    pub softirq: (Worker, Arc<Messages>),
    /// The implementation that softirqs use where SIMD is not usable.
    pub fallback: Impl,
    /// The implementation and the messages of a kernel thread that competes with the task. The
    /// thread opens one section per message.
    pub second: Option<(Impl, Arc<Messages>)>,
    /// Whether the hardirq handler also opens a section, provided that the policy allows it.
    pub hardirq_fpu: bool,
}

/// A load that stays attached to a CPU until this value is dropped.
pub struct Load<'a> {
    /// Boxed, because `kernel/` stores the structure's address.
    raw: Box<sys::Load>,
    cpu: &'a mut Cpu,
    user: UserProgram,
    /// Owns the memory that `raw` points to.
    sides: Sides,
    _second: (Arc<Messages>, Buffers),
    _pattern: Box<(Pattern, Pattern)>,
}

/// The buffers written by one part of a load: the task, the softirqs or the kernel thread.
struct Buffers {
    dst: Vec<u8>,
    op: Option<Box<sys::Op>>,
    slots: Vec<sys::OpSlot>,
}

impl Buffers {
    fn new(op: Option<Operation>, messages: &Messages) -> Buffers {
        let slots = op.map_or(0, |o| o.0.slots as usize);
        Buffers {
            dst: vec![0; messages.stride * slots.max(messages.ivs.len())],
            op: op.map(|o| Box::new(o.0)),
            slots: vec![sys::OpSlot::default(); slots],
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
        // The IV is not written: `check_usable` has ensured that the algorithm leaves it unchanged.
        iv: messages.ivs.as_ptr().cast_mut().cast(),
        len: messages.len as u32,
        stride: messages.stride as u32,
        count: messages.ivs.len() as u32,
        decrypt: messages.op == Op::Decrypt,
        ..Default::default()
    }
}

/// The work and the buffers of a load's task and softirqs. [`Load::exchange`] can replace them.
pub struct Sides {
    task: sys::LoadSide,
    softirq: sys::LoadSide,
    seed: u64,
    spins: u64,
    /// Owns the memory that `task` and `softirq` point to.
    _keep: (TaskWork, (Worker, Arc<Messages>)),
    _buffers: [Buffers; 2],
}

impl Sides {
    pub fn new(task: TaskWork, softirq: (Worker, Arc<Messages>)) -> Result<Sides, Error> {
        let soft = softirq.1.clone();
        let (soft_impl, soft_op) = match softirq.0 {
            Worker::Impl(imp) => (Some(imp), None),
            Worker::Op(op) => (None, Some(op)),
        };
        let (task_impl, task_op, depth, messages, seed, spins) = match &task {
            TaskWork::Crypt(imp, messages) => (Some(*imp), None, 0, messages.clone(), 0, 0),
            TaskWork::Ask(op, messages, depth) => (None, Some(*op), *depth, messages.clone(), 0, 0),
            TaskWork::Keep { seed, spins } => (None, None, 0, soft.clone(), *seed, *spins),
        };
        check_usable(soft_impl.into_iter().chain(task_impl))?;
        assert!(task_op.is_none_or(|op| (1..=op.0.slots).contains(&depth)));
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

/// Checks that the CPU supports the implementations.
///
/// # Panics
/// If an implementation is for an algorithm other than [`ALG`].
fn check_usable(impls: impl IntoIterator<Item = Impl>) -> Result<(), Error> {
    for imp in impls {
        assert_eq!(imp.alg(), ALG, "{imp:?}");
        if !imp.tier().usable() {
            return Err(Error::Unusable(imp.tier()));
        }
    }
    Ok(())
}

impl<'a> Load<'a> {
    /// Attaches a load to the calling thread's CPU. From now on, interrupts on this CPU raise
    /// softirqs that encrypt.
    pub fn attach(cpu: &'a mut Cpu, plan: Plan) -> Result<Load<'a>, Error> {
        let sides = Sides::new(plan.task, plan.softirq)?;
        let second = plan.second.as_ref();
        check_usable([plan.fallback].into_iter().chain(second.map(|s| s.0)))?;
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
        // SAFETY: the structure and everything it points to live in the returned `Load`, until
        // `drop` has detached the structure.
        unsafe { cpu::gate(sys::kiln_load_attach, (&raw mut *raw).cast()) };
        Ok(Load {
            raw,
            cpu,
            user: UserProgram::new(!sides.seed),
            sides,
            _second: (second, buffers),
            _pattern: pattern,
        })
    }

    /// Waits until all requests from the softirqs and the task have completed. Until then,
    /// interrupts do nothing.
    pub fn drain(&mut self) {
        let empty = self.set_empty(true);
        // SAFETY: `kiln_load_drain` takes a pointer to this structure, which is attached to this
        // CPU.
        unsafe { cpu::gate(sys::kiln_load_drain, (&raw mut *self.raw).cast()) };
        self.set_empty(empty);
    }

    /// Swaps the work, the buffers and the counts of the task and the softirqs with those in
    /// `sides`.
    pub fn exchange(&mut self, sides: &mut Sides) {
        let empty = self.set_empty(true);
        self.drain();
        self.sides.task = self.raw.task;
        self.sides.softirq = self.raw.softirq;
        std::mem::swap(&mut self.sides, sides);
        self.raw.task = self.sides.task;
        self.raw.softirq = self.sides.softirq;
        self.raw.spins = self.sides.spins;
        // SAFETY: `kiln_load_ready` takes a pointer to this structure, which is attached to this
        // CPU. No request is in flight.
        unsafe { cpu::gate(sys::kiln_load_ready, (&raw mut *self.raw).cast()) };
        self.set_empty(empty);
    }

    pub fn cpu(&mut self) -> &mut Cpu {
        self.cpu
    }

    /// Sets whether interrupts return without doing any work, which the control run of a
    /// measurement requires. Returns the previous setting.
    pub fn set_empty(&mut self, empty: bool) -> bool {
        let field = &raw mut self.raw.empty;
        // SAFETY: the field belongs to this `Load`. The access is volatile, because interrupts may
        // read the field at any time.
        unsafe {
            let before = field.read_volatile();
            field.write_volatile(empty);
            before
        }
    }

    /// Sets whether the task's sections and the softirqs' work are single-stepped with the trap
    /// flag.
    pub fn set_stepping(&mut self, task: bool, softirq: bool) {
        self.raw.step = task;
        self.raw.step_softirq = softirq;
    }

    /// Sets a host function that each hardirq calls. Tests use it to violate law 2 on purpose.
    #[doc(hidden)]
    pub fn set_hardirq_hook(&mut self, hook: Option<unsafe extern "C" fn()>) {
        self.raw.hardirq_hook = hook;
    }

    /// Performs `ops` operations in one kernel entry. The kernel is entered by a user program that
    /// fills all its registers with patterns first, and checks them on return.
    pub fn run(&mut self, ops: u64) {
        self.raw.ops = ops;
        // SAFETY: `kiln_load_run` takes a pointer to this structure, which is attached to this CPU.
        unsafe {
            self.user
                .enter(sys::kiln_load_run, (&raw mut *self.raw).cast())
        };
    }

    /// Returns the counts since the load was attached.
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
            user_corrupted: self.user.corrupted,
            async_punts: self.raw.task.async_punts + self.raw.softirq.async_punts,
            dropped: self.raw.task.dropped + self.raw.softirq.dropped,
            reordered: self.raw.task.reordered + self.raw.softirq.reordered,
            errors: self.raw.task.errors + self.raw.softirq.errors,
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        // SAFETY: the structure is attached to this CPU, and `kernel/` does not use it after the
        // call.
        unsafe { cpu::gate(sys::kiln_load_detach, (&raw mut *self.raw).cast()) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_pattern_is_what_kernel_takes_it_for() {
        // SAFETY: the function takes no arguments and returns a constant.
        let size = unsafe { crate::sys::kiln_pattern_size() };
        assert_eq!(size, size_of::<crate::cpu::Pattern>());
    }
}
