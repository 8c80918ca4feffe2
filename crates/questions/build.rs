//! Collects the files from `kernel/` that are embedded in the program: the sources that `kiln
//! compilers` builds, and the files that `kiln test` needs for each cipher.

use std::env;
use std::path::{Path, PathBuf};

use kiln_kbuild::{cipher_folders, is_source, Embedded};

/// The files in a cipher's folder that `kiln test` reads: known answers, and the name of the
/// implementation that should be chosen.
const EXPECTATIONS: [(&str, &str); 2] = [
    ("vectors.txt", "vectors.rs"),
    ("ranking.txt", "rankings.rs"),
];

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let kernel = manifest.join("../../kernel");
    let kernel = kernel.canonicalize().expect("the repository");
    println!("cargo:rerun-if-changed={}", kernel.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let write = |files: &Embedded, name: &str| {
        let written = files.write(&out.join(name));
        written.expect("the output directory can be written");
    };

    let mut sources = Embedded::default();
    for room in ["ciphers", "include", "lib"] {
        let added = sources.add_files(room, &kernel.join(room), is_source);
        added.expect("kernel/ can be read");
    }
    sources.add_file("tiers.def", &kernel.join("tiers.def"));
    write(&sources, "sources.rs");

    let folders = cipher_folders(&kernel).expect("kernel/ can be read");
    for (name, table) in EXPECTATIONS {
        let mut files = Embedded::default();
        for folder in &folders {
            let file = Path::new("ciphers").join(folder).join(name);
            // Skip missing files. The tests of the cipher then fail and report which file is
            // missing.
            if kernel.join(&file).is_file() {
                files.add_file(folder, &kernel.join(&file));
            }
        }
        write(&files, table);
    }
}
