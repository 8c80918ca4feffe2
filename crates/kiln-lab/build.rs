//! Lists the sources of `kernel/` that compilers are compared on, so that the program carries them.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let kernel = manifest.join("../../kernel");
    let mut files = Vec::new();
    for room in ["ciphers", "include", "lib"] {
        walk(&kernel.join(room), &mut files);
    }
    files.push(kernel.join("tiers.def"));
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&kernel).expect("it was found there");
        let file = file.canonicalize().expect("it is there");
        writeln!(list, "    ({name:?}, include_str!({file:?})),").expect("a string takes it");
    }
    list.push_str("]\n");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("sources.rs"), list).expect("the output directory can be written");
    println!("cargo:rerun-if-changed={}", kernel.display());
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("kernel/ can be read") {
        let path = entry.expect("kernel/ can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(&path, files);
        } else if name.ends_with(".c") || name.ends_with(".h") || name.ends_with(".S") {
            files.push(path);
        }
    }
}
