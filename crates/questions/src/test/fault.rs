//! The signal handler that turns a crash of the tested code into a failed case. It prints one line
//! with the command that replays the case, and ends the process with exit status 1.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicPtr, Ordering};
use std::sync::Once;

use super::guard::{Guarded, PAGE};

/// The signals that are handled: SIGSEGV and SIGBUS for guard pages and for misaligned or wild
/// addresses, SIGILL for `ud2` and instructions that the CPU lacks, SIGFPE for divisions.
const SIGNALS: [(i32, &str); 4] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];

const STACK: usize = 64 * 1024;

/// Maximum number of buffers that a thread may register for fault messages.
const REGIONS: usize = 12;

#[derive(Clone, Copy)]
struct Region {
    name: &'static str,
    low: usize,
    high: usize,
}

/// Data for the handler, written before each call that may crash.
struct Watched {
    armed: Cell<bool>,
    replay: Cell<*const str>,
    case: Cell<Option<u64>>,
    regions: [Cell<Option<Region>>; REGIONS],
}

thread_local! {
    // `WATCHED` has neither a destructor nor lazy initialisation, so reading it is a single TLS
    // access, which is allowed in a signal handler.
    static WATCHED: Watched = const {
        Watched {
            armed: Cell::new(false),
            replay: Cell::new(""),
            case: Cell::new(None),
            regions: [const { Cell::new(None) }; REGIONS],
        }
    };
}

static BAIL_OUT: AtomicBool = AtomicBool::new(false);
static OLD: [AtomicPtr<libc::sigaction>; 4] = [const { AtomicPtr::new(ptr::null_mut()) }; 4];
static INSTALL: Once = Once::new();

/// Sets whether a crash also prints TAP's `Bail out!` line on standard output.
pub(super) fn bail_out_on_stdout(on: bool) {
    BAIL_OUT.store(on, Ordering::Relaxed);
}

/// The signal handler and its stack, for the thread that created this value.
pub struct Watch {
    stack: *mut libc::c_void,
    old: libc::stack_t,
    /// Makes the type neither `Send` nor `Sync`, because the stack belongs to one thread.
    thread: PhantomData<*mut ()>,
}

impl Watch {
    /// Installs the signal handler and its stack for this thread. `buffers` contains the names and
    /// addresses of the buffers that fault messages mention.
    pub fn new(buffers: &[(&'static str, &Guarded)]) -> io::Result<Watch> {
        assert!(buffers.len() <= REGIONS, "room for their names");
        INSTALL.call_once(|| {
            SIGNALS
                .iter()
                .zip(&OLD)
                .for_each(|(s, old)| install(s.0, old))
        });
        for (i, &(name, buffer)) in buffers.iter().enumerate() {
            let (low, high) = buffer.range();
            WATCHED.with(|w| w.regions[i].set(Some(Region { name, low, high })));
        }
        // SAFETY: this maps a new stack. The kernel fills in `old`, and uses the new stack until
        // `drop` restores the old stack and unmaps the new one.
        unsafe {
            let stack = libc::mmap(
                ptr::null_mut(),
                STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if stack == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let new = libc::stack_t {
                ss_sp: stack,
                ss_flags: 0,
                ss_size: STACK,
            };
            let mut old = MaybeUninit::zeroed();
            if libc::sigaltstack(&new, old.as_mut_ptr()) != 0 {
                let why = io::Error::last_os_error();
                libc::munmap(stack, STACK);
                return Err(why);
            }
            Ok(Watch {
                stack,
                old: old.assume_init(),
                thread: PhantomData,
            })
        }
    }

    /// Makes faults count as failed cases until the returned value is dropped. The report of a
    /// fault contains the command `replay` and the case number.
    pub fn arm<'a>(&'a self, replay: &'a str, case: Option<u64>) -> Armed<'a> {
        WATCHED.with(|w| {
            w.replay.set(replay);
            w.case.set(case);
            w.armed.set(true);
        });
        compiler_fence(Ordering::SeqCst);
        Armed(PhantomData)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.with(|w| w.regions.iter().for_each(|r| r.set(None)));
        // SAFETY: the old stack is restored before the new one is freed, so no handler can run on a
        // freed stack.
        unsafe {
            libc::sigaltstack(&self.old, ptr::null_mut());
            libc::munmap(self.stack, STACK);
        }
    }
}

/// While a value of this type exists, a fault in its thread counts as a failed case.
pub struct Armed<'a>(PhantomData<&'a str>);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        WATCHED.with(|w| w.armed.set(false));
    }
}

fn install(signal: i32, old: &AtomicPtr<libc::sigaction>) {
    // SAFETY: an all-zero sigaction is valid, and it is completed before use. The old action is
    // saved before the new one can run.
    unsafe {
        let mut before = Box::new(mem::zeroed::<libc::sigaction>());
        libc::sigaction(signal, ptr::null(), &mut *before);
        old.store(Box::into_raw(before), Ordering::SeqCst);

        let mut new = mem::zeroed::<libc::sigaction>();
        let f: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handler;
        new.sa_sigaction = f as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &new, ptr::null_mut());
    }
}

/// Handles a fault. The handler may call only async-signal-safe functions: it neither allocates
/// memory nor takes locks, and calls only `write`, `sigaction` and `_exit`.
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let index = SIGNALS.iter().position(|s| s.0 == signal).unwrap_or(0);
    WATCHED.with(|w| {
        if !w.armed.get() {
            // SAFETY: `install` stored the pointer, whose target is never freed. After the return,
            // the fault occurs again under the previous handler.
            unsafe { libc::sigaction(signal, OLD[index].load(Ordering::SeqCst), ptr::null_mut()) };
            return;
        }
        // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler.
        let addr = unsafe { (*info).si_addr() } as usize;
        // SAFETY: `Armed` borrows this text for as long as `armed` is set.
        let replay = unsafe { &*w.replay.get() };

        let mut line = Line::new();
        line.text("FAILED: ").text(SIGNALS[index].1);
        let region = w
            .regions
            .iter()
            .filter_map(Cell::get)
            .find(|r| addr >= r.low - PAGE && addr < r.high + PAGE);
        match region {
            Some(r) if addr >= r.high => {
                line.text(" in the guard page after the ");
                line.text(r.name);
                line.text(", byte ").decimal((addr - r.high) as u64 + 1);
            }
            Some(r) if addr < r.low => {
                line.text(" in the guard page before the ");
                line.text(r.name);
                line.text(", byte ").decimal((r.low - addr) as u64);
            }
            _ => {
                line.text(" at address 0x").hex(addr as u64);
            }
        }
        line.text("; replay: ").text(replay);
        if let Some(case) = w.case.get() {
            line.text(" --case ").decimal(case);
        }
        line.text("\n");
        if BAIL_OUT.load(Ordering::Relaxed) {
            write(1, b"Bail out! ");
            write(1, line.bytes());
        }
        write(2, line.bytes());
        // SAFETY: _exit ends the process without running any more of its code.
        unsafe { libc::_exit(1) };
    });
}

fn write(fd: i32, bytes: &[u8]) {
    // SAFETY: the slice is readable. A failure to write is ignored, because a handler cannot report
    // it.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// Text in a fixed-size buffer. Text that does not fit is truncated.
struct Line {
    buffer: [u8; 512],
    used: usize,
}

impl Line {
    fn new() -> Line {
        Line {
            buffer: [0; 512],
            used: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    fn text(&mut self, text: &str) -> &mut Line {
        for byte in text.bytes() {
            if self.used < self.buffer.len() {
                self.buffer[self.used] = byte;
                self.used += 1;
            }
        }
        self
    }

    fn decimal(&mut self, n: u64) -> &mut Line {
        self.number(n, 10)
    }

    fn hex(&mut self, n: u64) -> &mut Line {
        self.number(n, 16)
    }

    fn number(&mut self, mut n: u64, base: u64) -> &mut Line {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(n % base) as usize];
            n /= base;
            if n == 0 {
                break;
            }
        }
        self.text(std::str::from_utf8(&digits[at..]).unwrap_or("?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelt() {
        let mut line = Line::new();
        line.decimal(0).text(" ").decimal(u64::MAX).text(" ");
        line.hex(0xdead_beef);
        assert_eq!(line.bytes(), b"0 18446744073709551615 deadbeef");
    }
}
