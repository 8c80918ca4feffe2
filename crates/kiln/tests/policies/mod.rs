//! Edits that change the FPU policy of a Linux 6.12 tree.

use crate::edited::Edited;

/// An edit that replaces `from` with `to` in one function of a file, or anywhere in the file if
/// `function` is empty.
pub struct Edit {
    pub file: &'static str,
    pub function: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

const CORE: &str = "arch/x86/kernel/fpu/core.c";

const fn edit(function: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit {
        file: CORE,
        function,
        from,
        to,
    }
}

const BEGIN: &str = "kernel_fpu_begin_mask";
const END: &str = "kernel_fpu_end";
const USABLE: &str = "irq_fpu_usable";
const TAKEN: &str = "this_cpu_read(in_kernel_fpu)";

/// The policy of Linux 6.15 and later: a section disables softirqs, unless interrupts are already
/// disabled.
pub const BH_OFF: &[Edit] = &[
    edit(
        BEGIN,
        "preempt_disable();",
        "if (!irqs_disabled())\n\t\tfpregs_lock();",
    ),
    edit(
        END,
        "preempt_enable();",
        "if (!irqs_disabled())\n\t\tfpregs_unlock();",
    ),
];

/// A nested policy: a section that interrupts another section saves the registers to a per-CPU
/// area, and restores them when it ends.
pub const NESTED: &[Edit] = &[
    edit(
        "",
        "bool irq_fpu_usable(void)",
        "static DEFINE_PER_CPU_ALIGNED(struct fpstate, nested_fpstate);\n\n\
         /* What kernel code touches; tiles and keys are the user's alone. */\n\
         static u64 nested_mask(void)\n{\n\
         \treturn fpu_kernel_cfg.max_features &\n\
         \t       (XFEATURE_MASK_FPSSE | XFEATURE_MASK_YMM | XFEATURE_MASK_AVX512);\n}\n\n\
         static void nested_save(void)\n{\n\
         \tstruct fpstate *st = this_cpu_ptr(&nested_fpstate);\n\n\
         \tst->xfeatures = nested_mask();\n\
         \tos_xsave(st);\n}\n\n\
         static void nested_restore(void)\n{\n\
         \tos_xrstor(this_cpu_ptr(&nested_fpstate), nested_mask());\n}\n\n\
         bool irq_fpu_usable(void)",
    ),
    edit(USABLE, TAKEN, "false"),
    edit(
        BEGIN,
        "WARN_ON_FPU(this_cpu_read(in_kernel_fpu));",
        "if (this_cpu_read(in_kernel_fpu)) {\n\
         \t\tWARN_ON_FPU(in_task());\n\t\tnested_save();\n\t\tgoto sane;\n\t}",
    ),
    edit(
        BEGIN,
        "this_cpu_write(in_kernel_fpu, true);",
        "if (in_task())\n\t\tthis_cpu_write(in_kernel_fpu, true);",
    ),
    edit(
        BEGIN,
        "__cpu_invalidate_fpregs_state();",
        "__cpu_invalidate_fpregs_state();\nsane:",
    ),
    edit(END, "WARN_ON_FPU(!this_cpu_read(in_kernel_fpu));", ""),
    edit(
        END,
        "this_cpu_write(in_kernel_fpu, false);",
        "if (!in_task() && this_cpu_read(in_kernel_fpu))\n\t\tnested_restore();\n\
         \telse\n\t\tthis_cpu_write(in_kernel_fpu, false);",
    ),
];

/// A broken policy: softirqs are always allowed to open a section, but registers are never saved.
pub const BROKEN: &[Edit] = &[
    edit(USABLE, TAKEN, "false"),
    edit(BEGIN, "WARN_ON_FPU(this_cpu_read(in_kernel_fpu));", ""),
    edit(END, "WARN_ON_FPU(!this_cpu_read(in_kernel_fpu));", ""),
];

/// Applies these edits to the tree.
///
/// # Panics
/// Panics if the text that an edit replaces does not occur exactly once.
pub fn apply_to(tree: &Edited, edits: &[Edit]) {
    tree.edit(CORE, |text| {
        edits.iter().fold(text, |text, e| {
            assert_eq!(e.file, CORE);
            apply(&text, e)
        })
    });
}

fn apply(text: &str, e: &Edit) -> String {
    let (start, end) = match e.function {
        "" => (0, text.len()),
        name => {
            // Find the definition, which begins at the start of a line and ends with the first
            // closing brace in column 0.
            let head = format!(" {name}(");
            let at = text
                .match_indices(&head)
                .map(|(at, _)| text[..at].rfind('\n').map_or(0, |n| n + 1))
                .find(|&at| {
                    let line = text[at..].lines().next().unwrap_or("");
                    line.starts_with(|c: char| c.is_ascii_alphabetic()) && !line.ends_with(';')
                })
                .unwrap_or_else(|| panic!("{} has no function {name}", e.file));
            let length = text[at..].find("\n}\n").expect("a function ends");
            (at, at + length)
        }
    };
    let found = text[start..end].matches(e.from).count();
    assert_eq!(
        found, 1,
        "{}, {}: {:?} is there {found} times",
        e.file, e.function, e.from
    );
    let body = text[start..end].replacen(e.from, e.to, 1);
    format!("{}{body}{}", &text[..start], &text[end..])
}
