//! Generates a table of the module's sources. The program embeds these sources, so that it can
//! build the module without a checkout.

use std::fs;
use std::path::Path;

use kiln_kbuild::{cipher_list, is_source, known_answers, Embedded, CIPHER_LIST};

/// Directories in the repository, each with the name of the corresponding directory in the module.
const PLACES: [(&str, &str); 3] = [
    ("linux/module", ""),
    ("kernel/ciphers", "kernel/ciphers"),
    ("kernel/include", "kernel/include"),
];

/// Other files that the ciphers include.
const FILES: [&str; 3] = [
    "kernel/cpu/feature.c",
    "kernel/lib/string.c",
    "kernel/tiers.def",
];

/// A directory and a file name prefix. All files in the directory whose names begin with the prefix
/// are also embedded.
const PATTERNS: (&str, &str) = ("kernel/load", "patterns");

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = fs::canonicalize(root).expect("the repository");
    let out = std::env::var_os("OUT_DIR").expect("set by cargo");
    let out = Path::new(&out);
    let mut sources = Embedded::default();
    for (place, name) in PLACES {
        let dir = root.join(place);
        println!("cargo:rerun-if-changed={}", dir.display());
        sources
            .add_files(name, &dir, is_source)
            .expect("the repository's sources");
    }
    for name in FILES {
        println!("cargo:rerun-if-changed={}", root.join(name).display());
        sources.add_file(name, &root.join(name));
    }
    let (place, start) = PATTERNS;
    println!("cargo:rerun-if-changed={}", root.join(place).display());
    for entry in fs::read_dir(root.join(place)).expect("the repository's sources") {
        let entry = entry.expect("the repository's sources");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if name.starts_with(start) {
            sources.add_file(&format!("{place}/{name}"), &entry.path());
        }
    }
    let list = cipher_list(&root.join("kernel")).expect("the ciphers' folders");
    fs::write(out.join("ciphers.h"), list).expect("OUT_DIR can be written");
    sources.add_file(
        &format!("kernel/include/{CIPHER_LIST}"),
        &out.join("ciphers.h"),
    );
    let answers = known_answers(&root.join("kernel")).expect("the ciphers' known answers");
    fs::write(out.join("known.h"), answers).expect("OUT_DIR can be written");
    sources.add_file("known.h", &out.join("known.h"));
    sources
        .write(&out.join("module_sources.rs"))
        .expect("OUT_DIR can be written");
}
