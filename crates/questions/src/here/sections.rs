//! Answers question 3: does an FPU section last as long as the processing of its message?

use super::answer::Answer;
use super::crypto::{find_served, Driver};
use super::files::{CPUINFO, CRYPTO, RELEASE};
use super::machine::Machine;
use super::row::Basis;

/// Versions whose FPU sections were examined, either in the source or by measurement
/// (docs/FINDINGS.md, docs/BUDGETS.md).
const KNOWN: std::ops::RangeInclusive<(u32, u32)> = (6, 1)..=(7, 3);

/// Prefixes of the names of drivers that process a whole update in a single FPU section in Linux
/// 6.1 to 6.15.
const HASHES: [&str; 6] = ["sha1-", "sha224-", "sha256-", "sha384-", "sha512-", "sm3-"];
const TIERS: [&str; 4] = ["ni", "avx2", "avx", "ssse3"];
const OTHERS: [&str; 2] = ["crct10dif-pclmul", "crc32-pclmul"];
/// Algorithms whose drivers may process a whole update in one FPU section, most common first.
const SERVED: [&str; 6] = ["sha256", "sha1", "sha512", "sm3", "crct10dif", "crc32"];

/// Library functions that also process a whole update in one FPU section. Each entry contains the
/// configuration option that enables the function, the function's name, and a list of CPU features,
/// at least one of which is needed.
const LIBRARY: [(&str, &str, &[&str]); 4] = [
    ("CRYPTO_LIB_SHA256_ARCH", "sha256()", &["ssse3", "sha_ni"]),
    ("CRYPTO_LIB_SHA1_ARCH", "sha1()", &["ssse3", "sha_ni"]),
    ("CRYPTO_LIB_SHA512_ARCH", "sha512()", &["ssse3"]),
    ("CRC_T10DIF_ARCH", "crc_t10dif_update()", &["pclmulqdq"]),
];

const MEASURE: &str = "root and bpftrace: 'kiln here --live 10' measures how long this kernel's sections last, by caller";

fn is_unbounded(driver: &Driver) -> bool {
    let hash = HASHES.iter().find_map(|h| driver.driver.strip_prefix(h));
    hash.is_some_and(|tier| TIERS.contains(&tier)) || OTHERS.contains(&driver.driver.as_str())
}

/// Answers question 3: whether an FPU section lasts as long as the processing of its message.
pub(super) fn judge_sections(machine: &Machine) -> Answer {
    let drivers = machine.drivers.as_deref().unwrap_or_default();
    let names: Vec<&str> = SERVED
        .iter()
        .filter_map(|name| find_served(drivers, name))
        .filter(|d| is_unbounded(d))
        .map(|d| d.driver.as_str())
        .collect();
    let functions = find_functions(machine);
    let release = machine.release.as_deref().unwrap_or("unknown");
    let mut evidence = vec![format!("{}: {release}", RELEASE.pattern)];
    if !names.is_empty() {
        evidence.push(format!("{}: {}", CRYPTO.pattern, names.join(", ")));
    }
    evidence.extend(functions.iter().map(|(_, read)| read.clone()));
    evidence.extend(told_by_preemption(machine));
    let calls: Vec<&str> = match names.is_empty() {
        false => names,
        true => functions.iter().map(|(name, _)| *name).collect(),
    };
    let known = machine.version.is_some_and(|v| KNOWN.contains(&v));
    let answer = match calls.first() {
        None => nothing_found(machine),
        Some(first) if known => Answer::has(
            Basis::FilesAndVersion,
            format!(
                "{} process{} a message of any length in one FPU section, with {} off for as long as it takes",
                list(&calls),
                if calls.len() == 1 { "es" } else { "" },
                what_is_off(machine)
            ),
        )
        .caveat(format!(
            "that {first} has this code was read. That its sections have no bound is what mainline's source does from \
             6.1 to 7.3; a distribution may cut them, and how long they last here was not measured"
        ))
        .advice(
            "hash long messages in pieces: 'kiln budget' calibrates the bytes per section for this CPU and a time; \
             'kiln budget --tree DIR' names the functions of your tree",
        ),
        Some(_) => Answer::unknown(format!(
            "{} may process a message of any length in one FPU section: mainline's does from 6.1 to 7.3, and this is {}",
            list(&calls),
            machine.kernel()
        ))
        .advice("'kiln budget --tree DIR' measures the sections of a source tree"),
    };
    answer.evidence(evidence).would_tell(MEASURE)
}

/// Returns the answer for a machine on which no long sections were found. Long sections are ruled
/// out only if the CPU has none of the instructions that code with long sections uses.
fn nothing_found(machine: &Machine) -> Answer {
    let needed = ["ssse3", "sha_ni", "pclmulqdq"];
    if machine.has_cpu_flag(&needed) == Some(false) {
        return Answer::has_not(
            Basis::Files,
            "this CPU has none of the instructions that hashes and CRCs open FPU sections for",
        )
        .evidence([format!("{}: no {}", CPUINFO.pattern, needed.join(", no "))]);
    }
    Answer::unknown(
        "no driver or library function was found that is known to process a message of any length in one section; one \
         may be in a module that is not loaded, such as sha256_ssse3",
    )
    .evidence(machine.drivers.as_ref().err().map(|why| format!("{} {}", CRYPTO.pattern, why.words())))
    .evidence(machine.config.as_ref().ok().map(|c| format!("{}: {}", c.path, c.words("CRYPTO_SHA256_SSSE3"))))
}

/// Returns the library functions that have code for this CPU, with the evidence for each.
fn find_functions(machine: &Machine) -> Vec<(&'static str, String)> {
    let Ok(config) = &machine.config else {
        return Vec::new();
    };
    let usable = LIBRARY.iter().filter(|(option, _, flags)| {
        config.is_set(option) && machine.has_cpu_flag(flags) == Some(true)
    });
    let read = |option: &str| format!("{}: {}", config.path, config.words(option));
    usable
        .map(|(option, name, _)| (*name, read(option)))
        .collect()
}

/// Returns what an FPU section disables: preemption and, if mainline Linux does so in the machine's
/// version, softirqs.
fn what_is_off(machine: &Machine) -> &'static str {
    match machine.version {
        Some(version) if version >= (6, 15) => "preemption and softirqs",
        _ => "preemption",
    }
}

fn told_by_preemption(machine: &Machine) -> Option<String> {
    let config = machine.config.as_ref().ok()?;
    let models = [
        "PREEMPT_RT",
        "PREEMPT_LAZY",
        "PREEMPT",
        "PREEMPT_VOLUNTARY",
        "PREEMPT_NONE",
    ];
    let model = models.into_iter().find(|m| config.is_set(m))?;
    Some(format!("{}: {}", config.path, config.words(model)))
}

/// Joins names with commas and `and`: `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
