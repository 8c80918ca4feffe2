//! The sources of the module, as a table: they go into the program, which needs no checkout to build it.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Directories of the repository, and what they are called in the module's.
const PLACES: [(&str, &str); 3] = [
    ("linux/module", ""),
    ("kernel/ciphers", "kernel/ciphers"),
    ("kernel/include", "kernel/include"),
];

/// What the ciphers need besides.
const FILES: [&str; 3] = [
    "kernel/cpu/feature.c",
    "kernel/lib/string.c",
    "kernel/tiers.def",
];

/// Files of this directory with this beginning, too.
const PATTERNS: (&str, &str) = ("kernel/load", "patterns");

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = fs::canonicalize(root).expect("the repository");
    let mut files = Vec::new();
    for (place, name) in PLACES {
        let dir = root.join(place);
        println!("cargo:rerun-if-changed={}", dir.display());
        kiln_kbuild::walk(&dir, &mut |path| {
            let under = path.strip_prefix(&dir).expect("walked from there");
            files.push((Path::new(name).join(under), path.to_owned()));
        })
        .expect("the repository's sources");
    }
    for name in FILES {
        println!("cargo:rerun-if-changed={}", root.join(name).display());
        files.push((name.into(), root.join(name)));
    }
    let (place, start) = PATTERNS;
    println!("cargo:rerun-if-changed={}", root.join(place).display());
    for entry in fs::read_dir(root.join(place)).expect("the repository's sources") {
        let entry = entry.expect("the repository's sources");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if name.starts_with(start) {
            files.push((Path::new(place).join(name), entry.path()));
        }
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in files {
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("a string");
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").expect("set by cargo");
    fs::write(Path::new(&out).join("module_sources.rs"), table).expect("OUT_DIR can be written");
}
