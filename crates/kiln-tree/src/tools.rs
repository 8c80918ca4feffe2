//! Checks whether the tools that a kernel build needs are installed, and runs them. All missing
//! tools are reported in one message.

use std::path::Path;
use std::process::{Command, Stdio};

use kiln_kbuild::{reason, which, Compiler};

use crate::Error;

/// Required programs, each with the Debian package that contains it.
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
    // The kernel's build compiles its host tools with gcc, regardless of the compiler that it uses
    // for the kernel.
    ("gcc", "gcc"),
];

/// Headers that the kernel's host tools include, each with the Debian package that contains it.
const HEADERS: [(&str, &str); 2] = [("gelf.h", "libelf-dev"), ("stdlib.h", "libc6-dev")];

pub fn check(compiler: &Compiler) -> Result<(), Error> {
    let missing = missing(&|program| which(program).is_some(), &|header| {
        has_header(&compiler.path, header)
    });
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::MissingTools(missing)),
    }
}

/// Runs a compiler or a binutils tool to completion. If the tool fails, returns the line of its
/// output that states the reason as the inner error.
///
/// # Errors
/// Fails if the program cannot be started. The error names the Debian package that contains the
/// program.
pub fn run(command: &mut Command, package: &str) -> Result<Result<(), String>, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::tool(&name, package, e))?;
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

/// Environment variables that would change the behaviour of make or of the kernel's build.
const IGNORED_ENV: [&str; 14] = [
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "ARCH",
    "SUBARCH",
    "CROSS_COMPILE",
    "LLVM",
    "LLVM_IAS",
    "KBUILD_OUTPUT",
    "KBUILD_EXTMOD",
    "KCFLAGS",
    "KAFLAGS",
    "KCONFIG_CONFIG",
    "KCONFIG_ALLCONFIG",
];

/// Removes environment variables that would affect the tree's build.
pub(crate) fn clear_environment(command: &mut Command) {
    for name in IGNORED_ENV {
        command.env_remove(name);
    }
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
            Error::MissingTools(found).to_string(),
            "building a kernel tree needs flex, bc, ar, nm, gelf.h, stdlib.h: \
             apt-get install bc binutils flex libc6-dev libelf-dev"
        );
    }
}
