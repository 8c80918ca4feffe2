//! Builds `kernel/` and links it into this crate.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kiln_kbuild::tiers::{variant, TIERS};
use kiln_kbuild::{Kbuild, LIBRARY};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("kiln-kernel: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Name of a second copy of the archive. Programs embed this copy and link it with other code at
/// run time.
const ALONE: &str = "alone.a";

fn build() -> Result<(), String> {
    let target = |key: &str| env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let (arch, width, os) = (target("ARCH"), target("POINTER_WIDTH"), target("OS"));
    if (arch.as_str(), width.as_str(), os.as_str()) != ("x86_64", "64", "linux") {
        return Err(format!(
            "Kiln runs on 64-bit x86-64 Linux only, and this build is for {width}-bit {arch} {os}"
        ));
    }

    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?);
    let out_dir = env::var("OUT_DIR").map_err(|e| e.to_string())?;
    let kernel_dir = manifest_dir.join("../../kernel");
    let kernel_dir = fs::canonicalize(&kernel_dir)
        .map_err(|e| format!("{} is missing: {e}", kernel_dir.display()))?;
    // Name only the directory, because Cargo also watches everything below it.
    println!("cargo:rerun-if-changed={}", kernel_dir.display());
    println!("cargo:rerun-if-env-changed=KILN_CC");

    let mut kbuild = Kbuild::new(kernel_dir, &out_dir);
    if env::var_os("CARGO_FEATURE_CHECKS").is_some() {
        kbuild = kbuild.define("KILN_CHECKS", "1");
    }
    let built = kbuild.build().map_err(|e| e.to_string())?;

    for line in built.messages.iter().flat_map(|m| m.lines()) {
        println!("cargo:warning={line}");
    }
    // Watch the file that the compiler's symbolic link points to, because an upgrade in place
    // changes that file.
    if let Ok(compiler) = fs::canonicalize(&built.compiler.path) {
        println!("cargo:rerun-if-changed={}", compiler.display());
    }
    println!("cargo:rustc-env=KILN_KERNEL_CC={}", built.compiler);
    let tiers = PathBuf::from(&out_dir).join("tiers.rs");
    fs::write(&tiers, table_of_tiers()).map_err(|e| format!("{}: {e}", tiers.display()))?;
    without_debug_info(&built.archive, &PathBuf::from(&out_dir).join(ALONE))?;
    println!("cargo:rustc-link-search=native={out_dir}");
    println!("cargo:rustc-link-lib=static={LIBRARY}");
    Ok(())
}

/// Converts `kernel/tiers.def` to an invocation of the macro in `src/tier.rs`.
fn table_of_tiers() -> String {
    let variants =
        |ids: &mut dyn Iterator<Item = &str>| ids.map(variant).collect::<Vec<_>>().join(" ");
    let features = variants(&mut TIERS.features.iter().map(|f| f.id));
    let mut text = format!("tiers! {{ features: {features};\n");
    for tier in &TIERS.tiers {
        let has = variants(&mut tier.features.iter().copied());
        let (id, name, bits) = (variant(tier.id), tier.name(), tier.bits);
        text += &format!("{id} {name:?} {bits} [{has}];\n");
    }
    text + "}\n"
}

fn without_debug_info(archive: &Path, to: &Path) -> Result<(), String> {
    let status = Command::new("objcopy")
        .arg("--strip-debug")
        .args([archive, to])
        .status()
        .map_err(|e| format!("objcopy: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "objcopy --strip-debug {}: {status}",
            archive.display()
        )),
    }
}
