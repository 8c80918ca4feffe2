//! Inspects and runs SIMD code to check that it traps outside an FPU section.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use kiln_kbuild::{Built, Object};

use crate::disassembly::functions;
use crate::subjects::{link_with, loud, run};
use crate::symbols::symbols;

/// The signal that a failing check raises (signal(7)).
const SIGILL: i32 = 4;

/// Message lengths in bytes: one block, one block and one byte (ciphertext stealing), a few blocks,
/// and enough for long loops.
const LENGTHS: [&str; 4] = ["16", "17", "100", "4096"];

/// Returns global functions of a SIMD object that contain no trap. In a build with checks, each
/// global function must check whether a section is open, and trap if no section is open.
pub(crate) fn unchecked_entry_points(object: &Object) -> Vec<String> {
    let functions = functions(&object.path);
    let traps = |name: &str| {
        // gcc moves unlikely code, such as the trap, into a function with this name.
        let cold = format!("{name}.cold");
        functions
            .iter()
            .filter(|f| f.name == name || f.name == cold)
            .flat_map(|f| &f.instructions)
            .any(|text| text.starts_with("ud2"))
    };
    symbols(&object.path)
        .into_iter()
        .filter(|s| s.function && s.global && s.defined && !traps(&s.name))
        .map(|s| {
            let source = object.source.display();
            format!("{source}: {} does not check for an FPU section", s.name)
        })
        .collect()
}

/// An implementation, as `no_section.c` lists it.
pub(crate) struct Row {
    pub index: String,
    pub driver: String,
    pub tier: usize,
    /// Feature that the implementation needs but this machine lacks, if any.
    pub lacks: Option<String>,
}

impl Row {
    /// Returns whether the implementation uses SIMD and runs on this machine.
    pub(crate) fn testable(&self) -> bool {
        self.tier != 0 && self.lacks.is_none()
    }
}

/// Links `no_section.c` with a build of `kernel/`. Returns the program's path.
pub(crate) fn link(built: &Built) -> PathBuf {
    link_with(built, "offenders/no_section.c")
}

/// Returns the implementations that the program lists.
pub(crate) fn list(program: &Path) -> Vec<Row> {
    let text = run(Command::new(program).arg("list"));
    text.lines()
        .map(|line| match *line.split('\t').collect::<Vec<_>>() {
            [index, driver, tier, lacks] => Row {
                index: index.to_owned(),
                driver: driver.to_owned(),
                tier: tier.parse().expect("a tier is a number"),
                lacks: Some(lacks.to_owned()).filter(|l| !l.is_empty()),
            },
            _ => panic!("no_section.c listed {line:?}"),
        })
        .collect()
}

/// Calls every SIMD implementation that this CPU supports. Outside a section, the program must die
/// with SIGILL; inside a section, the call must return. With `tell`, prints what was skipped.
pub(crate) fn violations(program: &Path, tell: bool) -> Vec<String> {
    let mut violations = Vec::new();
    let rows = list(program);
    for row in rows.iter().filter(|r| r.tier != 0) {
        if let Some(lacks) = &row.lacks {
            if tell {
                loud(&format!("law 3: SKIPPED {}: no {lacks} here", row.driver));
            }
            continue;
        }
        for op in ["encrypt", "decrypt"] {
            for len in LENGTHS {
                let call = |place| status(program, [place, op, &row.index, len]);
                let what = format!("{} {op} of {len} bytes", row.driver);
                let outside = call("outside");
                if outside.signal() != Some(SIGILL) {
                    violations.push(format!("{what} outside a section: {outside}, not SIGILL"));
                }
                let inside = call("inside");
                if !inside.success() {
                    violations.push(format!("{what} inside a section: {inside}"));
                }
            }
        }
    }
    if tell && !rows.iter().any(Row::testable) {
        loud("law 3: SKIPPED: this CPU runs no SIMD tier at all");
    }
    violations
}

fn status(program: &Path, arguments: [&str; 4]) -> ExitStatus {
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()))
        .status
}
