//! Single-steps code of a hosted tree. Before each instruction, the trap handler checks the
//! registers and may inject an interrupt.
//!
//! The handler detects faults that do not necessarily lead to a wrong result: a function that does
//! not preserve a register that it must preserve, a section that begins inside another section, and
//! a frame pointer that does not point to a stack frame. It also counts how often each instruction
//! is executed while no section is open.

use super::frame::Frame;
use crate::sys::{self, Audit};

/// Capacity of the instruction table; a power of two. Each job of a tree's test suite adds about
/// ten thousand instructions.
const ROOM: usize = 1 << 19;
/// Maximum call depth. Deeper calls are not checked.
const DEPTH: usize = 128;
/// Maximum size in bytes of a tree's image.
const IMAGE: u64 = 1 << 30;
/// Maximum number of breaches to record; later breaches are dropped.
const BREACHES: usize = 256;
/// If registers of some functions are to be restored on return, the limit on idle instructions is
/// multiplied by this factor during calls.
const IN_CALLS: u64 = 64;
/// Maximum length in bytes of a call instruction: 5 for a direct call, up to 8 for an indirect
/// call.
const LONGEST_CALL: u64 = 8;

/// Registers that a function must preserve (System V ABI, section 3.2.1), by their index in a
/// signal frame.
const PRESERVED: [(i32, &str); 6] = [
    (libc::REG_RBX, "rbx"),
    (libc::REG_RBP, "rbp"),
    (libc::REG_R12, "r12"),
    (libc::REG_R13, "r13"),
    (libc::REG_R14, "r14"),
    (libc::REG_R15, "r15"),
];

/// Registers that hold the first six arguments (System V ABI, section 3.2.3).
const ARGUMENTS: [i32; 6] = [
    libc::REG_RDI,
    libc::REG_RSI,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_R8,
    libc::REG_R9,
];

/// Garbage for the upper half of a register that holds a 32-bit argument. The ABI leaves this half
/// undefined (section 3.2.3).
const GARBAGE: i64 = 0x5a5a_a5a5 << 32;

/// Maximum distance in bytes from the stack pointer to the innermost frame.
const LARGEST_FRAME: u64 = 1 << 15;

/// A jump over more than this many bytes is assumed to leave the function.
const FAR: u64 = 1 << 14;

/// An instruction that was single-stepped, and how often it was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    pub job: u64,
    pub address: u64,
    pub visits: u64,
    /// Number of visits while no FPU section was open.
    pub outside: u64,
}

/// A violation that the handler has detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A function returned with a changed value in a register that it must preserve.
    Preserved {
        job: u64,
        call: u64,
        step: u64,
        function: u64,
        /// Return address of the call, where the violation was found.
        to: u64,
        register: &'static str,
    },
    /// The instruction at `address` made the frame pointer point outside the stack, so a backtrace
    /// from an interrupt after this instruction would fail.
    Frame { job: u64, address: u64 },
    /// A section began while another was open. `caller` is the return address of the call that
    /// began the inner section.
    Nested {
        job: u64,
        call: u64,
        step: u64,
        caller: u64,
    },
}

impl Breach {
    pub fn job(&self) -> u64 {
        match self {
            Breach::Preserved { job, .. }
            | Breach::Nested { job, .. }
            | Breach::Frame { job, .. } => *job,
        }
    }
}

/// A call that has not returned yet.
#[derive(Clone, Copy)]
struct Call {
    function: u64,
    to: u64,
    /// Value of the stack pointer after the return.
    rsp: u64,
    registers: [i64; 6],
}

/// Trap handler state.
pub(super) struct AuditState {
    shared: *mut Audit,
    /// Address of the function that begins a section.
    begin: u64,
    /// A hash table of visits, with open addressing. An entry with zero visits is free.
    seen: Vec<Visit>,
    used: usize,
    dropped: u64,
    calls: Vec<Call>,
    breaches: Vec<Breach>,
    /// Address of the previous instruction, and the value of the stack pointer before that
    /// instruction was executed.
    before: (u64, u64),
    /// Number of consecutive steps at instructions that have already been visited so often that
    /// they are not interrupted again.
    idle: u64,
    /// Addresses of functions with 32-bit arguments. A set bit i in the mask means that argument i
    /// is 32 bits wide.
    narrow: Vec<(u64, u8)>,
    /// Functions for which the handler restores the preserved registers on return, so that a
    /// violation does not disturb later code.
    restored: Vec<u64>,
    /// Whether frame pointers are checked. `framed` records whether the frame pointer was valid at
    /// the previous instruction.
    frames: bool,
    framed: bool,
}

impl AuditState {
    pub(super) fn new(shared: *mut Audit, begin: u64) -> AuditState {
        AuditState {
            shared,
            begin,
            // Allocate the memory now, because the handler must not allocate.
            seen: vec![Visit::default(); ROOM],
            used: 0,
            dropped: 0,
            calls: Vec::with_capacity(DEPTH),
            breaches: Vec::with_capacity(BREACHES),
            before: (0, 0),
            idle: 0,
            narrow: Vec::new(),
            restored: Vec::new(),
            frames: false,
            framed: true,
        }
    }

    pub(super) fn set_narrow(&mut self, mut functions: Vec<(u64, u8)>) {
        functions.sort_unstable();
        self.narrow = functions;
    }

    pub(super) fn set_frames(&mut self, wanted: bool) {
        self.frames = wanted;
    }

    pub(super) fn set_restored(&mut self, mut functions: Vec<u64>) {
        functions.sort_unstable();
        self.restored = functions;
    }

    pub(super) fn visits(&self) -> Vec<Visit> {
        let used = self.seen.iter().filter(|v| v.visits > 0);
        used.copied().collect()
    }

    pub(super) fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Returns how many times an instruction was not interrupted because the visit table was full.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Discards all visits and violations.
    pub(super) fn clear(&mut self) {
        self.seen.fill(Visit::default());
        (self.used, self.dropped) = (0, 0);
        self.breaches.clear();
    }

    /// Handles one step. RIP in the frame is the address of the next instruction.
    ///
    /// # Safety
    /// `cpu` must be the CPU of the interrupted thread, and `frame` must hold that thread's
    /// registers.
    pub(super) unsafe fn handle_step(&mut self, frame: &mut Frame<'_>, cpu: *mut sys::CpuHead) {
        // SAFETY: the structure lives as long as the audit, and the thread that shares it is
        // stopped in this handler.
        let shared = unsafe { &mut *self.shared };
        // SAFETY: `cpu` points to the head at the start of this thread's `struct cpu`, and the
        // offset is inside that structure.
        let depth = unsafe {
            cpu.cast::<u8>()
                .add(sys::KILN_CPU_SECTION_DEPTH as usize)
                .read_volatile()
        };
        let (rip, rsp) = (frame.rip(), frame.register(libc::REG_RSP) as u64);
        let step = shared.steps;
        shared.steps += 1;
        if step == 0 {
            self.calls.clear();
            (self.before, self.idle, self.framed) = ((0, 0), 0, true);
        }
        self.follow_calls(frame, shared, step);
        if self.frames {
            self.follow_frame(frame, shared.job);
        }
        self.fill_arguments(frame);
        self.before = (rip, rsp);
        if rip == self.begin {
            // SAFETY: at a function's entry, the stack pointer points to the return address.
            let caller = unsafe { (rsp as *const u64).read() };
            shared.opener = caller;
            if depth > 0 {
                let (job, call) = (shared.job, shared.call);
                self.keep(Breach::Nested {
                    job,
                    call,
                    step,
                    caller,
                });
            }
        }
        let Some(visit) = self.visit(shared.job, rip) else {
            return;
        };
        visit.visits += 1;
        visit.outside += u64::from(depth == 0);
        let visits = visit.visits;
        if visits == 1 {
            shared.addresses += 1;
            let distance = rip.wrapping_sub(self.begin) as i64;
            // Leave Kiln's own code out of the digest. It is more than `IMAGE` bytes away from the
            // tree, at a distance that varies between processes.
            if distance.unsigned_abs() < IMAGE {
                shared.digest = shared.digest.wrapping_add(scatter(distance as u64));
            }
        }
        let (most, idle) = match depth {
            0 => (shared.outside_visits, shared.outside_idle),
            _ => (shared.visits, shared.idle),
        };
        self.idle += 1;
        if visits <= most.max(1) {
            self.idle = 0;
        } else if self.idle > self.patience(idle) {
            frame.stop_stepping();
        }
        let wanted = visits <= most && (shared.call, step) <= (shared.last_call, shared.last_step);
        if wanted {
            shared.points += u64::from(visits == 1);
            shared.injected += 1;
            shared.at = rip;
            // SAFETY: the caller promises that `cpu` is the CPU of the interrupted thread.
            shared.masked += u64::from(unsafe { !frame.interrupt(cpu) });
        }
    }

    /// Returns the number of idle instructions after which stepping ends. If registers are restored
    /// on return and a violation has been found, stepping never ends, because without the handler,
    /// the function that changed the registers could crash its caller.
    fn patience(&self, idle: u64) -> u64 {
        match (self.restored.is_empty(), self.breaches.is_empty()) {
            (false, false) => u64::MAX,
            (false, true) if !self.calls.is_empty() => idle.saturating_mul(IN_CALLS),
            _ => idle,
        }
    }

    /// If the previous instruction was a call, records the call. If it was a return, checks the
    /// registers that the function must preserve.
    fn follow_calls(&mut self, frame: &mut Frame<'_>, shared: &Audit, step: u64) {
        let (rip, rsp) = (frame.rip(), frame.register(libc::REG_RSP) as u64);
        while let Some(&call) = self.calls.last().filter(|c| c.rsp <= rsp) {
            self.calls.pop();
            // Skip the checks for a call that did not return to its caller, such as a thunk that
            // replaces its return address.
            if call.rsp != rsp || call.to != rip {
                continue;
            }
            for (i, (register, name)) in PRESERVED.into_iter().enumerate() {
                if frame.register(register) != call.registers[i] {
                    if self.restored.binary_search(&call.function).is_ok() {
                        frame.set_register(register, call.registers[i]);
                    }
                    self.keep(Breach::Preserved {
                        job: shared.job,
                        call: shared.call,
                        step,
                        function: call.function,
                        to: rip,
                        register: name,
                    });
                }
            }
        }
        let (before_rip, before_rsp) = self.before;
        // If the called function begins with a jump, as in a static call, record the jump's target
        // as the function instead.
        let last = self.calls.last_mut();
        if let Some(call) = last.filter(|c| c.function == before_rip && rsp == before_rsp) {
            if rip.abs_diff(before_rip) > LONGEST_CALL {
                call.function = rip;
            }
        }
        if before_rip == 0 || rsp != before_rsp.wrapping_sub(8) {
            return;
        }
        // SAFETY: the previous instruction was a call or a push, which wrote the word that the
        // stack pointer points to.
        let to = unsafe { (rsp as *const u64).read() };
        let called = to > before_rip && to <= before_rip + LONGEST_CALL && rip != to;
        if called && self.calls.len() < DEPTH {
            self.calls.push(Call {
                function: rip,
                to,
                rsp: rsp + 8,
                registers: PRESERVED.map(|(register, _)| frame.register(register)),
            });
        }
    }

    /// Records a violation if the previous instruction has made the frame pointer invalid.
    fn follow_frame(&mut self, frame: &Frame<'_>, job: u64) {
        let rbp = frame.register(libc::REG_RBP) as u64;
        let rsp = frame.register(libc::REG_RSP) as u64;
        let framed = rbp.wrapping_sub(rsp) < LARGEST_FRAME && rbp % 8 == 0;
        if self.framed && !framed {
            let address = self.before.0;
            self.keep(Breach::Frame { job, address });
        }
        self.framed = framed;
    }

    /// At the entry of a function in `narrow`, fills the upper halves of its 32-bit arguments with
    /// garbage.
    fn fill_arguments(&self, frame: &mut Frame<'_>) {
        let rip = frame.rip();
        let Ok(at) = self.narrow.binary_search_by_key(&rip, |f| f.0) else {
            return;
        };
        // A short backward jump to the first instruction belongs to a loop in the function, so it
        // is not a call.
        if self.before.0.wrapping_sub(rip) < FAR {
            return;
        }
        let narrow = |i: &usize| self.narrow[at].1 & 1 << i != 0;
        for place in (0..ARGUMENTS.len()).filter(narrow).map(|i| ARGUMENTS[i]) {
            let value = frame.register(place) & 0xffff_ffff;
            frame.set_register(place, value | GARBAGE);
        }
    }

    fn keep(&mut self, breach: Breach) {
        if self.breaches.len() < BREACHES {
            self.breaches.push(breach);
        }
    }

    /// Returns the table entry for an instruction. Returns `None` if the instruction is new and the
    /// table is half full; in that case, the instruction must not be interrupted.
    fn visit(&mut self, job: u64, address: u64) -> Option<&mut Visit> {
        let mut i = (scatter(address ^ job << 48) >> 44) as usize % ROOM;
        loop {
            let entry = &self.seen[i];
            if entry.visits > 0 && (entry.job, entry.address) == (job, address) {
                break;
            }
            if entry.visits == 0 {
                if self.used >= ROOM / 2 {
                    self.dropped += 1;
                    return None;
                }
                self.used += 1;
                self.seen[i] = Visit {
                    job,
                    address,
                    visits: 0,
                    outside: 0,
                };
                break;
            }
            i = (i + 1) % ROOM;
        }
        Some(&mut self.seen[i])
    }
}

/// Mixes the bits of a word so that every bit of the result depends on all of them.
fn scatter(word: u64) -> u64 {
    let once = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (once ^ once >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
