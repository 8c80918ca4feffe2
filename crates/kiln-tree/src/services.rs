//! Compiles `tree/services/` with the user's compiler. The services define the symbols that the
//! tree's objects need but that Kiln does not take from the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use kiln_kbuild::Compiler;

use crate::cache::{update, Cache};
use crate::place::hash;
use crate::symbols::read_tables;
use crate::{tools, Error};

/// Headers that `service.h` and the glue include. These headers define the interface between C and
/// Rust.
pub(crate) const HEADERS: &[(&str, &str)] = &[
    (
        "kiln/abi/audit.h",
        include_str!("../../../kernel/include/kiln/abi/audit.h"),
    ),
    (
        "kiln/abi/hosted.h",
        include_str!("../../../kernel/include/kiln/abi/hosted.h"),
    ),
    (
        "kiln/abi/messages.h",
        include_str!("../../../kernel/include/kiln/abi/messages.h"),
    ),
    (
        "kiln/abi/submission.h",
        include_str!("../../../kernel/include/kiln/abi/submission.h"),
    ),
    ("kiln/tree.h", include_str!("../../../tree/abi.h")),
    (
        "kiln/function.h",
        include_str!("../../../tree/library/function.h"),
    ),
    ("kiln/step.h", include_str!("../../../tree/step.h")),
    (
        "kiln/oracle.h",
        include_str!("../../../tree/oracles/oracle.h"),
    ),
    (
        "kiln/cpu_offsets.h",
        include_str!("../../../kernel/include/kiln/cpu_offsets.h"),
    ),
];

/// Prefix of the symbols that the services define.
pub(crate) const PREFIX: &str = "svc_";

macro_rules! sources {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../../tree/services/", $name)))),*] };
}

/// Names and contents of the files in `tree/services/`.
const SOURCES: &[(&str, &str)] = sources!(
    "boot.c" "completion.c" "cpufeature.c" "format.c" "guard.c" "kthread.c" "kunit.c" "layout.c" "locks.c" "memory.c" "names.c" "oracle.c" "param.c" "paravirt.c"
    "patch.c" "percpu.c" "printk.c" "random.c" "refused.c" "series.c" "service.h" "sleep.c" "softirq.c" "string.c" "tell.c"
    "test.c" "time.c" "wait.c" "warn.c"
    "workqueue.c"
);

/// Compiler flags. Services may be called inside an FPU section, so they use only general-purpose
/// registers. Builtins are disabled, so that the compiler treats memcpy() and the like as ordinary
/// functions.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-ffreestanding",
    "-fno-pie",
    "-fcf-protection=none",
    "-fno-stack-protector",
    "-mno-red-zone",
    "-mgeneral-regs-only",
    "-fno-builtin",
    "-U_FORTIFY_SOURCE",
    "-fno-asynchronous-unwind-tables",
    "-fno-strict-aliasing",
    "-fno-omit-frame-pointer",
    "-w",
];

pub(crate) struct Services {
    pub objects: Vec<PathBuf>,
    /// Symbols that the services define, without the prefix.
    pub provided: BTreeSet<String>,
    /// Hash of the services, used to detect changes.
    pub stamp: u64,
}

/// Compiles the services, unless the cache already contains up-to-date objects that this compiler
/// produced.
pub(crate) fn compile(compiler: &Compiler, cache: &Cache) -> Result<Services, Error> {
    let dir = &cache.host;
    let mut parts: Vec<&[u8]> = vec![compiler.version.as_bytes()];
    parts.extend(FLAGS.iter().map(|f| f.as_bytes()));
    let files = || SOURCES.iter().chain(HEADERS);
    parts.extend(files().map(|(_, text)| text.as_bytes()));
    let stamp = hash(&parts);
    let stamp_file = dir.join("services");
    let c_files: Vec<&str> = SOURCES
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.ends_with(".c"))
        .collect();
    let objects: Vec<PathBuf> = c_files
        .iter()
        .map(|name| dir.join(name).with_extension("o"))
        .collect();
    if fs::read_to_string(&stamp_file).ok() != Some(format!("{stamp:016x}")) {
        for (name, text) in files() {
            update(&dir.join(name), text)?;
        }
        let mut command = Command::new(&compiler.path);
        command
            .args(FLAGS)
            .args(["-I.", "-c"])
            .args(&c_files)
            .current_dir(dir);
        tools::run(&mut command, "gcc")?.map_err(|why| Error::Services {
            compiler: compiler.path.clone(),
            why,
        })?;
        update(&stamp_file, &format!("{stamp:016x}"))?;
    }
    let mut provided = BTreeSet::new();
    for object in read_tables(dir, &objects)?.values() {
        provided.extend(
            object
                .defined
                .iter()
                .filter_map(|n| n.strip_prefix(PREFIX))
                .map(String::from),
        );
    }
    Ok(Services {
        objects,
        provided,
        stamp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_service_is_forgotten() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tree/services");
        let mut there: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        let listed: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(there, listed);
    }
}
