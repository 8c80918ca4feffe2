//! The event protocol between a hosted tree and its parent process: one JSON object per line
//! (`tree/services/tell.c`).

use serde::{Deserialize, Serialize};

/// An event that the child reports.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The tree has applied its alternatives.
    Alternatives {
        applied: u32,
        /// Number of alternatives that were not applied because their instructions do not work in a
        /// user process.
        left: u32,
    },
    /// An initcall returned an error.
    Initcall {
        address: u64,
        /// The initcall's return value.
        result: i32,
    },
    /// A self-test finished.
    Test {
        driver: String,
        /// Name of the driver's algorithm.
        alg: String,
        /// 0 if the test passed, otherwise the errno that it returned.
        result: i32,
        /// Duration in microseconds.
        us: u64,
        /// Whether the test got far enough to allocate the driver.
        reached: bool,
    },
    /// A KUnit suite in the tree, and the number of cases in that suite.
    Suite { name: String, cases: u32 },
    /// A function in the tree's library that can be single-stepped.
    Function { name: String },
    /// The tree printed a message.
    Log { text: String },
    /// The tree raised a warning.
    Warn {
        /// Address of the instruction that raised the warning.
        address: u64,
        /// The source file that contains that instruction.
        file: String,
        line: u32,
    },
    /// An algorithm that is registered in the tree.
    Alg(Alg),
    /// The tree's code crashed.
    Fault {
        what: String,
        address: u64,
        /// Driver under test; empty if no test was running.
        driver: String,
        /// The oracle's case or, if no oracle was running, the request being made. May be empty.
        #[serde(default)]
        case: String,
        /// Return addresses, innermost first.
        #[serde(default)]
        trace: Vec<u64>,
    },
    /// A driver that the oracles can examine.
    Subject(Subject),
    /// A template or driver that the oracles cannot examine, and the reason why.
    Unreached { name: String, why: String },
    /// A driver violated an oracle's rule.
    Violation(Violation),
    /// An oracle has finished examining a driver.
    Examined(Examined),
    /// The requested work is about to begin.
    Started,
    /// Counts of interrupts and FPU sections during the tree's self-tests.
    Interrupts {
        irqs: u64,
        /// Number of interrupts that arrived during an FPU section.
        in_section: u64,
        sections: u64,
    },
    /// Results of one driver in all contexts.
    Contexts(Contexts),
    /// Results of single-stepping one function in one context.
    Proof(Proof),
    /// Results of checking one library function.
    Checked(Checked),
    /// The process finished normally.
    Done { initcalls: u64 },
}

/// A driver for the oracles to examine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The name under which the driver is allocated.
    pub name: String,
    /// Name of the driver's algorithm.
    pub alg: String,
    pub driver: String,
    /// Number of the driver's type in `enum kiln_type`.
    pub kind: u32,
    /// Whether a request may complete after the call has returned.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// Whether the driver is internal: only other drivers of the crypto API may use it.
    pub internal: bool,
}

/// A driver's violation of an oracle's rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub oracle: String,
    /// The name under which the driver was allocated.
    pub driver: String,
    pub rule: String,
    pub what: String,
    /// Description of the request during which the rule was violated.
    pub case: String,
    /// Return addresses, innermost first.
    pub trace: Vec<u64>,
}

/// The result of one oracle for one driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    /// The name under which the driver was allocated.
    pub name: String,
    pub cases: u64,
    /// Number of cases that the driver rejects regardless of the request's memory layout.
    pub refused: u64,
    /// 0 if the driver was examined, otherwise an errno.
    pub error: i32,
    /// A 64-bit hash of the key, followed by a 64-bit hash of the answers for each group of cases.
    /// A hash of 0 means that the group is not compared with other drivers.
    pub answers: Vec<u64>,
    /// CPU features whose instructions the driver executes in FPU sections. Empty if the oracle
    /// does not check features.
    #[serde(default)]
    pub features: Vec<String>,
}

/// Results of running a driver in a task, in a task with softirqs disabled, and in softirqs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    pub driver: String,
    /// The driver that computed the expected answers.
    pub generic: String,
    /// 0 if the driver could be run, otherwise the errno.
    pub error: i32,
    /// 0 if the expected answers could be computed, otherwise the errno.
    pub generic_error: i32,
    pub cases: [u64; 3],
    /// Number of wrong answers in each context.
    pub wrong: [u64; 3],
    /// Number of softirq requests that failed with -ENOSPC.
    pub refused: u64,
}

/// The context in which a function is single-stepped.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProveContext {
    #[default]
    Task,
    Softirq,
    Hardirq,
}

impl ProveContext {
    /// All contexts, in the order of `enum kiln_prove_context`.
    pub const ALL: [ProveContext; 3] = [
        ProveContext::Task,
        ProveContext::Softirq,
        ProveContext::Hardirq,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ProveContext::Task => "task",
            ProveContext::Softirq => "softirq",
            ProveContext::Hardirq => "hardirq",
        }
    }
}

/// A rule that every function that opens FPU sections must follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Every answer must be correct.
    Wrong,
    /// An interrupt must preserve the vector registers of an open section.
    Registers,
    /// Sections must not be nested.
    Nested,
    /// Vector registers may be used only in sections.
    Outside,
    /// Functions must preserve the ABI's callee-saved registers.
    Preserved,
    /// A function must end its section before it returns.
    LeftOpen,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Wrong => "wrong",
            Rule::Registers => "registers",
            Rule::Nested => "nested",
            Rule::Outside => "outside",
            Rule::Preserved => "preserved",
            Rule::LeftOpen => "left-open",
        }
    }
}

/// A violation of one of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub rule: Rule,
    /// The function that violated the rule and, if known, the instruction in that function.
    pub place: String,
    pub what: String,
    /// The last point that a replay must interrupt to reproduce the violation: the number of the
    /// call, and the number of the instruction within that call. `None` if every run reproduces
    /// the violation.
    pub at: Option<(u64, u64)>,
}

/// The result of stepping a function in one context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The KUnit case that calls the function.
    pub case: String,
    pub context: ProveContext,
    /// Number of calls that were single-stepped.
    pub calls: u64,
    /// Number of distinct instruction addresses in those calls.
    pub addresses: u64,
    /// Number of these addresses that were interrupted.
    pub points: u64,
    pub injected: u64,
    /// Number of interrupts that were delayed because interrupts were disabled.
    pub masked: u64,
    /// Number of answers checked, including answers from calls made in interrupts.
    pub answers: u64,
    /// Number of answers checked in softirqs that the injected interrupts raised.
    pub in_softirqs: u64,
    pub wrong: u64,
    /// Digest of the instructions that uninterrupted calls execute; 0 if such calls were not
    /// stepped.
    #[serde(default)]
    pub digest: u64,
    /// True if the function was left uninterrupted because its digest was already known.
    #[serde(default)]
    pub same: bool,
    /// Number of times that an instruction was not interrupted because the table of interrupted
    /// addresses was full.
    #[serde(default)]
    pub dropped: u64,
    /// Names of the functions that were executed in FPU sections.
    pub functions: Vec<String>,
    pub findings: Vec<Finding>,
}

impl Proof {
    /// Formats the result as a line of the event protocol.
    pub(crate) fn line(&self) -> String {
        let fields = serde_json::to_string(self).expect("plain values");
        format!("{{\"event\":\"proof\",{}\n", &fields[1..])
    }
}

/// The result of checking an exported library function with messages of many lengths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    pub function: String,
    /// Name of the algorithm in the crypto API.
    pub alg: String,
    /// Operation, such as `encrypt`.
    pub op: String,
    pub cases: u64,
    /// Number of cases in which the answer was wrong.
    pub failed: u64,
    /// Description of the first wrong answer.
    pub reason: Option<String>,
}

/// A registered algorithm.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Alg {
    /// Algorithm, such as `xts(aes)`.
    pub name: String,
    /// Driver name, such as `xts-aes-vaes-avx2`.
    pub driver: String,
    /// Type in the crypto API, such as `skcipher`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The driver's priority. Among the drivers for an algorithm, the crypto API chooses the one
    /// with the highest priority.
    pub priority: i32,
    /// Whether a request may complete after the call has returned.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// Whether the driver is internal: only other drivers of the crypto API may use it.
    pub internal: bool,
    /// Whether the tree has marked the driver as tested.
    pub tested: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocols_lines_are_understood() {
        let parse = |line: &str| serde_json::from_str::<Event>(line).unwrap();
        assert_eq!(
            parse(
                r#"{"event":"fault","what":"BUG at a.c:3","address":4198400,"driver":"md4-generic"}"#
            ),
            Event::Fault {
                what: "BUG at a.c:3".into(),
                address: 4_198_400,
                driver: "md4-generic".into(),
                case: String::new(),
                trace: Vec::new(),
            }
        );
        let line = r#"{"event":"alg","name":"xts(aes)","driver":"d","type":"skcipher","priority":-1,"async":true,"internal":false,"tested":true}"#;
        assert!(matches!(parse(line), Event::Alg(alg) if alg.is_async && alg.priority == -1));
        assert_eq!(
            parse(r#"{"event":"done","initcalls":103}"#),
            Event::Done { initcalls: 103 }
        );
    }
}
