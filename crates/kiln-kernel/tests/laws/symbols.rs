//! Checks symbol tables and relocations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::recipe::IMPLICIT_CALLS;
use kiln_kbuild::Built;

use crate::subjects::run;

/// One row of the output of `readelf --syms`.
pub(crate) struct Symbol {
    pub name: String,
    pub function: bool,
    pub global: bool,
    pub hidden: bool,
    pub defined: bool,
}

pub(crate) fn symbols(object: &Path) -> Vec<Symbol> {
    let text = run(Command::new("readelf").arg("--syms").arg("-W").arg(object));
    // The columns of a row are: Num: Value Size Type Bind Vis Ndx Name
    text.lines()
        .filter_map(|line| match *line.split_whitespace().collect::<Vec<_>>() {
            [number, _, _, kind, bind, vis, section, name] if number.ends_with(':') => {
                Some(Symbol {
                    name: name.to_owned(),
                    function: kind == "FUNC",
                    global: bind == "GLOBAL" || bind == "WEAK",
                    hidden: vis == "HIDDEN" || vis == "INTERNAL",
                    defined: section != "UND",
                })
            }
            _ => None,
        })
        // Skip the heading, which has the same number of words as a symbol.
        .filter(|symbol| symbol.name != "Name")
        .collect()
}

fn relocatable(built: &Built) -> PathBuf {
    let out = built.archive.with_file_name("linked.o");
    built.relocatable(&out).unwrap_or_else(|e| panic!("{e}"));
    out
}

/// Returns the symbols that are still undefined after all objects have been linked. The list must
/// be empty, because `kernel/` must not link against the host: it receives the addresses of the
/// host's functions at run time.
pub(crate) fn undefined(built: &Built) -> Vec<String> {
    undefined_in(&relocatable(built))
}

/// Returns the undefined symbols of one object.
pub(crate) fn undefined_in(object: &Path) -> Vec<String> {
    let text = run(Command::new("nm").arg("-u").arg(object));
    text.lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|name| format!("{name} is undefined"))
        .collect()
}

/// Returns relocations that use the GOT. Relocations for initial-exec thread-local variables are
/// allowed, because the final link turns them into constants.
pub(crate) fn got_relocations(built: &Built) -> Vec<String> {
    let text = run(Command::new("readelf").arg("-rW").arg(relocatable(built)));
    text.lines()
        .filter(|line| line.contains("_GOT") && !line.contains("_GOTTPOFF"))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .map(|line| format!("a reference through the GOT: {line}"))
        .collect()
}

/// Returns functions of the `memcpy` family that are defined and called in the same object. For
/// example, a compiler may replace the loop in `kiln_memset` with a call to `memset`. This call is
/// renamed to `kiln_memset`, so the function would call itself forever.
pub(crate) fn calls_itself(object: &Path) -> Vec<String> {
    let family: BTreeSet<_> = IMPLICIT_CALLS.concat().iter().map(|(_, to)| *to).collect();
    let symbols = symbols(object);
    family
        .into_iter()
        .filter(|name| {
            let mut here = symbols.iter().filter(|s| s.name == *name);
            let called = here.clone().any(|s| !s.defined);
            called && here.any(|s| s.defined)
        })
        .map(|name| format!("the file that defines {name} calls what is renamed to it"))
        .collect()
}

/// Returns exported symbols without Kiln's prefix.
pub(crate) fn misnamed_exports(built: &Built) -> Vec<String> {
    symbols(&relocatable(built))
        .into_iter()
        .filter(|s| s.global && s.defined && !s.hidden && !s.name.starts_with("kiln_"))
        .map(|s| format!("{} is exported and does not start with kiln_", s.name))
        .collect()
}
