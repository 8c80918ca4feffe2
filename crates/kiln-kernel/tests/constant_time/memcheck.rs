//! Client requests to valgrind, which are described in the section "The Client Request mechanism"
//! of its manual. The request codes are those in valgrind.h and memcheck.h. If the program does not
//! run under valgrind, requests have no effect and return 0.

use std::arch::asm;

const RUNNING_ON_VALGRIND: u64 = 0x1001;
const COUNT_ERRORS: u64 = 0x1201;
/// The base of memcheck's request numbers, made from the tool's two-letter code.
const MEMCHECK: u64 = (b'M' as u64) << 24 | (b'C' as u64) << 16;
const MAKE_MEM_UNDEFINED: u64 = MEMCHECK + 1;
const MAKE_MEM_DEFINED: u64 = MEMCHECK + 2;
const GET_VBITS: u64 = MEMCHECK + 8;

fn request(code: u64, arguments: [u64; 3]) -> u64 {
    let [a, b, c] = arguments;
    let block = [code, a, b, c, 0, 0];
    let answer;
    // SAFETY: on a real CPU, these instructions rotate rdi by 128 bits in total and exchange rbx
    // with itself, so they have no effect. Under valgrind, they read `block` and write the result
    // to rdx. Memory that a request may write to is borrowed exclusively.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") block.as_ptr(),
            inout("rdx") 0u64 => answer,
            out("rdi") _,
            options(nostack),
        );
    }
    answer
}

/// Returns whether this program runs under valgrind.
pub(crate) fn running() -> bool {
    request(RUNNING_ON_VALGRIND, [0; 3]) > 0
}

/// Returns the number of errors so far, excluding suppressed errors.
pub(crate) fn errors() -> u64 {
    request(COUNT_ERRORS, [0; 3])
}

/// Marks these bytes as secret. Values that are later computed from them are also secret.
pub(crate) fn secret(bytes: &mut [u8]) {
    request(MAKE_MEM_UNDEFINED, span(bytes));
}

/// Marks these bytes as public, so that jumps and addresses may depend on them.
pub(crate) fn public(bytes: &mut [u8]) {
    request(MAKE_MEM_DEFINED, span(bytes));
}

/// Returns whether every byte depends on a secret.
pub(crate) fn all_secret(bytes: &[u8]) -> bool {
    let mut bits = vec![0u8; bytes.len()];
    let arguments = [
        bytes.as_ptr() as u64,
        bits.as_mut_ptr() as u64,
        bytes.len() as u64,
    ];
    assert_eq!(
        request(GET_VBITS, arguments),
        1,
        "memory that memcheck knows"
    );
    bits.iter().all(|&b| b != 0)
}

fn span(bytes: &mut [u8]) -> [u64; 3] {
    [bytes.as_mut_ptr() as u64, bytes.len() as u64, 0]
}
