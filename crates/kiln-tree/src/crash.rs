//! Handles signals that the hosted tree's code raises. If the signal comes from a warning, the
//! handler reports the warning, and execution continues with the next instruction. For any other
//! signal, the handler reports the address and the driver under test, and terminates the child.

use std::ffi::{c_char, c_void, CStr};
use std::fmt::Write;
use std::ptr;
use std::sync::OnceLock;

use kiln_kernel::irq::restore_original;

use crate::image::Image;
use crate::Error;

const EXIT_FAULT: i32 = 70;

type Bug = unsafe extern "C" fn(ip: u64, file: *mut *const c_char, line: *mut u32) -> i32;
type Test = unsafe extern "C" fn() -> *const c_char;
type Trace = unsafe extern "C" fn(stack: u64, frame: u64, to: *mut u64, most: u32) -> u32;

/// Maximum number of return addresses in a crash report.
const DEEPEST: usize = 20;

/// Data that the signal handler uses, set before the handler is installed.
struct Watched {
    events: i32,
    bug: Bug,
    test: Test,
    case: Test,
    trace: Trace,
    text: std::ops::Range<u64>,
}

static WATCHED: OnceLock<Watched> = OnceLock::new();

/// Installs the signal handlers, and an alternate signal stack for this thread.
pub(crate) fn watch(image: &Image, events: i32) -> Result<(), Error> {
    // SAFETY: `warn.c`, `test.c` and `oracle.c` define these functions with the types that the
    // fields of `Watched` declare.
    let (bug, test, case, trace) = unsafe {
        (
            image.function("kiln_image_bug")?,
            image.function("kiln_image_test")?,
            image.function("kiln_image_case")?,
            image.function("kiln_image_fault_trace")?,
        )
    };
    let watched = Watched {
        events,
        bug,
        test,
        case,
        trace,
        text: image.text.clone(),
    };
    assert!(WATCHED.set(watched).is_ok(), "only one tree per process");
    let stack = Box::leak(vec![0u8; 128 * 1024].into_boxed_slice());
    for signal in [
        libc::SIGILL,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGABRT,
    ] {
        // SAFETY: the handler is async-signal-safe, and its stack is never freed.
        unsafe {
            let mut alternate: libc::stack_t = std::mem::zeroed();
            alternate.ss_sp = stack.as_mut_ptr().cast();
            alternate.ss_size = stack.len();
            libc::sigaltstack(&alternate, ptr::null_mut());
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // Block all signals, so that no interrupt is delivered while the handler runs.
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
    Ok(())
}

/// A line of text, in a buffer on the signal handler's stack.
struct Line {
    bytes: [u8; 1024],
    len: usize,
}

impl Line {
    fn new() -> Line {
        Line {
            bytes: [0; 1024],
            len: 0,
        }
    }

    /// Appends text as part of a JSON string. Every non-ASCII byte is replaced with a question
    /// mark.
    fn quoted(&mut self, text: &[u8]) {
        for &b in text.iter().take(256) {
            let plain = (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
            let _ = self.write_char(if plain { b as char } else { '?' });
        }
    }

    fn send(&mut self, fd: i32) {
        let _ = self.write_char('\n');
        let mut rest = &self.bytes[..self.len];
        while !rest.is_empty() {
            // SAFETY: `rest` is a valid slice, and the call only reads it.
            let n = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(n) {
                Ok(n) => rest = &rest[n..],
                Err(_) => return,
            }
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        let room = self.bytes.len() - self.len;
        let n = s.len().min(room);
        self.bytes[self.len..self.len + n].copy_from_slice(&s.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

fn signal_name(number: i32) -> &'static str {
    match number {
        libc::SIGILL => "Illegal instruction",
        libc::SIGSEGV => "Segmentation fault",
        libc::SIGBUS => "Bus error",
        libc::SIGFPE => "Arithmetic fault",
        _ => "Aborted",
    }
}

extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(watched) = WATCHED.get() else { return };
    // SAFETY: the kernel passes this context to the handler, and nothing refers to it yet.
    unsafe { restore_original(context) };
    // SAFETY: the kernel passes this context to the handler, and nothing else refers to it.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let ip = registers[libc::REG_RIP as usize] as u64;
    let mut line = Line::new();
    let mut file: *const c_char = ptr::null();
    let mut number_of_line = 0;
    let mut kind = 0;
    if number == libc::SIGILL && watched.text.contains(&ip) {
        // SAFETY: the function reads the tree's table, and writes only the two variables passed
        // here.
        kind = unsafe { (watched.bug)(ip, &mut file, &mut number_of_line) };
    }
    let file = match file.is_null() {
        true => c"?",
        // SAFETY: the tree's table contains NUL-terminated strings, which are never freed.
        false => unsafe { CStr::from_ptr(file) },
    };
    if kind == 1 {
        let _ = write!(line, r#"{{"event":"warn","address":{ip},"file":""#);
        line.quoted(file.to_bytes());
        let _ = write!(line, r#"","line":{number_of_line}}}"#);
        line.send(watched.events);
        registers[libc::REG_RIP as usize] += 2;
        return;
    }
    let _ = line.write_str(r#"{"event":"fault","what":""#);
    if kind == 2 {
        let _ = line.write_str("BUG at ");
        line.quoted(file.to_bytes());
        let _ = write!(line, ":{number_of_line}");
    } else {
        // SAFETY: the kernel passes a valid structure and, for a fault, fills in the address.
        let at = unsafe { (*info).si_addr() } as u64;
        let _ = write!(line, "{} at {at:#x}", signal_name(number));
    }
    let _ = write!(line, r#"","address":{ip},"driver":""#);
    // SAFETY: the function reads only the services' memory, and returns a NUL-terminated string
    // stored there.
    line.quoted(unsafe { CStr::from_ptr((watched.test)()) }.to_bytes());
    let _ = line.write_str(r#"","case":""#);
    // SAFETY: the function reads only the services' memory, and returns a NUL-terminated string
    // stored there.
    line.quoted(unsafe { CStr::from_ptr((watched.case)()) }.to_bytes());
    let _ = line.write_str(r#"","trace":["#);
    let mut trace = [0; DEEPEST];
    let (stack, frame) = (
        registers[libc::REG_RSP as usize],
        registers[libc::REG_RBP as usize],
    );
    // SAFETY: `trace` has `DEEPEST` entries. The function reads the stack through a system call,
    // which returns an error for unmapped memory.
    let n = unsafe {
        (watched.trace)(
            stack as u64,
            frame as u64,
            trace.as_mut_ptr(),
            DEEPEST as u32,
        )
    };
    for (i, address) in trace.iter().take(n as usize).enumerate() {
        let _ = write!(line, "{}{address}", if i == 0 { "" } else { "," });
    }
    let _ = line.write_str("]}");
    line.send(watched.events);
    // SAFETY: the call ends the process immediately, without running any exit handlers.
    unsafe { libc::_exit(EXIT_FAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_json_whatever_is_in_them() {
        let mut line = Line::new();
        let _ = line.write_str(r#"{"a":""#);
        line.quoted(b"x\"y\\z\n\xff(aes)");
        let _ = line.write_str(r#""}"#);
        let text = std::str::from_utf8(&line.bytes[..line.len]).unwrap();
        assert_eq!(text, r#"{"a":"x?y?z??(aes)"}"#);
        line.quoted(&[b'a'; 4096]);
        for _ in 0..8 {
            line.quoted(&[b'b'; 256]);
        }
        assert_eq!(line.len, line.bytes.len());
    }
}
