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

/// Messages of 16 bytes a second, directly and through the simd helper: 487 and 384 MB/s on a Ryzen 9 9950X.
pub const DIRECT_TO_HELPER: f64 = 487.0 / 384.0;
/// IPsec where softirqs may use the FPU, and where cryptd does their work: some 600 and 200 Mbit/s.
pub const ESP_TO_CRYPTD: f64 = 600.0 / 200.0;
/// Kinds of hashes as the thread names them, algorithms that are of them here, and KiB that fit 30 µs on a 2.2 GHz Cascade
/// Lake.
pub const CLASSES: [(&str, &[&str], (f64, f64)); 3] = [
    (
        "sha*/sm3",
        &["sha1", "sha256", "sha512", "sm3"],
        (10.0, 20.0),
    ),
    (
        "poly*",
        &["poly1305", "polyval", "nhpoly1305"],
        (200.0, 400.0),
    ),
    ("crc*", &["crc32c", "crct10dif"], (600.0, 800.0)),
];
/// What sections of those sizes lasted instead of 30 µs.
pub const SECTIONS_US: (f64, f64) = (37.0, 102.0);
/// Cycles a byte of the best and the worst cell at -O2 that the report has.
pub const CELLS: (f64, f64) = (13.5, 124.7);
/// Cycles a byte at -O2 without further flags: the slowest compiler over the fastest of the regression.
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
            Question::SoftirqSimd => "kiln fpu --overhead",
            Question::NestedFpu => "kiln fpu --load esp",
            Question::FpuBudget => "kiln budget",
            Question::Compilers => "kiln compilers",
            Question::Ctrlq => "kiln ctrlq",
        }
    }

    /// Where the published figures are from.
    pub fn source(self) -> Option<&'static str> {
        match self {
            Question::Speed => None,
            Question::SoftirqSimd => Some("Linux 6.15, x86/fpu, Biggers; Ryzen 9 9950X"),
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
