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
    /// What the question is about, in a few words.
    #[schemars(extend("x-role" = "condition"))]
    pub about: &'static str,
    /// The kernel's release; null if it cannot be read.
    #[schemars(extend("x-role" = "condition"))]
    pub kernel: Option<String>,
    /// `has it`, `does not have it` or `cannot tell`.
    #[schemars(extend("x-role" = "main"))]
    pub verdict: Verdict,
    /// What the verdict is based on: `files`, or `files and version`; null if the verdict is
    /// `cannot tell`.
    #[schemars(extend("x-role" = "main"))]
    pub basis: Option<&'static str>,
    /// What was found, in a sentence or two.
    pub finding: String,
    /// The facts that were read, each with the name of the file that contains it.
    pub evidence: Vec<String>,
    /// An assumption behind the verdict that no file confirms; null if there is none.
    pub caveat: Option<String>,
    /// What the user should do.
    pub advice: String,
    /// A step that would decide the question, or that would add a measurement to the verdict; null
    /// if no such step exists.
    pub would_tell: Option<String>,
}
