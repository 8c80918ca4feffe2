//! Disassembles the hottest code of a build and counts its instructions.

use std::fs;
use std::path::Path;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, OpKind, Register,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// The disassembly and the instruction counts of a loop or a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// Name of the function that contains the code.
    pub function: String,
    /// True if the code is a loop; false if it is a whole function.
    pub is_loop: bool,
    pub instructions: usize,
    /// Number of loads whose address uses an index register. Most of them are table lookups.
    pub indexed_loads: usize,
    /// Number of stores of registers to the stack.
    pub spills: usize,
    /// Number of loads from the stack.
    pub reloads: usize,
    /// Number of conditional jumps.
    pub branches: usize,
    pub calls: usize,
    /// Functions that the code calls by name, and the number of call instructions for each.
    pub called: Vec<(String, usize)>,
    /// The disassembly, one line per instruction.
    pub text: Vec<String>,
}

/// Reads the hottest code of `function` from an object file. This is the largest innermost loop, or
/// the whole function if the loop makes up less than a tenth of the function or does not exist. If
/// the object file does not define `function`, its largest function is used instead.
pub(super) fn read(object: &Path, function: &str) -> Option<Code> {
    let bytes = fs::read(object).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let of_code = |s: &object::Symbol| s.kind() == SymbolKind::Text && s.size() > 0;
    let symbol = file
        .symbols()
        .filter(of_code)
        .max_by_key(|s| (s.name() == Ok(function), s.size()))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let data = section.data().ok()?;
    let start = symbol.address() as usize;
    let body = data.get(start..start + symbol.size() as usize)?;
    let bitness = if file.is_64() { 64 } else { 32 };
    let decoder = Decoder::with_ip(bitness, body, start as u64, DecoderOptions::NONE);
    let all: Vec<Instruction> = decoder.into_iter().collect();
    let (first, last, is_loop) = hot(&all);
    let mut code = Code {
        function: symbol.name().unwrap_or("?").to_string(),
        is_loop,
        ..Code::default()
    };
    let mut formatter = GasFormatter::new();
    for i in &all[first..=last] {
        count(i, &mut code);
        let mut line = String::new();
        formatter.format(i, &mut line);
        // Take the operand's name from the relocation, because an unlinked instruction does not yet
        // contain the operand's address.
        let inside = |at: u64| (i.ip()..i.next_ip()).contains(&at);
        for (_, relocation) in section.relocations().filter(|(at, _)| inside(*at)) {
            let RelocationTarget::Symbol(target) = relocation.target() else {
                continue;
            };
            let Ok(name) = file.symbol_by_index(target).and_then(|s| s.name()) else {
                continue;
            };
            if i.flow_control() == FlowControl::Call && !name.is_empty() {
                match code.called.iter_mut().find(|(n, _)| n == name) {
                    Some((_, n)) => *n += 1,
                    None => code.called.push((name.to_string(), 1)),
                }
            }
            line.push_str(&format!("  # {name}"));
        }
        code.text.push(format!("{:6x}: {line}", i.ip()));
    }
    Some(code)
}

/// Returns the indices of the first and the last instruction of the hot code, and whether that code
/// is a loop. The hot code is the largest innermost loop if this loop makes up at least a tenth of
/// the function; otherwise it is the whole function.
fn hot(all: &[Instruction]) -> (usize, usize, bool) {
    let back = all.iter().enumerate().filter_map(|(at, i)| {
        let jump = matches!(
            i.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let to = i.near_branch_target();
        let to = all.iter().position(|t| jump && t.ip() == to)?;
        // Out-of-line code placed after a return jumps backwards, but that jump does not form a
        // loop.
        let body = all.get(to..at)?;
        let left = body.iter().any(|i| i.flow_control() == FlowControl::Return);
        (!left).then_some((to, at))
    });
    let loops: Vec<(usize, usize)> = back.collect();
    let innermost =
        |l: &&(usize, usize)| !loops.iter().any(|o| o != *l && o.0 >= l.0 && o.1 <= l.1);
    let largest = loops.iter().filter(innermost).max_by_key(|l| l.1 - l.0);
    match largest {
        Some((a, b)) if (b - a) * 10 >= all.len() => (*a, *b, true),
        _ => (0, all.len().saturating_sub(1), false),
    }
}

fn count(i: &Instruction, code: &mut Code) {
    code.instructions += 1;
    match i.flow_control() {
        FlowControl::ConditionalBranch => code.branches += 1,
        FlowControl::Call | FlowControl::IndirectCall => code.calls += 1,
        _ => {}
    }
    let memory = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Memory);
    let Some(n) = memory else { return };
    if matches!(
        i.mnemonic(),
        iced_x86::Mnemonic::Lea | iced_x86::Mnemonic::Nop
    ) {
        return;
    }
    let stack = |r: Register| {
        matches!(
            r,
            Register::RSP | Register::ESP | Register::RBP | Register::EBP
        )
    };
    let written = n == 0 && i.mnemonic() == iced_x86::Mnemonic::Mov;
    if stack(i.memory_base()) && i.memory_index() == Register::None {
        match written {
            true => code.spills += 1,
            false => code.reloads += 1,
        }
    } else if i.memory_index() != Register::None && !written {
        code.indexed_loads += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_loop_is_found_and_its_table_loads_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (s, o) = (dir.path().join("a.s"), dir.path().join("a.o"));
        let text = "\
\t.globl f
\t.type f, @function
f:\tpush %rbx
1:\tmovzbl (%rsi), %eax
\tmov table(,%rax,4), %edx
\tmov %rdx, -8(%rsp)
\txor -8(%rsp), %rbx
\tcall __ubsan_handle
\tdec %ecx
\tjnz 1b
\tpop %rbx
\tret
\t.size f, .-f
";
        fs::write(&s, text).unwrap();
        let done = Command::new("cc")
            .arg("-c")
            .arg(&s)
            .arg("-o")
            .arg(&o)
            .status();
        if !done.is_ok_and(|d| d.success()) {
            eprintln!("SKIPPED: no cc here");
            return;
        }
        let code = read(&o, "f").unwrap();
        assert!(code.is_loop);
        assert_eq!((code.instructions, code.branches, code.calls), (7, 1, 1));
        assert_eq!((code.indexed_loads, code.spills, code.reloads), (1, 1, 1));
        assert_eq!(code.called, [("__ubsan_handle".to_string(), 1)]);
        assert!(code.text[1].contains("table"), "{:?}", code.text);
    }
}
