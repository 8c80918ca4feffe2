//! Finds a C compiler on this machine.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// Compiler names to try, in this order, if neither the caller nor `KILN_CC` names a compiler.
const DEFAULT: [&str; 3] = ["cc", "gcc", "clang"];

/// A C compiler installed on this machine.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// Path of the executable.
    pub path: PathBuf,
    /// The first line that the compiler prints with `--version`.
    pub version: String,
    /// Directory of the compiler's own headers, such as `stdint.h` and `immintrin.h`.
    pub headers: PathBuf,
}

impl Compiler {
    /// Finds the compiler that `KILN_CC` names. If `KILN_CC` is not set, finds the first of `cc`,
    /// `gcc` and `clang` that exists.
    ///
    /// # Errors
    /// Fails if the compiler does not exist, or does not behave like gcc or clang.
    pub fn from_env() -> Result<Self, Error> {
        match env::var("KILN_CC") {
            Ok(name) if !name.is_empty() => Self::find(&name),
            _ => DEFAULT
                .iter()
                .find(|name| which(name).is_some())
                .map_or_else(
                    || Err(Error::NoCompiler(DEFAULT.join(", "))),
                    |name| Self::find(name),
                ),
        }
    }

    /// Finds the compiler with this name or path.
    ///
    /// # Errors
    /// Fails if the compiler does not exist, or does not behave like gcc or clang.
    pub fn find(name: &str) -> Result<Self, Error> {
        let path = which(name).ok_or_else(|| Error::NoCompiler(name.to_owned()))?;
        let version = first_line(&path, "--version")?;
        let headers = PathBuf::from(first_line(&path, "-print-file-name=include")?);
        if !headers.is_absolute() {
            return Err(Error::NotACompiler(path));
        }
        Ok(Compiler {
            path,
            version,
            headers,
        })
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.version)
    }
}

fn first_line(compiler: &Path, argument: &str) -> Result<String, Error> {
    let output = Command::new(compiler)
        .arg(argument)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::io(compiler, e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() => Ok(line.to_owned()),
        _ => Err(Error::NotACompiler(compiler.to_owned())),
    }
}

/// Returns the path of the program that a shell would run for `name`.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        // Do not resolve symbolic links. In a Python venv, the interpreter is a link, and Python
        // finds the venv's packages through the path of this link.
        return std::path::absolute(name).ok().filter(|p| p.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}
