//! A question, who asked it, and what was published.

use std::str::FromStr;

use crate::algorithm::unknown;
use crate::Error;

/// What a survey answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// How fast are the ciphers?
    Speed,
    /// How can SIMD crypto be used from softirqs, and what does each way cost?
    SoftirqSimd,
    /// Is nested use of the FPU safe and worth it?
    NestedFpu,
    /// How many bytes may one FPU section hold?
    FpuBudget,
    /// Which compiler ruins which cipher?
    Compilers,
    /// How should a control queue wait?
    Ctrlq,
}

/// AES-XTS with messages of 16 bytes on a Ryzen 9 9950X, MB/s. In Linux commit d02198550423: through the simd helper and
/// directly, both with `legacy` sections.
pub const HELPER_LEGACY: f64 = 384.0;
/// As above.
pub const DIRECT_LEGACY: f64 = 487.0;
/// In mail 20250305203018.GB19889 of its thread: directly, with softirqs off as merged, and with nested sections that save
/// into a per-CPU buffer.
pub const DIRECT_BH_OFF: f64 = 461.0;
/// As above.
pub const DIRECT_NESTED: f64 = 480.0;
/// The three kinds of hashes in the thread of 2022, slowest first, by Kiln's algorithms.
pub const CLASSES: [&[&str]; 3] = [
    &["sha1", "sha256", "sha512", "sm3"],
    &["poly1305", "polyval", "nhpoly1305", "ghash"],
    &["crc32c", "crct10dif"],
];
/// Cycles per byte of the best and the worst cell at -O2 in the report.
pub const CELLS: (f64, f64) = (13.5, 124.7);
/// Cycles per byte at -O2 without further flags: gcc 7.2 over gcc 7.1, on a Threadripper.
pub const COMPILERS: f64 = 16.8 / 13.5;

impl Question {
    /// In the order they are asked.
    pub const ALL: [Question; 6] = [
        Question::Speed,
        Question::SoftirqSimd,
        Question::NestedFpu,
        Question::FpuBudget,
        Question::Compilers,
        Question::Ctrlq,
    ];

    /// As rows and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Question::Speed => "speed",
            Question::SoftirqSimd => "softirq-simd",
            Question::NestedFpu => "nested-fpu",
            Question::FpuBudget => "fpu-budget",
            Question::Compilers => "compilers",
            Question::Ctrlq => "ctrlq",
        }
    }

    /// The question itself.
    pub fn title(self) -> &'static str {
        match self {
            Question::Speed => "How fast are the ciphers?",
            Question::SoftirqSimd => "What does SIMD crypto in softirqs cost?",
            Question::NestedFpu => "Is nested use of the FPU safe, and worth it?",
            Question::FpuBudget => "How many bytes may one FPU section hold?",
            Question::Compilers => "Which compiler ruins which cipher?",
            Question::Ctrlq => "How should a control queue wait?",
        }
    }

    /// The command that digs deeper.
    pub fn command(self) -> &'static str {
        match self {
            Question::Speed => "kiln speed",
            Question::SoftirqSimd => "kiln fpu overhead",
            Question::NestedFpu => "kiln ipsec",
            Question::FpuBudget => "kiln budget",
            Question::Compilers => "kiln compilers",
            Question::Ctrlq => "kiln ctrlq",
        }
    }

    /// Where the published figures are from.
    pub fn source(self) -> Option<&'static str> {
        match self {
            Question::Speed => None,
            Question::SoftirqSimd => Some(
                "Biggers, 2025, Ryzen 9 9950X: 384 and 487 MB/s in Linux commit d02198550423, 461 and 480 MB/s in mail \
                 20250305203018.GB19889",
            ),
            Question::NestedFpu => Some("x86/fpu: nested in-kernel use, Liang, 2024"),
            Question::FpuBudget => {
                Some("crypto: x86 - limit FPU preemption, Elliott, 2022; Cascade Lake")
            }
            Question::Compilers => Some("gcc bug 83651, Bergmann, 2018; Threadripper"),
            Question::Ctrlq => Some("Linux 977231e8d4, Pi, 2022; Platinum 8260"),
        }
    }
}

impl FromStr for Question {
    type Err = Error;

    fn from_str(name: &str) -> Result<Question, Error> {
        let found = Question::ALL.into_iter().find(|q| q.name() == name);
        found.ok_or_else(|| unknown("question", name, &Question::ALL.map(Question::name)))
    }
}
