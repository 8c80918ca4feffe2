//! The rows that `kiln here` outputs. Each row contains the answer to one question.

use schemars::JsonSchema;
use serde::Serialize;

/// Whether this machine has the problem behind a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum Verdict {
    #[serde(rename = "has it")]
    Has,
    #[serde(rename = "does not have it")]
    HasNot,
    #[serde(rename = "cannot tell")]
    Unknown,
}

impl Verdict {
    /// Returns the verdict's name as used in rows.
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Has => "has it",
            Verdict::HasNot => "does not have it",
            Verdict::Unknown => "cannot tell",
        }
    }
}

/// What a verdict is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// Based only on files of this machine.
    Files,
    /// Based on files of this machine and on mainline's code for the same version. The caveat
    /// states what a distribution may have changed.
    FilesAndVersion,
}

impl Basis {
    /// Returns the name of the basis as used in rows.
    pub(super) fn words(self) -> &'static str {
        match self {
            Basis::Files => "files",
            Basis::FilesAndVersion => "files and version",
        }
    }
}

/// One of the five questions, answered for one machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "here",
    title = "This machine",
    extend(
        "x-question" = "Does this machine have one of the five problems?",
        "x-commands" = ["here"]
    )
)]
pub(super) struct Row {
    /// Number of the question. 1: SIMD from softirqs; 2: nested sections and IPsec; 3: bytes per
    /// FPU section; 4: compiler and flags; 5: the virtio-crypto control queue.
    #[schemars(extend("x-role" = "key"))]
    pub question: u8,
    /// Topic of the question, in a few words.
    #[schemars(extend("x-role" = "condition"))]
    pub about: &'static str,
    /// Release of the kernel. Null if it cannot be read.
    #[schemars(extend("x-role" = "condition"))]
    pub kernel: Option<String>,
    /// Whether this machine has the problem that the question is about: `has it`, `does not have
    /// it` or `cannot tell`.
    #[schemars(extend("x-role" = "main"))]
    pub verdict: Verdict,
    /// What the verdict is based on: `files` (only files of this machine) or `files and version`
    /// (also mainline's code for the same kernel version). Null if the verdict is `cannot tell`.
    #[schemars(extend("x-role" = "main"))]
    pub basis: Option<&'static str>,
    /// What was found, in a sentence or two.
    pub finding: String,
    /// Facts found on this machine, each with the name of the file that contains it.
    pub evidence: Vec<String>,
    /// Limitation of the verdict, such as an assumption that no file confirms. Null if the verdict
    /// has no known limitation.
    pub caveat: Option<String>,
    /// What the user should do.
    pub advice: String,
    /// What would decide the question or support the verdict with a measurement, such as a command
    /// to run or a file to read. Null if no such step is suggested.
    pub would_tell: Option<String>,
}
