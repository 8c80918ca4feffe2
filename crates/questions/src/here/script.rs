//! Writes a bpftrace script that measures the FPU sections of a running kernel.

use super::files::SYMBOLS;
use super::machine::Machine;

/// Returns the symbols of the functions that begin and end an FPU section.
///
/// # Errors
/// Fails if the kernel does not have these symbols. The error explains the consequences.
fn find_symbols(machine: &Machine) -> Result<[&'static str; 2], String> {
    const END: &str = "kernel_fpu_end";
    // Since 5.11, kernel_fpu_begin() has been an inline function that calls
    // kernel_fpu_begin_mask(). In earlier versions, it was an ordinary function with its own
    // symbol.
    const BEGINS: [&str; 2] = ["kernel_fpu_begin_mask", "kernel_fpu_begin"];
    let has = |name| machine.has_symbol(name);
    match BEGINS.into_iter().find(|b| has(b) != Some(false)) {
        Some(begin) if has(END) != Some(false) => Ok([begin, END]),
        _ => Err(format!(
            "/{}: {} has no symbols {} and {END}: they are inlined, or it was built without KALLSYMS; its sections cannot \
             be traced: measure its source by 'kiln budget --tree DIR'",
            SYMBOLS.pattern,
            machine.kernel(),
            BEGINS.join(" or ")
        )),
    }
}

/// Returns the script. If `seconds` is given, the script stops after that time.
///
/// # Errors
/// Fails if the kernel lacks the symbols of the functions that begin and end an FPU section.
pub(super) fn write_script(machine: &Machine, seconds: Option<u64>) -> Result<String, String> {
    let [begin, end] = find_symbols(machine)?;
    let read = match machine.symbols {
        Ok(_) => "both are among this kernel's symbols",
        Err(_) => "the symbols could not be read: these are the names from 5.11 to 7.3",
    };
    let mut script = format!(
        "\
// FPU sections of {kernel}: microseconds from the return of {begin}() to the call of
// {end}(), by the function that opened the section, and the number of sections that
// softirqs interrupted; {read}.
// kernel_fpu_begin() is inline and calls {begin}(), so the caller is the function into
// which it was inlined. The time that the probes take, about 0.1 us, is included.
// Before 6.15, softirqs can run inside a section; since 6.15, they cannot.

kprobe:{begin}
{{
	@caller[tid, cpu] = *(uint64 *)reg(\"sp\");
}}

// The section is open only from this point on: preemption is off, and so are softirqs
// if the kernel disables them.
kretprobe:{begin}
{{
	@who[cpu] = @caller[tid, cpu];
	@begin[cpu] = nsecs;
	@softirqs[cpu] = 0;
	delete(@caller[tid, cpu]);
}}

kprobe:{end}
/@begin[cpu]/
{{
	@us[ksym(@who[cpu])] = hist((nsecs - @begin[cpu]) / 1000);
	@longest_ns[ksym(@who[cpu])] = max(nsecs - @begin[cpu]);
	if (@softirqs[cpu]) {{
		@sections_with_softirqs[ksym(@who[cpu])] = count();
	}}
	delete(@begin[cpu]);
}}

// Record interruptions here, but count them only when the section ends. A section whose
// end is missed, for example while the probes are being attached, is thus not counted.
tracepoint:irq:softirq_entry
/@begin[cpu]/
{{
	@softirqs[cpu] = 1;
}}

END
{{
	clear(@begin);
	clear(@caller);
	clear(@who);
	clear(@softirqs);
}}
",
        kernel = machine.kernel()
    );
    if let Some(seconds) = seconds {
        script.push_str(&format!("\ninterval:s:{seconds}\n{{\n\texit();\n}}\n"));
    }
    Ok(script)
}
