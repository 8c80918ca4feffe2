//! Finding a C compiler.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// The names to try, in this order, if no compiler is named.
const DEFAULT: [&str; 3] = ["cc", "gcc", "clang"];

/// A C compiler on this machine.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// The path under which it was found.
    pub path: PathBuf,
    /// The first line of `--version`.
    pub version: String,
    /// The directory of its own headers (`stdint.h`, `immintrin.h`).
    pub headers: PathBuf,
}

impl Compiler {
    /// The compiler that `KILN_CC` names, or else the first of `cc`, `gcc`, `clang`.
    ///
    /// # Errors
    /// It does not exist, or does not behave like gcc or clang.
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

    /// The compiler of this name or path.
    ///
    /// # Errors
    /// It does not exist, or does not behave like gcc or clang.
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

/// The file that a shell would run for `name`.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        // Do not resolve symbolic links: the python of a venv is one, and finds its packages
        // through it.
        return std::path::absolute(name).ok().filter(|p| p.is_file());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}
