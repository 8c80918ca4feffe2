//! Checks machine code, using the output of `objdump -d` in AT&T syntax.

use std::path::Path;
use std::process::Command;

use kiln_kbuild::Object;

use crate::subjects::run;

/// Directories whose code may save and restore vector state. Even this code must not name vector
/// registers.
const STATE_ROOMS: [&str; 2] = ["fpu", "cpu"];

/// Instruction prefixes, which objdump prints before the mnemonic.
const PREFIXES: [&str; 16] = [
    "addr32", "bnd", "cs", "data16", "ds", "es", "fs", "gs", "lock", "notrack", "rep", "repnz",
    "repz", "ss", "xacquire", "xrelease",
];

/// A function and its instructions, as objdump prints them.
pub(crate) struct Function {
    pub name: String,
    pub instructions: Vec<String>,
}

pub(crate) fn functions(object: &Path) -> Vec<Function> {
    let text = run(Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-M", "att"])
        .arg(object));
    let mut functions: Vec<Function> = Vec::new();
    for line in text.lines() {
        // A line `0000000000000010 <name>:` starts a function, and a line `  1f:\tret` is an
        // instruction.
        if let Some(name) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            functions.push(Function {
                name: name.1.to_owned(),
                instructions: Vec::new(),
            });
        } else if let (Some((_, text)), Some(function)) =
            (line.split_once(":\t"), functions.last_mut())
        {
            function.instructions.push(text.trim().to_owned());
        }
    }
    functions
}

/// Returns instructions that use vector registers, or x87, MMX or SSE state, in an object that must
/// not contain such instructions.
pub(crate) fn vector_use(object: &Object) -> Vec<String> {
    let room = object.source.iter().next();
    let in_state_room = STATE_ROOMS.iter().any(|r| room == Some(r.as_ref()));
    report(object, |text| names_vector_state(text, in_state_room))
}

/// Returns whether an instruction names a vector, mask, MMX or x87 register, or accesses such state
/// without naming a register. If `state_room` is true, ignores instructions that save, restore or
/// reset the state without naming a register.
pub(crate) fn names_vector_state(instruction: &str, state_room: bool) -> bool {
    let (mnemonic, operands) = parse(instruction);
    let registers = operands.split('%').skip(1).map(|after| {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric());
        &after[..end.unwrap_or(after.len())]
    });
    if registers.into_iter().any(is_vector_register) {
        return true;
    }
    let saves = mnemonic.starts_with("xsave")
        || mnemonic.starts_with("xrstor")
        || mnemonic.starts_with("fxsave")
        || mnemonic.starts_with("fxrstor")
        || ["ldmxcsr", "stmxcsr", "fninit", "fldcw", "fnstcw"].contains(&mnemonic.as_str());
    if saves {
        return !state_room;
    }
    // All x86 mnemonics that start with f belong to x87 or similar extensions.
    mnemonic.starts_with('f')
        || ["emms", "vldmxcsr", "vstmxcsr", "vzeroall", "vzeroupper"].contains(&mnemonic.as_str())
}

fn is_vector_register(name: &str) -> bool {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match kind {
        "st" => true,
        "xmm" | "ymm" | "zmm" | "tmm" | "mm" | "k" => kind.len() < name.len(),
        _ => false,
    }
}

/// Returns accesses below the stack pointer, which an interrupt on the same stack would overwrite.
pub(crate) fn red_zone_use(object: &Object) -> Vec<String> {
    report(object, |text| {
        let (mnemonic, operands) = parse(text);
        // Ignore lea, which does not access memory. Also ignore operands with an index register,
        // because their address may be above the stack pointer.
        !mnemonic.starts_with("lea")
            && operands.match_indices("(%rsp)").any(|(at, _)| {
                let displacement = operands[..at]
                    .rsplit(|c: char| c != '-' && !c.is_ascii_alphanumeric())
                    .next();
                displacement.is_some_and(|d| d.starts_with('-'))
            })
    })
}

/// Splits an instruction into its mnemonic and its operands. Drops prefixes, symbol names and
/// comments.
fn parse(instruction: &str) -> (String, String) {
    let mut text = String::new();
    let mut depth = 0;
    for c in instruction.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '#' if depth == 0 => break,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    let mut words = text
        .split_whitespace()
        .skip_while(|word| PREFIXES.contains(word) || word.starts_with("rex"));
    let mnemonic = words.next().unwrap_or_default().to_owned();
    (mnemonic, words.collect::<Vec<_>>().join(" "))
}

fn report(object: &Object, offends: impl Fn(&str) -> bool) -> Vec<String> {
    let mut violations = Vec::new();
    for function in functions(&object.path) {
        for text in function.instructions.iter().filter(|text| offends(text)) {
            let source = object.source.display();
            violations.push(format!("{source}: {}: {text}", function.name));
        }
    }
    violations
}
