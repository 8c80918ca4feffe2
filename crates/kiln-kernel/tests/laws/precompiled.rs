//! Checks that objects are the same whether they are compiled with or without a precompiled header.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::{rename_implicit_calls, Built, Compiler, Kbuild, Object};

use crate::subjects::{kernel_dir, run, scratch};

/// Recompiles one object of each tier without precompiled headers, which the build deletes when it
/// is done. Returns the sources whose new object differs from the build's object. `flags` are added
/// to the compiler's command line.
pub(crate) fn changed(built: &Built, flags: &[&str]) -> Vec<String> {
    let out = built.archive.parent().expect("a build directory");
    let kbuild = Kbuild::new(kernel_dir(), out);
    // Include the flags in the name, because tests with other flags may run at the same time.
    let dir = scratch().join(format!("precompiled{}", flags.concat()));
    fs::create_dir_all(&dir).expect("a directory");
    let mut found = Vec::new();
    for object in smallest_of_tiers(built) {
        let again = compile(&kbuild, &built.compiler, object, flags, &dir);
        if stripped(&object.path, &dir) != stripped(&again, &dir) {
            found.push(object.source.display().to_string());
        }
    }
    found
}

/// For each tier, returns the object with the smallest C source. Skips objects that need extra
/// flags, because the build never uses a precompiled header for them.
fn smallest_of_tiers(built: &Built) -> impl Iterator<Item = &Object> {
    let mut smallest: BTreeMap<&str, (u64, &Object)> = BTreeMap::new();
    for object in &built.objects {
        let is_c = object.source.extension().is_some_and(|e| e == "c");
        let has_own_flags = !kiln_kbuild::recipe::extra_flags(&object.source).is_empty();
        let Some(tier) = object.simd.filter(|_| is_c && !has_own_flags) else {
            continue;
        };
        let path = kernel_dir().join(&object.source);
        let size = fs::metadata(path).expect("a source").len();
        let entry = smallest.entry(tier).or_insert((size, object));
        if size < entry.0 {
            *entry = (size, object);
        }
    }
    smallest.into_values().map(|(_, object)| object)
}

fn compile(
    kbuild: &Kbuild,
    compiler: &Compiler,
    object: &Object,
    flags: &[&str],
    dir: &Path,
) -> PathBuf {
    // Give the object the same name as in the build, in case the compiler records the name.
    let path = dir.join(object.path.file_name().expect("a file"));
    run(kbuild
        .compile_command(compiler, &object.source, &path)
        .args(flags));
    rename_implicit_calls(&path).expect("an object");
    path
}

/// Returns the content of an object without its debugging information, which names the precompiled
/// header.
fn stripped(object: &Path, dir: &Path) -> Vec<u8> {
    let out = dir.join("stripped.o");
    run(Command::new("objcopy")
        .arg("--strip-debug")
        .args([object, &out]));
    fs::read(out).expect("a stripped object")
}
