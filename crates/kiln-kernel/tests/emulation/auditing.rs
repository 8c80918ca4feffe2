//! Tests that an audit with breakpoints observes the same steps as an audit with the trap flag.

use std::arch::{asm, global_asm};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::slice;

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::hosted::enter;
use kiln_kernel::irq::{Audit, Auditing};

use crate::machine::{cores, pin, run_alone};

// A position-independent function that compares its arguments, and then executes every kind of
// instruction whose successor a breakpoint must find: all conditions of jumps, calls, returns,
// loops, and instructions that read or write the trap flag.
global_asm!(
    ".pushsection .text",
    ".globl kiln_test_walk, kiln_test_repeated, kiln_test_walk_end",
    "kiln_test_walk:",
    "push rbx",
    "mov r8, rdi",
    "mov r9, rsi",
    "xor eax, eax",
    "mov ebx, 2",
    "2: mov rdi, r8",
    "mov rsi, r9",
    "cmp edi, esi",
    ".irp condition, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g",
    "j\\condition 3f",
    "lea rax, [rax + 2*rax + 1]",
    "3: lea rax, [rax + 1]",
    "cmp edi, esi",
    ".endr",
    "call 5f",
    "push 7",
    "call 6f",
    "lea rdx, [rip + 5f]",
    "call rdx",
    "pushfq",
    "popfq",
    "mov ecx, 3",
    "4: loop 4b",
    "jrcxz 7f",
    "ud2",
    "7: lea rsi, [rip + kiln_test_walk]",
    "lea rdi, [rsp - 64]",
    "mov ecx, 5",
    "kiln_test_repeated: rep movsb",
    "dec ebx",
    "jnz 2b",
    "jmp 8f",
    "5: lea rax, [rax + 4*rax]",
    "ret",
    "6: lea rax, [rax + 8*rax]",
    "ret 8",
    "8: pop rbx",
    "ret",
    "kiln_test_walk_end:",
    ".popsection",
);

extern "C" {
    fn kiln_test_walk();
    fn kiln_test_repeated();
    fn kiln_test_walk_end();
}

/// A call to the copied function.
struct Call {
    code: u64,
    arguments: (i32, i32),
    answer: u64,
}

unsafe extern "C" fn step(call: *mut c_void) -> u64 {
    // SAFETY: the caller passes a `Call`, whose code is a copy of `kiln_test_walk`. It changes only
    // the registers named here. The stack pointer moves past the red zone.
    unsafe {
        let call = &mut *call.cast::<Call>();
        asm!(
            "sub rsp, 128",
            "pushfq",
            "or qword ptr [rsp], 0x100",
            "popfq",
            "call {code}",
            "pushfq",
            "and qword ptr [rsp], ~0x100",
            "popfq",
            "add rsp, 128",
            code = in(reg) call.code,
            inout("rdi") i64::from(call.arguments.0) => _,
            inout("rsi") i64::from(call.arguments.1) => _,
            out("rax") call.answer,
            out("rcx") _,
            out("rdx") _,
            out("r8") _,
            out("r9") _,
        );
        0
    }
}

/// Copies the function to memory that may be patched.
fn copy() -> &'static mut [u8] {
    let (start, end) = (kiln_test_walk as *const u8, kiln_test_walk_end as *const u8);
    // SAFETY: both labels belong to the assembly above, and the mapping is large enough and new.
    unsafe {
        let len = end.offset_from(start) as usize;
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), len, all, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        ptr::copy_nonoverlapping(start, page.cast(), len);
        slice::from_raw_parts_mut(page.cast(), len)
    }
}

/// Returns the answer, the number of visits of each instruction, and the number of interrupts.
fn audit(
    cpu: &mut Cpu,
    code: &[u8],
    arguments: (i32, i32),
    interrupts: u64,
    patch: bool,
) -> (u64, BTreeMap<u64, u64>, u64) {
    let mut shared = Box::new(Audit {
        last_call: u64::MAX,
        last_step: u64::MAX,
        visits: interrupts,
        outside_visits: interrupts,
        idle: u64::MAX,
        outside_idle: u64::MAX,
        ..Audit::default()
    });
    let start = code.as_ptr() as u64;
    let text = start..start + code.len() as u64;
    let mut call = Call {
        code: start,
        arguments,
        answer: 0,
    };
    // SAFETY: `shared` and `code` outlive the audit, this process has no other CPU, and `step` uses
    // general-purpose registers only.
    let visits = unsafe {
        let mut auditing = Auditing::start(cpu, &raw mut *shared, 0).expect("an audit starts");
        if patch {
            auditing.patch(text.clone());
        }
        enter(cpu, step, (&raw mut call).cast());
        auditing.visits()
    };
    let visits = visits.iter().filter(|v| text.contains(&v.address));
    let visits = visits.map(|v| (v.address - start, v.visits)).collect();
    (call.answer, visits, shared.injected)
}

#[test]
fn breakpoints_report_the_steps_that_the_trap_flag_reports() {
    run_alone(|_| {
        pin(cores()[0]);
        let mut cpu = Cpu::boot(&Config::default()).expect("a CPU boots");
        let code = copy();
        let original = code.to_vec();
        let repeated = kiln_test_repeated as *const () as u64 - kiln_test_walk as *const () as u64;
        let mut conditions = BTreeMap::new();
        for a in [0, 1, 2, 3, -1, i32::MIN, i32::MAX] {
            for b in [0, 1, 2, -1, i32::MIN, i32::MAX] {
                for interrupts in [0, 1] {
                    let mut run = |patch| audit(&mut cpu, code, (a, b), interrupts, patch);
                    let (flag, breakpoints) = (run(false), run(true));
                    assert_eq!(code, original, "a breakpoint was left");
                    let (answer, mut visits, injected) = flag;
                    // With the trap flag, each repetition of a string instruction is a step. The
                    // trap flag also makes the step after an interrupt.
                    assert_eq!(visits.insert(repeated, 2 + interrupts), Some(10));
                    assert_eq!(breakpoints.0, answer, "{a} {b}");
                    assert_eq!(breakpoints.1, visits, "{a} {b}");
                    assert_eq!(breakpoints.2, injected, "{a} {b}");
                    assert_eq!(injected > 0, interrupts > 0);
                    *conditions.entry(visits).or_insert(0) += 1;
                }
            }
        }
        // The conditions are met in several combinations.
        assert!(conditions.len() > 4, "{}", conditions.len());
    });
}
