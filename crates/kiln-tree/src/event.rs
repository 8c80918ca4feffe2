//! The protocol between a hosted tree and the process that started it: a JSON object a line (`tree/services/tell.c`).

use serde::{Deserialize, Serialize};

/// A line of the protocol.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The tree's alternatives were applied.
    Alternatives {
        applied: u32,
        /// Those that a process cannot have.
        left: u32,
    },
    /// An initcall failed.
    Initcall {
        address: u64,
        /// What it returned.
        result: i32,
    },
    /// A test ended.
    Test {
        driver: String,
        /// What it implements.
        alg: String,
        /// 0, or what was wrong.
        result: i32,
        /// How long it took.
        us: u64,
        /// Whether the test got hold of the driver.
        reached: bool,
    },
    /// There is a KUnit suite.
    Suite { name: String, cases: u32 },
    /// The tree printed something.
    Log {
        /// What it printed.
        text: String,
    },
    /// The tree warned.
    Warn {
        /// The instruction that warns.
        address: u64,
        /// Where in the source.
        file: String,
        line: u32,
    },
    /// An algorithm is registered.
    Alg(Alg),
    /// The process ended early.
    Fault {
        what: String,
        address: u64,
        /// Whose test ran; empty: none.
        driver: String,
        /// What an oracle called; empty: none was at work.
        #[serde(default)]
        case: String,
        /// Return addresses, the innermost first.
        #[serde(default)]
        trace: Vec<u64>,
    },
    /// There is a driver for the oracles.
    Subject(Subject),
    /// A template or driver is there that the oracles do not examine.
    Unreached { name: String, why: String },
    /// A driver broke the rule of an oracle.
    Violation(Violation),
    /// A driver was examined by an oracle.
    Examined(Examined),
    /// What was asked for begins now.
    Started,
    /// What the CPU met while the tree tested itself.
    Interrupts {
        irqs: u64,
        /// Interrupts that came during a section.
        in_section: u64,
        sections: u64,
    },
    /// A driver was tried in all contexts.
    Contexts(Contexts),
    /// A function was interrupted at every instruction in a context.
    Proof(Proof),
    /// A function of the library was checked.
    Checked(Checked),
    /// It came to the end.
    Done { initcalls: u64 },
}

/// A driver that oracles examine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// What the crypto API is asked for.
    pub name: String,
    /// What it implements.
    pub alg: String,
    pub driver: String,
    /// The number of its type in `enum kiln_type`.
    pub kind: u32,
    /// May answer later.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// For the crypto API's own use.
    pub internal: bool,
}

/// A rule of an oracle that a driver broke.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub oracle: String,
    /// What the crypto API was asked for.
    pub driver: String,
    pub rule: String,
    pub what: String,
    /// What was being called.
    pub case: String,
    /// Return addresses, the innermost first.
    pub trace: Vec<u64>,
}

/// What an oracle did with a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    /// What the crypto API was asked for.
    pub name: String,
    pub cases: u64,
    /// Cases that the driver refuses in every form.
    pub refused: u64,
    /// Why it could not be examined, or 0.
    pub error: i32,
    /// The key, then a word for each group of cases: equal words, equal answers; 0 is not compared.
    pub answers: Vec<u64>,
    /// The CPU features whose instructions it has in its sections, where an oracle looked.
    #[serde(default)]
    pub features: Vec<String>,
}

/// How a driver did in a task, in a task with softirqs off, and in softirqs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    pub driver: String,
    /// What computed the right answers.
    pub generic: String,
    /// Why it could not be tried, or 0.
    pub error: i32,
    /// Why there are no right answers, or 0.
    pub generic_error: i32,
    pub cases: [u64; 3],
    /// Wrong answers among them.
    pub wrong: [u64; 3],
    /// Requests of softirqs for which there was no room.
    pub refused: u64,
}

/// Where a function is stepped.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProveContext {
    #[default]
    Task,
    Softirq,
    Hardirq,
}

impl ProveContext {
    /// In the order of `enum kiln_prove_context`.
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

/// A rule that every function that opens FPU sections must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Answers are right.
    Wrong,
    /// Interrupts leave an open section's vector registers as they were.
    Registers,
    /// A section begins only where none is open.
    Nested,
    /// Vector registers are used in sections only.
    Outside,
    /// Functions preserve the registers that the ABI names.
    Preserved,
    /// A section ends before its function returns.
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

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub rule: Rule,
    /// The function, and the instruction where one is known.
    pub place: String,
    pub what: String,
    /// The call, and the instruction in it, at which a replay shows it; none where every run does.
    pub at: Option<(u64, u64)>,
}

/// What was found about a function in a context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The case of the suite that calls the function.
    pub case: String,
    pub context: ProveContext,
    /// Calls that were stepped.
    pub calls: u64,
    /// Distinct instructions of these calls.
    pub addresses: u64,
    /// How many of them were interrupted.
    pub points: u64,
    pub injected: u64,
    /// Interrupts that came while interrupts were off.
    pub masked: u64,
    /// Answers that were checked, those of interrupts included.
    pub answers: u64,
    /// Answers of softirqs that the interrupts raised.
    pub in_softirqs: u64,
    pub wrong: u64,
    /// Of the instructions of uninterrupted calls; 0 if these were not stepped.
    #[serde(default)]
    pub digest: u64,
    /// The digest was known, so that the function was not interrupted.
    #[serde(default)]
    pub same: bool,
    /// How often an instruction was not interrupted because too many others were.
    #[serde(default)]
    pub dropped: u64,
    /// Functions that ran in sections.
    pub functions: Vec<String>,
    pub findings: Vec<Finding>,
}

impl Proof {
    /// As a line of the protocol.
    pub(crate) fn line(&self) -> String {
        let fields = serde_json::to_string(self).expect("plain values");
        format!("{{\"event\":\"proof\",{}\n", &fields[1..])
    }
}

/// A function that the tree's library exports, called on messages of many lengths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    pub function: String,
    /// The algorithm's name.
    pub alg: String,
    /// Such as `encrypt`.
    pub op: String,
    pub cases: u64,
    /// Cases with a wrong answer.
    pub failed: u64,
    /// What was wrong first.
    pub reason: Option<String>,
}

/// An algorithm as registered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Alg {
    /// Such as `xts(aes)`.
    pub name: String,
    /// Such as `xts-aes-vaes-avx2`.
    pub driver: String,
    /// Such as `skcipher`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The highest is chosen.
    pub priority: i32,
    /// May answer later.
    #[serde(rename = "async")]
    pub is_async: bool,
    /// For the crypto API's own use.
    pub internal: bool,
    /// Whether the tree marks it as tested.
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
