//! Answers question 4: do the kernel's compiler and flags make C code slow?

use super::answer::Answer;
use super::config::Config;
use super::files::VERSION;
use super::kernel::Compiler;
use super::machine::Machine;
use super::row::Basis;

/// UBSAN checks that cost little in current trees: 2% to 3% with gcc at -O2, and at most 2% with
/// clang (docs/FINDINGS.md).
const CHEAP: [&str; 2] = ["UBSAN_BOUNDS", "UBSAN_SHIFT"];
const OTHERS: [&str; 5] = [
    "UBSAN_ALIGNMENT",
    "UBSAN_BOOL",
    "UBSAN_DIV_ZERO",
    "UBSAN_ENUM",
    "UBSAN_UNREACHABLE",
];
const SANITIZERS: [&str; 3] = ["KASAN", "KCSAN", "KMSAN"];

/// Answers question 4: whether the kernel's compiler or its flags make C code slow.
pub(super) fn judge_compiler(machine: &Machine) -> Answer {
    let Some((words, path)) = &machine.compiler else {
        return Answer::unknown("the compiler that built this kernel cannot be read").evidence([
            format!("{} names no compiler that is known", VERSION.pattern),
        ]);
    };
    let read = format!("{path}: {words}");
    let Some(compiler) = Compiler::parse(words) else {
        return Answer::unknown("the compiler that built this kernel is not one that Kiln knows")
            .evidence([read]);
    };
    let name = format!("{} {}", compiler.name, compiler.major);
    let tell = format!(
        "'kiln compilers --cc {}-{}' times it on this CPU",
        compiler.name, compiler.major
    );
    let config = match &machine.config {
        Ok(config) => config,
        Err(why) => {
            return Answer::unknown(format!(
                "{name} built this kernel; with which checks cannot be told, since its configuration {}",
                why.words()
            ))
            .evidence([read])
            .would_tell("the configuration: /boot/config-$(uname -r), which some distributions let only root read");
        }
    };
    let flags = find_flags(config);
    let evidence = || {
        let options = flags
            .iter()
            .map(|o| format!("{}: {}", config.path, config.words(o)));
        [read.clone()]
            .into_iter()
            .chain(options)
            .collect::<Vec<_>>()
    };
    let set = |options: &[&'static str]| -> Vec<&'static str> {
        options
            .iter()
            .copied()
            .filter(|o| config.is_set(o))
            .collect()
    };
    let answer = if let [sanitizer, ..] = set(&SANITIZERS)[..] {
        Answer::unknown(format!(
            "{sanitizer} checks every access of C code: its cost was not measured"
        ))
        .would_tell(tell)
    } else if config.is_set("UBSAN_OBJECT_SIZE") && compiler.name == "gcc" {
        Answer::has(
            Basis::Files,
            "UBSAN's check of object sizes is on: with gcc 11 and 12 it costs the C code of AES 1.9 to 2.4 times its cycles",
        )
        .caveat("measured with Kiln's sources on another machine (docs/FINDINGS.md), not in this kernel")
        .advice("switch CONFIG_UBSAN_OBJECT_SIZE off")
    } else if compiler.is_reported() {
        Answer::has(
            Basis::Files,
            "gcc 7.2 was reported to make the C code of AES 20 % slower than gcc 7.1 does (gcc bug 83651)",
        )
        .caveat("reported in 2018, not measured here")
        .advice("build with another compiler")
        .would_tell(tell)
    } else if !compiler.is_timed() {
        Answer::unknown(format!(
            "{name} built this kernel: Kiln has not timed its code"
        ))
        .would_tell(tell)
    } else if !set(&OTHERS).is_empty() {
        Answer::unknown(format!(
            "{name} shows no regression, but {} checks C code, whose cost was not measured",
            set(&OTHERS).join(", ")
        ))
        .would_tell(tell)
    } else {
        let cheap = set(&CHEAP);
        let checks = match cheap.as_slice() {
            [] => "no UBSAN".to_owned(),
            cheap => format!("{}, which cost at most 3 %", cheap.join(" and ")),
        };
        Answer::has_not(
            Basis::Files,
            format!("{name} built this kernel with {checks}: its code for AES is within 4 % of the best compiler's"),
        )
        .caveat(
            "timed with Kiln's own C code for AES on a Zen 4 (docs/FINDINGS.md); the kernel's other C code was not compared",
        )
    };
    answer.evidence(evidence())
}

/// Returns the names of the options that are set. `UBSAN` is also returned if it is not set, so
/// that the evidence reports its absence.
fn find_flags(config: &Config) -> Vec<&'static str> {
    let all = [
        "CC_OPTIMIZE_FOR_PERFORMANCE",
        "CC_OPTIMIZE_FOR_SIZE",
        "UBSAN_OBJECT_SIZE",
    ];
    let all = all.into_iter().chain(CHEAP).chain(OTHERS).chain(SANITIZERS);
    let mut set: Vec<&'static str> = all.filter(|o| config.is_set(o)).collect();
    if !config.is_set("UBSAN") {
        set.push("UBSAN");
    }
    set
}
