//! The tree's objects and the services become one program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use kiln_kbuild::Compiler;

use crate::cache::{hash, update, Cache};
use crate::select::{symbols, Selection, CPU_WORDS, WRAPPED};
use crate::services::{Services, PREFIX};
use crate::Error;

const SCRIPT: &str = include_str!("../../../tree/host.ld");

/// The glue's names, the only ones of the tree that the services see.
const GLUE: &str = "kiln_glue_";

/// Links, unless nothing has changed since the last time.
pub fn link(
    compiler: &Compiler,
    cache: &Cache,
    selection: &Selection,
    services: &Services,
) -> Result<PathBuf, Error> {
    let program = cache.host.join("kiln-tree-host");
    let stamp_file = cache.host.join("linked");
    let stamp = stamp(cache, selection, services);
    if program.is_file() && fs::read_to_string(&stamp_file).is_ok_and(|s| s == stamp) {
        return Ok(program);
    }
    let host = |name: &str| cache.host.join(name);
    let (all, named, tree) = (host("all.o"), host("named.o"), host("tree.o"));
    run(Command::new("ld")
        .current_dir(&cache.objects)
        .args(WRAPPED.map(|name| format!("--wrap={name}")))
        .args(["-r", "-o"])
        .arg(&all)
        .args(&selection.linked))?;

    // Two passes: objcopy localises by the names before renaming.
    let tables = symbols(&cache.host, &["all.o"])?;
    let table = tables.get("all.o").cloned().unwrap_or_default();
    let rename: String = table
        .needed
        .iter()
        .filter(|name| services.provided.contains(*name))
        .map(|name| format!("{name} {PREFIX}{name}\n"))
        .collect();
    let keep: String = table
        .defined
        .iter()
        .filter(|name| name.starts_with(GLUE))
        .map(|name| format!("{name}\n"))
        .collect();
    update(&host("rename"), &rename)?;
    update(&host("keep"), &keep)?;
    run(objcopy("--redefine-syms", &host("rename")).args([&all, &named]))?;
    run(objcopy("--keep-global-symbols", &host("keep")).args([&named, &tree]))?;

    update(&host("host.ld"), SCRIPT)?;
    let mut cc = Command::new(&compiler.path);
    cc.env("LC_ALL", "C")
        .args(["-no-pie", "-o"])
        .arg(&program)
        .args(&services.objects)
        .arg(&tree)
        .arg(format!("-Wl,-T,{}", host("host.ld").display()))
        .args(["-Wl,-z,noexecstack", "-Wl,-z,norelro"]);
    for (name, at) in CPU_WORDS {
        if !table.defined.contains(*name) {
            cc.arg(format!("-Wl,--defsym={name}={at:#x}"));
        }
    }
    run(&mut cc)?;
    for file in [&all, &named] {
        let _ = fs::remove_file(file);
    }
    update(&stamp_file, &stamp)?;
    Ok(program)
}

fn objcopy(option: &str, file: &Path) -> Command {
    let mut command = Command::new("objcopy");
    command.arg(format!("{option}={}", file.display()));
    command
}

/// Changes with any object, any service and the script.
fn stamp(cache: &Cache, selection: &Selection, services: &Services) -> String {
    let mut text = format!("{:016x} {SCRIPT}", services.stamp);
    for path in &selection.linked {
        let meta = fs::metadata(cache.objects.join(path));
        let when = meta.as_ref().ok().and_then(|m| m.modified().ok());
        let since = when.and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        text.push_str(&format!(
            "{path} {since:?} {:?}\n",
            meta.map(|m| m.len()).ok()
        ));
    }
    format!("{:016x}", hash(&[text.as_bytes()]))
}

fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::Lacks(format!("{name}: {e}: apt-get install binutils")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said
        .lines()
        .find(|l| !l.contains("warning") && !l.contains("NOTE"))
        .unwrap_or("no message");
    Err(Error::Input(format!(
        "the tree's objects cannot be linked: {name}: {first}"
    )))
}
