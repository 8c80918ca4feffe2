//! The answer to one question.

use schemars::JsonSchema;
use serde::Serialize;

/// Whether this machine has the problem that a question is about.
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
    /// The name in rows.
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Has => "has it",
            Verdict::HasNot => "does not have it",
            Verdict::Unknown => "cannot tell",
        }
    }
}

/// The evidence for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// The files alone.
    Files,
    /// The files, and mainline's code of this version; the caveat says where a distribution may differ.
    FilesAndVersion,
}

impl Basis {
    /// The name in rows.
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
        "x-question" = "Which of the five questions does this machine have?",
        "x-commands" = ["here"]
    )
)]
pub(super) struct Row {
    /// 1: SIMD from softirqs; 2: nested sections and IPsec; 3: bytes per FPU section; 4: compiler and flags; 5: the
    /// virtio-crypto control queue.
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
    /// What the verdict rests on: `files`, or `files and version`; null if it is `cannot tell`.
    #[schemars(extend("x-role" = "main"))]
    pub basis: Option<&'static str>,
    /// What was found, in a sentence or two.
    pub finding: String,
    /// What was read, each with its file.
    pub evidence: Vec<String>,
    /// What the verdict assumes that no file shows; null if nothing.
    pub caveat: Option<String>,
    /// What to do.
    pub advice: String,
    /// What would decide, or add a measurement; null if nothing would.
    pub would_tell: Option<String>,
}
