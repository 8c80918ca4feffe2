//! Calls a function and checks the registers: those that the function must preserve, and those that
//! it must leave in a defined state.
//!
//! System V ABI, 3.2: the caller owns the callee-saved registers, the direction flag, the control
//! bits of MXCSR and the x87 control word; the x87 stack is empty on return. The ABI does not
//! define the content of vector and mask registers (k0-k7) after a call. By convention, however,
//! compilers zero the upper halves of ymm0-15 and zmm0-15, because otherwise every later SSE
//! instruction of the caller is slower. zmm16-31 have no SSE form and may keep their content.

use std::arch::{global_asm, is_x86_feature_detected};
use std::ffi::c_void;
use std::fmt::Write;

use kiln_kernel::call::Through;

/// The direction flag in RFLAGS.
const DIRECTION: u64 = 1 << 10;
/// Control bits of MXCSR: rounding, exception masks, flush-to-zero. A function may change the other
/// bits, which are the sticky exception flags.
const CONTROL: u32 = 0xffc0;
/// Number of words on the caller's stack that are checked.
const CANARIES: u64 = 13;

const SAVED: [&str; 6] = ["rbx", "rbp", "r12", "r13", "r14", "r15"];

/// The state before and after a call. The assembly below depends on the offsets of the fields.
#[repr(C, align(64))]
pub(super) struct Registers {
    saved: [u64; 6],
    after: [u64; 6],
    result: u64,
    flags: u64,
    rsp: u64,
    rsp_after: u64,
    canary: u64,
    broken: u64,
    /// Which vector registers are checked: 0 for none, 1 for ymm, 2 for zmm.
    width: u32,
    mxcsr: u32,
    mxcsr_after: u32,
    fcw: u16,
    fcw_after: u16,
    /// The x87 environment, in the format that FNSTENV writes.
    environment: [u16; 14],
    _pad: [u8; 20],
    vectors: [[u8; 64]; 16],
}

extern "C" {
    fn kiln_checked_call(registers: *mut c_void, function: *const c_void, args: *const u64) -> u64;
}

impl Registers {
    /// Creates the state for the calls of one thread.
    pub(super) fn new() -> Box<Registers> {
        Box::new(Registers {
            saved: [
                0x5bb5_1dea_0bad_c0de,
                0x1357_9bdf_0246_8ace,
                0xfeed_f00d_dead_10cc,
                0x0f1e_2d3c_4b5a_6978,
                0x8bad_f00d_0d15_ea5e,
                0xa5a5_5a5a_c3c3_3c3c,
            ],
            after: [0; 6],
            result: 0,
            flags: 0,
            rsp: 0,
            rsp_after: 0,
            canary: 0xc0ff_ee00_dd00_ba11,
            broken: 0,
            width: 0,
            mxcsr: 0,
            mxcsr_after: 0,
            fcw: 0,
            fcw_after: 0,
            environment: [0; 14],
            _pad: [0; 20],
            vectors: [[0; 64]; 16],
        })
    }

    /// Returns the function that makes a call and records the registers, and the address where it
    /// records them. Set `simd` if the call is made inside an FPU section, so that the function may
    /// use the vector registers.
    pub(super) fn through(&mut self, simd: bool) -> (Through, *mut c_void) {
        self.width = match simd {
            true if is_x86_feature_detected!("avx512f") => 2,
            true if is_x86_feature_detected!("avx") => 1,
            _ => 0,
        };
        (kiln_checked_call, std::ptr::from_mut(self).cast())
    }

    /// Returns an error that describes what the last call did wrong. If `fpu` is false, MXCSR and
    /// x87 are not checked, because outside a section they belong to the interrupted code.
    pub(super) fn verdict(&self, fpu: bool) -> Result<(), String> {
        let mut faults = String::new();
        let mut add = |fault: &str| {
            let comma = if faults.is_empty() { "" } else { ", " };
            let _ = write!(faults, "{comma}{fault}");
        };
        for (name, (before, after)) in SAVED.iter().zip(self.saved.iter().zip(&self.after)) {
            if before != after {
                add(&format!("changed {name}"));
            }
        }
        if self.rsp != self.rsp_after {
            add("changed rsp");
        }
        if self.broken > 0 {
            add("wrote over its caller's stack");
        }
        if self.flags & DIRECTION != 0 {
            add("left the direction flag set");
        }
        if fpu && (self.mxcsr ^ self.mxcsr_after) & CONTROL != 0 {
            add("changed MXCSR");
        }
        if fpu && self.fcw != self.fcw_after {
            add("changed the x87 control word");
        }
        // The tag word must mark every register as empty.
        if fpu && self.environment[4] != 0xffff {
            add("left MMX or x87 registers in use");
        }
        let high = match self.width {
            0 => 16..16,
            1 => 16..32,
            _ => 16..64,
        };
        let dirty = |v: &[u8; 64]| v[high.clone()] != [0; 64][high.clone()];
        if let Some(n) = self.vectors.iter().position(dirty) {
            add(&format!("left the upper half of ymm{n} in use"));
        }
        match faults.is_empty() {
            true => Ok(()),
            false => Err(faults),
        }
    }
}

// On entry, rdi points to the `Registers`, rsi to the function, and rdx to the nine arguments.
// During the call, the stack contains, from rsp upwards, three arguments (which the callee may
// change), CANARIES words, and the address of the `Registers`.
global_asm!(
    ".globl kiln_checked_call",
    ".hidden kiln_checked_call",
    ".type kiln_checked_call, @function",
    "kiln_checked_call:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "push rdi",
    "sub rsp, 128",
    "mov rax, [rdi + {canary}]",
    "xor ecx, ecx",
    "2: mov [rsp + 24 + rcx * 8], rax",
    "inc ecx",
    "cmp ecx, {canaries}",
    "jb 2b",
    "mov rax, [rdx + 48]",
    "mov [rsp], rax",
    "mov rax, [rdx + 56]",
    "mov [rsp + 8], rax",
    "mov rax, [rdx + 64]",
    "mov [rsp + 16], rax",
    "mov [rdi + {rsp}], rsp",
    "stmxcsr [rdi + {mxcsr}]",
    "fnstcw [rdi + {fcw}]",
    "cmp dword ptr [rdi + {width}], 0",
    "je 3f",
    "vzeroupper",
    "3: mov r11, rsi",
    "mov r10, rdx",
    "mov rbx, [rdi + {saved}]",
    "mov rbp, [rdi + {saved} + 8]",
    "mov r12, [rdi + {saved} + 16]",
    "mov r13, [rdi + {saved} + 24]",
    "mov r14, [rdi + {saved} + 32]",
    "mov r15, [rdi + {saved} + 40]",
    "mov rdi, [r10]",
    "mov rsi, [r10 + 8]",
    "mov rdx, [r10 + 16]",
    "mov rcx, [r10 + 24]",
    "mov r8, [r10 + 32]",
    "mov r9, [r10 + 40]",
    "call r11",
    "pushfq",
    "pop r10",
    "cld",
    "mov r11, [rsp + 128]",
    "mov [r11 + {result}], rax",
    "mov [r11 + {flags}], r10",
    "mov [r11 + {rsp_after}], rsp",
    "mov [r11 + {after}], rbx",
    "mov [r11 + {after} + 8], rbp",
    "mov [r11 + {after} + 16], r12",
    "mov [r11 + {after} + 24], r13",
    "mov [r11 + {after} + 32], r14",
    "mov [r11 + {after} + 40], r15",
    "stmxcsr [r11 + {mxcsr_after}]",
    "fnstcw [r11 + {fcw_after}]",
    "fnstenv [r11 + {environment}]",
    "fldenv [r11 + {environment}]",
    "cmp dword ptr [r11 + {width}], 1",
    "jb 6f",
    "je 5f",
    "vmovdqu64 [r11 + {vectors}], zmm0",
    "vmovdqu64 [r11 + {vectors} + 64], zmm1",
    "vmovdqu64 [r11 + {vectors} + 128], zmm2",
    "vmovdqu64 [r11 + {vectors} + 192], zmm3",
    "vmovdqu64 [r11 + {vectors} + 256], zmm4",
    "vmovdqu64 [r11 + {vectors} + 320], zmm5",
    "vmovdqu64 [r11 + {vectors} + 384], zmm6",
    "vmovdqu64 [r11 + {vectors} + 448], zmm7",
    "vmovdqu64 [r11 + {vectors} + 512], zmm8",
    "vmovdqu64 [r11 + {vectors} + 576], zmm9",
    "vmovdqu64 [r11 + {vectors} + 640], zmm10",
    "vmovdqu64 [r11 + {vectors} + 704], zmm11",
    "vmovdqu64 [r11 + {vectors} + 768], zmm12",
    "vmovdqu64 [r11 + {vectors} + 832], zmm13",
    "vmovdqu64 [r11 + {vectors} + 896], zmm14",
    "vmovdqu64 [r11 + {vectors} + 960], zmm15",
    "jmp 6f",
    "5: vmovdqu [r11 + {vectors}], ymm0",
    "vmovdqu [r11 + {vectors} + 64], ymm1",
    "vmovdqu [r11 + {vectors} + 128], ymm2",
    "vmovdqu [r11 + {vectors} + 192], ymm3",
    "vmovdqu [r11 + {vectors} + 256], ymm4",
    "vmovdqu [r11 + {vectors} + 320], ymm5",
    "vmovdqu [r11 + {vectors} + 384], ymm6",
    "vmovdqu [r11 + {vectors} + 448], ymm7",
    "vmovdqu [r11 + {vectors} + 512], ymm8",
    "vmovdqu [r11 + {vectors} + 576], ymm9",
    "vmovdqu [r11 + {vectors} + 640], ymm10",
    "vmovdqu [r11 + {vectors} + 704], ymm11",
    "vmovdqu [r11 + {vectors} + 768], ymm12",
    "vmovdqu [r11 + {vectors} + 832], ymm13",
    "vmovdqu [r11 + {vectors} + 896], ymm14",
    "vmovdqu [r11 + {vectors} + 960], ymm15",
    "6: mov rax, [r11 + {canary}]",
    "xor ecx, ecx",
    "xor edx, edx",
    "7: cmp [rsp + 24 + rcx * 8], rax",
    "je 8f",
    "inc edx",
    "8: inc ecx",
    "cmp ecx, {canaries}",
    "jb 7b",
    "mov [r11 + {broken}], rdx",
    "mov rax, [r11 + {result}]",
    "add rsp, 128",
    "pop rdi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size kiln_checked_call, . - kiln_checked_call",
    canaries = const CANARIES,
    saved = const std::mem::offset_of!(Registers, saved),
    after = const std::mem::offset_of!(Registers, after),
    result = const std::mem::offset_of!(Registers, result),
    flags = const std::mem::offset_of!(Registers, flags),
    rsp = const std::mem::offset_of!(Registers, rsp),
    rsp_after = const std::mem::offset_of!(Registers, rsp_after),
    canary = const std::mem::offset_of!(Registers, canary),
    broken = const std::mem::offset_of!(Registers, broken),
    width = const std::mem::offset_of!(Registers, width),
    mxcsr = const std::mem::offset_of!(Registers, mxcsr),
    mxcsr_after = const std::mem::offset_of!(Registers, mxcsr_after),
    fcw = const std::mem::offset_of!(Registers, fcw),
    fcw_after = const std::mem::offset_of!(Registers, fcw_after),
    environment = const std::mem::offset_of!(Registers, environment),
    vectors = const std::mem::offset_of!(Registers, vectors),
);

#[cfg(test)]
mod tests {
    use kiln_kernel::call::{Call, Function};
    use kiln_kernel::fpu::Context;

    use super::*;

    // Functions that test the register check. `none`, `clean` and `high` are correct; `none` takes
    // nine arguments, and changes the registers and the stack words that a function may change.
    // Each of the others has one fault.
    global_asm!(
        "kiln_offender_none: lea rax, [rdi + rsi]",
        "add rax, rdx",
        "add rax, rcx",
        "add rax, r8",
        "add rax, r9",
        "add rax, [rsp + 8]",
        "add rax, [rsp + 16]",
        "add rax, [rsp + 24]",
        "mov qword ptr [rsp + 8], -1",
        "mov qword ptr [rsp + 24], -1",
        "mov rcx, -1",
        "mov r10, rcx",
        "mov r11, rcx",
        "stc",
        "ret",
        "kiln_offender_rbx: mov rbx, 1",
        "ret",
        "kiln_offender_rbp: inc rbp",
        "ret",
        "kiln_offender_r12: bts r12, 63",
        "btr r12, 0",
        "btc r12, 5",
        "ret",
        "kiln_offender_r13: not r13",
        "ret",
        "kiln_offender_r14: mov r14d, r14d",
        "ret",
        "kiln_offender_r15: xor r15d, r15d",
        "ret",
        "kiln_offender_direction: std",
        "ret",
        "kiln_offender_mxcsr: mov dword ptr [rsp - 8], 0x9fc0",
        "ldmxcsr [rsp - 8]",
        "ret",
        "kiln_offender_fcw: mov word ptr [rsp - 8], 0x0c7f",
        "fldcw [rsp - 8]",
        "ret",
        "kiln_offender_mmx: movd mm3, eax",
        "ret",
        "kiln_offender_stack: mov qword ptr [rsp + 32], 0",
        "ret",
        "kiln_offender_stack_far: mov byte ptr [rsp + 135], 0",
        "ret",
        "kiln_offender_clean: vpcmpeqd ymm3, ymm3, ymm3",
        "vzeroupper",
        "ret",
        "kiln_offender_ymm: vpcmpeqd ymm15, ymm15, ymm15",
        "ret",
        "kiln_offender_zmm: vpternlogd zmm7, zmm7, zmm7, 0xff",
        "vextracti64x4 ymm7, zmm7, 1",
        "vpternlogd zmm7, zmm7, zmm7, 0xff",
        "vinserti64x4 zmm7, zmm7, ymm31, 0",
        "ret",
        "kiln_offender_high: vpternlogd zmm31, zmm31, zmm31, 0xff",
        "kxnorq k3, k3, k3",
        "ret",
    );

    macro_rules! offenders {
        ($($name:ident)*) => {
            extern "C" {
                $(fn $name();)*
            }
        };
    }
    offenders!(kiln_offender_none kiln_offender_rbx kiln_offender_rbp kiln_offender_r12 kiln_offender_r13
        kiln_offender_r14 kiln_offender_r15 kiln_offender_direction kiln_offender_mxcsr kiln_offender_fcw
        kiln_offender_mmx kiln_offender_stack kiln_offender_stack_far kiln_offender_clean kiln_offender_ymm
        kiln_offender_zmm kiln_offender_high);

    fn call(offender: unsafe extern "C" fn(), simd: bool) -> Result<u64, String> {
        let mut registers = Registers::new();
        let call = Call {
            // SAFETY: every register that a faulty function corrupts is restored, either by the
            // checker or at the end of the section.
            function: unsafe { Function::new(offender as *const c_void, simd) },
            scalar: None,
            args: [1, 2, 3, 4, 5, 6, 7, 8, 9],
            context: Context::Task,
            through: Some(registers.through(simd)),
            step: false,
        };
        // SAFETY: all arguments are plain numbers, and the functions do not use them as addresses.
        let returned = unsafe { call.make() }.expect("a task may call anything");
        let fcw = registers.fcw;
        // SAFETY: the operands are the control words from before the call, so they are valid. A
        // faulty function that was called outside a section may have changed them.
        unsafe {
            std::arch::asm!("emms", "fldcw [{}]", "ldmxcsr [{}]",
                in(reg) &fcw, in(reg) &registers.mxcsr);
        }
        registers.verdict(true).map(|()| returned.result)
    }

    #[test]
    fn what_a_function_may_do_is_no_fault() {
        assert_eq!(call(kiln_offender_none, false), Ok(45));
        assert_eq!(call(kiln_offender_none, true), Ok(45));
        if is_x86_feature_detected!("avx2") {
            assert!(call(kiln_offender_clean, true).is_ok());
        }
        if is_x86_feature_detected!("avx512bw") {
            assert!(call(kiln_offender_high, true).is_ok());
        }
    }

    #[test]
    fn every_offender_is_named() {
        for (offender, fault) in [
            (kiln_offender_rbx as unsafe extern "C" fn(), "changed rbx"),
            (kiln_offender_rbp, "changed rbp"),
            (kiln_offender_r12, "changed r12"),
            (kiln_offender_r13, "changed r13"),
            (kiln_offender_r14, "changed r14"),
            (kiln_offender_r15, "changed r15"),
            (kiln_offender_direction, "left the direction flag set"),
            (kiln_offender_mxcsr, "changed MXCSR"),
            (kiln_offender_fcw, "changed the x87 control word"),
            (kiln_offender_mmx, "left MMX or x87 registers in use"),
            (kiln_offender_stack, "wrote over its caller's stack"),
            (kiln_offender_stack_far, "wrote over its caller's stack"),
        ] {
            for simd in [false, true] {
                assert_eq!(call(offender, simd), Err(fault.to_string()));
            }
        }
    }

    #[test]
    fn upper_halves_in_use_are_named() {
        if !is_x86_feature_detected!("avx2") {
            println!("SKIPPED: this CPU lacks AVX2");
            return;
        }
        let fault = |n| Err(format!("left the upper half of ymm{n} in use"));
        assert_eq!(call(kiln_offender_ymm, true), fault(15));
        if is_x86_feature_detected!("avx512dq") {
            assert_eq!(call(kiln_offender_zmm, true), fault(7));
        }
    }
}
