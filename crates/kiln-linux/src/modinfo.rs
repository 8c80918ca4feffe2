//! Finds a kernel's own modules and their dependencies, in load order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// File name extensions of compressed modules, each with its decompression program and the Debian
/// package that provides the program.
const PACKED: [(&str, &str, &str); 3] = [
    ("ko.xz", "xz", "xz-utils"),
    ("ko.zst", "zstd", "zstd"),
    ("ko.gz", "gzip", "gzip"),
];

/// Paths of the modules under a directory, keyed by module name. In the names, underscores replace
/// hyphens.
pub struct Modules(BTreeMap<String, PathBuf>);

impl Modules {
    /// Finds the modules under `dir`.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn find(dir: &Path) -> Result<Modules, Error> {
        let mut found = BTreeMap::new();
        kiln_kbuild::walk(dir, &mut |path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
            if let Some((stem, ending)) = name.split_once('.') {
                if ending == "ko" || PACKED.iter().any(|(e, ..)| *e == ending) {
                    found.insert(stem.replace('-', "_"), path.to_owned());
                }
            }
        })
        .map_err(Error::Walk)?;
        Ok(Modules(found))
    }

    /// Returns the names and contents of a module's direct and indirect dependencies. `content` is
    /// the content of the module's file. In the result, each module comes after its dependencies.
    /// Dependencies that are not found are skipped, because they may be built into the kernel. If
    /// they are not built in, the kernel reports an error when it loads the module.
    ///
    /// # Errors
    /// Fails if a module cannot be read.
    pub fn needed(&self, content: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut done = (BTreeSet::new(), Vec::new());
        for name in depends(content) {
            self.add(&name, &mut done)?;
        }
        Ok(done.1)
    }

    /// Returns the names and contents of the named modules and of all modules they depend on. In
    /// the result, each module comes after its dependencies.
    ///
    /// # Errors
    /// Fails if a module cannot be read.
    pub(crate) fn with_needed(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut done = (BTreeSet::new(), Vec::new());
        for name in names {
            self.add(name, &mut done)?;
        }
        Ok(done.1)
    }

    fn add(
        &self,
        name: &str,
        done: &mut (BTreeSet<String>, Vec<(String, Vec<u8>)>),
    ) -> Result<(), Error> {
        let name = name.replace('-', "_");
        let Some(path) = self.0.get(&name) else {
            return Ok(());
        };
        // Mark the module as done before visiting its dependencies, so that the recursion ends even
        // if they form a cycle.
        if !done.0.insert(name.clone()) {
            return Ok(());
        }
        let content = read(path)?;
        for needed in depends(&content) {
            self.add(&needed, done)?;
        }
        done.1.push((name, content));
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let name = path.to_string_lossy();
    let Some(&(_, program, package)) = PACKED.iter().find(|(e, ..)| name.ends_with(e)) else {
        return fs::read(path).map_err(|e| Error::cache(path, e));
    };
    let output = Command::new(program)
        .arg("-dc")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| kiln_tree::Error::tool(program, package, e))?;
    if !output.status.success() {
        return Err(Error::PackedModule {
            program,
            name: name.into_owned(),
        });
    }
    Ok(output.stdout)
}

/// Returns the dependencies that a module lists in its `.modinfo` section. The section consists of
/// NUL-terminated `name=value` strings.
fn depends(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    // Do not compare the byte before the name: the section's first string is not preceded by a NUL.
    let field = module
        .windows(FIELD.len())
        .position(|w| w[1..] == FIELD[1..]);
    let Some(at) = field else { return Vec::new() };
    let value = &module[at + FIELD.len()..];
    let end = value.iter().position(|&b| b == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&value[..end]);
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, depends: &str| {
            let text = format!("ELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(dir.path().join(name), text).unwrap();
        };
        write("a-top.ko", "b_mid,c,built_in");
        write("b-mid.ko", "c");
        write("c.ko", "");
        write("d.ko", "e");
        write("e.ko", "d");
        write("no.module", "");
        let modules = Modules::find(dir.path()).unwrap();
        let names =
            |of: Vec<(String, Vec<u8>)>| -> Vec<String> { of.into_iter().map(|m| m.0).collect() };
        assert_eq!(
            names(modules.with_needed(&["a_top", "c"]).unwrap()),
            ["c", "b_mid", "a_top"]
        );
        assert_eq!(
            names(modules.with_needed(&["d"]).unwrap()),
            ["e", "d"],
            "a circle"
        );
        assert_eq!(
            names(modules.needed(b"x\0depends=b-mid\0").unwrap()),
            ["c", "b_mid"]
        );
        assert!(modules.needed(b"depends=").unwrap().is_empty());
        assert!(modules.needed(b"").unwrap().is_empty());
    }
}
