//! What a kernel's build needs of the machine; all that is missing is named at once. Running one of them.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use kiln_kbuild::{reason, Compiler};

use crate::Error;

/// Program, and Debian's package that has it.
const PROGRAMS: [(&str, &str); 10] = [
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("ld", "binutils"),
    ("ar", "binutils"),
    ("nm", "binutils"),
    ("objcopy", "binutils"),
    // The kernel builds its own tools with it, whatever compiles the kernel.
    ("gcc", "gcc"),
];

/// Headers that the kernel's own tools include, likewise.
const HEADERS: [(&str, &str); 2] = [("gelf.h", "libelf-dev"), ("stdlib.h", "libc6-dev")];

/// Checks for all of them.
pub fn check(compiler: &Compiler) -> Result<(), Error> {
    let missing = missing(&|program| on_path(program), &|header| {
        has_header(&compiler.path, header)
    });
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Lacks(complaint(&missing)))
}

/// Runs a compiler or a tool of binutils to its end. If it refuses: the line in which it says why.
///
/// # Errors
/// It cannot be run: its package is named.
pub fn run(command: &mut Command, package: &str) -> Result<Result<(), String>, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::Lacks(format!("{name}: {e}: apt-get install {package}")))?;
    if output.status.success() {
        return Ok(Ok(()));
    }
    Ok(Err(reason(&String::from_utf8_lossy(&output.stderr))))
}

fn missing(
    program: &dyn Fn(&str) -> bool,
    header: &dyn Fn(&str) -> bool,
) -> Vec<(&'static str, &'static str)> {
    let programs = PROGRAMS.iter().filter(|(name, _)| !program(name));
    let headers = HEADERS.iter().filter(|(name, _)| !header(name));
    programs.chain(headers).copied().collect()
}

fn complaint(missing: &[(&str, &str)]) -> String {
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    format!(
        "building a kernel tree needs {}: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    )
}

fn on_path(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn has_header(compiler: &Path, header: &str) -> bool {
    Command::new(compiler)
        .args([
            "-E",
            "-include",
            header,
            "-x",
            "c",
            "/dev/null",
            "-o",
            "/dev/null",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let found = missing(
            &|p| p != "flex" && p != "bc" && p != "nm" && p != "ar",
            &|_| false,
        );
        assert_eq!(
            complaint(&found),
            "building a kernel tree needs flex, bc, ar, nm, gelf.h, stdlib.h: \
             apt-get install bc binutils flex libc6-dev libelf-dev"
        );
    }
}
