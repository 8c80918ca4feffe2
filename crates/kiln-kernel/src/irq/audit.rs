//! Single steps through code of a hosted tree: an interrupt before every instruction, and a look at the registers before each.
//!
//! The handler detects faults that need not lead to a wrong result: a function that returns with another value in a register that it
//! must preserve, a section that is begun inside another, an instruction that is executed while no section is open, a frame pointer
//! that does not lead to a frame.

use super::frame::Frame;
use crate::sys::{self, Audit};

/// Room for instructions, a power of two. A tree's suite has some ten thousand per job.
const ROOM: usize = 1 << 19;
/// How deep calls may nest; calls beyond this depth are not checked.
const DEPTH: usize = 128;
/// No image is larger.
const IMAGE: u64 = 1 << 30;
/// How many breaches are kept; later ones are dropped.
const BREACHES: usize = 256;
/// The longest call instruction: a direct call has 5 bytes, an indirect one up to 8.
const LONGEST_CALL: u64 = 8;

/// Registers that a function must preserve (System V ABI, 3.2.1), by their places in a signal frame.
const PRESERVED: [(i32, &str); 6] = [
    (libc::REG_RBX, "rbx"),
    (libc::REG_RBP, "rbp"),
    (libc::REG_R12, "r12"),
    (libc::REG_R13, "r13"),
    (libc::REG_R14, "r14"),
    (libc::REG_R15, "r15"),
];

/// Registers that have the first six arguments (System V ABI, 3.2.3).
const ARGUMENTS: [i32; 6] = [
    libc::REG_RDI,
    libc::REG_RSI,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_R8,
    libc::REG_R9,
];

/// What an argument of 32 bits may have above it: whatever the register held before (3.2.3).
const GARBAGE: i64 = 0x5a5a_a5a5 << 32;

/// How far above the stack pointer the innermost frame may be.
const LARGEST_FRAME: u64 = 1 << 15;

/// A jump farther than this leaves a function.
const FAR: u64 = 1 << 14;

/// An instruction that was stepped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    pub job: u64,
    pub address: u64,
    pub visits: u64,
    /// How many of the visits found no FPU section open.
    pub outside: u64,
}

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A function returned with another value in a register.
    Preserved {
        job: u64,
        call: u64,
        step: u64,
        function: u64,
        /// Where it returned to.
        to: u64,
        register: &'static str,
    },
    /// From this instruction on, a backtrace from an interrupt fails: the frame pointer does not point into the stack.
    Frame { job: u64, address: u64 },
    /// A section was begun while another was open, by the code before this address.
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

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Call {
    function: u64,
    to: u64,
    /// The stack pointer after the return.
    rsp: u64,
    registers: [i64; 6],
}

/// What the trap handler keeps.
pub(super) struct AuditState {
    shared: *mut Audit,
    /// The address of the function that begins a section.
    begin: u64,
    /// Open addressing; an entry without visits is free.
    seen: Vec<Visit>,
    used: usize,
    dropped: u64,
    calls: Vec<Call>,
    breaches: Vec<Breach>,
    /// Address and stack pointer of the previous instruction.
    before: (u64, u64),
    /// Instructions since the last one that was new or interrupted.
    idle: u64,
    /// Functions with arguments of 32 bits, by address: a bit for each such argument.
    narrow: Vec<(u64, u8)>,
    /// Functions whose callers get their registers back whatever the function does, so that what follows is not disturbed.
    restored: Vec<u64>,
    /// Whether the code has frame pointers, and whether the last instruction had one.
    frames: bool,
    framed: bool,
}

impl AuditState {
    pub(super) fn new(shared: *mut Audit, begin: u64) -> AuditState {
        AuditState {
            shared,
            begin,
            // The handler must not allocate.
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

    /// Instructions for which the table had no room; they were not interrupted.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets what it found.
    pub(super) fn clear(&mut self) {
        self.seen.fill(Visit::default());
        (self.used, self.dropped) = (0, 0);
        self.breaches.clear();
    }

    /// Handles a single-step trap, which comes before the instruction at the frame's RIP.
    ///
    /// # Safety
    /// `cpu` is the CPU of the interrupted thread, whose registers `frame` has.
    pub(super) unsafe fn handle_trap(&mut self, frame: &mut Frame<'_>, cpu: *mut sys::CpuHead) {
        // SAFETY: the words live as long as the audit; the code that shares them is stopped.
        let shared = unsafe { &mut *self.shared };
        // SAFETY: a byte of `struct cpu`, which begins with the head.
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
            // SAFETY: at the entry of a function the stack pointer points to the return address.
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
            // Kiln's own code is farther away, at another place in each process.
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
        } else if self.idle > idle {
            frame.stop_stepping();
        }
        let wanted = visits <= most && (shared.call, step) <= (shared.last_call, shared.last_step);
        if wanted {
            shared.points += u64::from(visits == 1);
            shared.injected += 1;
            shared.at = rip;
            // SAFETY: the caller's promise.
            shared.masked += u64::from(unsafe { !frame.interrupt(cpu) });
        }
    }

    /// Notes a call or a return that the previous instruction made.
    fn follow_calls(&mut self, frame: &mut Frame<'_>, shared: &Audit, step: u64) {
        let (rip, rsp) = (frame.rip(), frame.register(libc::REG_RSP) as u64);
        while let Some(&call) = self.calls.last().filter(|c| c.rsp <= rsp) {
            self.calls.pop();
            // What leaves in another way, such as a thunk that replaces its return address, has no rule to break.
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
        // A static call leads through a jump.
        let last = self.calls.last_mut();
        if let Some(call) = last.filter(|c| c.function == before_rip && rsp == before_rsp) {
            if rip.abs_diff(before_rip) > LONGEST_CALL {
                call.function = rip;
            }
        }
        if before_rip == 0 || rsp != before_rsp.wrapping_sub(8) {
            return;
        }
        // SAFETY: the previous instruction has just written there.
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

    /// Notes an instruction at which the frame pointer has become something else.
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

    /// At the entry of a function: garbage above its arguments of 32 bits.
    fn fill_arguments(&self, frame: &mut Frame<'_>) {
        let rip = frame.rip();
        let Ok(at) = self.narrow.binary_search_by_key(&rip, |f| f.0) else {
            return;
        };
        // A loop may lead back to the first instruction.
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

    /// The entry of an instruction; none if the table is half full, and then the instruction is not interrupted.
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

/// A word whose every bit depends on all bits of `word`.
fn scatter(word: u64) -> u64 {
    let once = (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (once ^ once >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
