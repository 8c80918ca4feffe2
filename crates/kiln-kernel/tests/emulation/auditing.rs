//! Tests that an audit that copies instructions observes the same steps as an audit with the trap
//! flag.

use std::arch::{asm, global_asm};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::hosted::enter;
use kiln_kernel::irq::{restore_original, Audit, Auditing};

use crate::machine::{cores, pin, run_alone};

// A position-independent function that compares its arguments, and then executes the kinds of
// instructions that are not simply copied: jumps with every condition, calls, returns, indirect
// jumps and calls, loops, operands relative to RIP, and instructions that read or write the trap
// flag.
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
    "lea rdx, [rip + 20f]",
    "add rax, [rip + 21f]",
    "push rdx",
    "call [rsp]",
    "mov ecx, 1",
    "call [rsp + 8*rcx - 8]",
    "pop rdx",
    "lea rdx, [rip + 10f]",
    "jmp rdx",
    "ud2",
    "10: lea rdx, [rip + 11f]",
    "push rdx",
    "jmp [rsp]",
    "ud2",
    "11: pop rdx",
    "std",
    "pushfq",
    "pop rdx",
    "and edx, 0x400",
    "add rax, rdx",
    "cld",
    "stc",
    "pushfq",
    "and qword ptr [rsp], -2",
    "popfq",
    "adc rax, 0",
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
    "20: lea rax, [rax + 2*rax + 5]",
    "ret",
    "21: .quad 0x1234567",
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
    // SAFETY: the caller passes a `Call`, whose code is a copy of `kiln_test_walk`. The copy
    // changes only the registers named here. The assembly moves the stack pointer below the red
    // zone before it pushes anything.
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

/// Copies the function to memory outside the program's text. The copy is stepped with the trap flag
/// unless it is passed to `copy_instructions`.
fn copy() -> &'static mut [u8] {
    let (start, end) = (kiln_test_walk as *const u8, kiln_test_walk_end as *const u8);
    // SAFETY: both labels belong to the assembly above, and the mapping is new and large enough.
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

/// Audits a call to the copied function in `code`. Returns the function's return value, the number
/// of visits to each instruction by offset, and the number of injected interrupts.
fn audit(
    cpu: &mut Cpu,
    code: &[u8],
    arguments: (i32, i32),
    interrupts: u64,
    copies: bool,
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
        if copies {
            auditing.copy_instructions(text.clone()).expect("copies");
        }
        enter(cpu, step, (&raw mut call).cast());
        auditing.visits()
    };
    let visits = visits.iter().filter(|v| text.contains(&v.address));
    let visits = visits.map(|v| (v.address - start, v.visits)).collect();
    (call.answer, visits, shared.injected)
}

#[test]
fn copies_report_the_steps_that_the_trap_flag_reports() {
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
                    let mut run = |copies| audit(&mut cpu, code, (a, b), interrupts, copies);
                    let (flag, copies) = (run(false), run(true));
                    assert_eq!(code, original, "the code was changed");
                    let (answer, mut visits, injected) = flag;
                    // With the trap flag, each iteration of a string instruction is one step. With
                    // copies, all iterations together are one step. Adjust the count from the trap
                    // flag before the comparison.
                    assert_eq!(visits.insert(repeated, 2), Some(10));
                    assert_eq!(copies.0, answer, "{a} {b}");
                    assert_eq!(copies.1, visits, "{a} {b}");
                    assert_eq!(copies.2, injected, "{a} {b}");
                    assert_eq!(injected > 0, interrupts > 0);
                    *conditions.entry(visits).or_insert(0) += 1;
                }
            }
        }
        // The arguments must lead to several different paths through the function.
        assert!(conditions.len() > 4, "{}", conditions.len());
    });
}

static FAULT: AtomicU64 = AtomicU64::new(0);

/// Records the address of the instruction that caused a fault, and skips the instruction.
extern "C" fn record_and_skip_fault(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes this context to the handler, and nothing else refers to it.
    unsafe {
        restore_original(context);
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        FAULT.store(registers[libc::REG_RIP as usize] as u64, Ordering::SeqCst);
        registers[libc::REG_RIP as usize] += FAULTING as i64;
    }
}

/// Length in bytes of the instruction that faults.
const FAULTING: usize = 2;

/// A fault handler must find the address of the original instruction, and stepping must continue
/// after that instruction.
#[test]
fn a_fault_in_a_copy_is_reported_at_the_original() {
    run_alone(|_| {
        pin(cores()[0]);
        let mut cpu = Cpu::boot(&Config::default()).expect("a CPU boots");
        // SAFETY: the handler accesses only its frame and an atomic variable.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = record_and_skip_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        }
        // xor eax, eax; mov al, [rax]; mov al, 42; ret
        let code = [0x31, 0xc0, 0x8a, 0x00, 0xb0, 0x2a, 0xc3];
        let all = copy();
        all[..code.len()].copy_from_slice(&code);
        for copies in [false, true] {
            FAULT.store(0, Ordering::SeqCst);
            let (answer, visits, _) = audit(&mut cpu, all, (0, 0), 0, copies);
            let fault = FAULT.load(Ordering::SeqCst) - all.as_ptr() as u64;
            assert_eq!((answer, fault), (42, 2), "copies: {copies}");
            // The fault handler continues at offset 4, so the next trap is at offset 6.
            assert_eq!(visits.keys().copied().collect::<Vec<_>>(), [0, 2, 6]);
        }
    });
}
