//! Links the tree's objects, the glue and the services into one image. The image is a static
//! executable for a fixed low address, as the kernel's code model requires. It calls `kernel/`
//! functions through slots, which the loader fills.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use kiln_kbuild::Compiler;

use crate::cache::{update, Cache};
use crate::image::SLOT;
use crate::make::Part;
use crate::place::hash;
use crate::select::Selection;
use crate::services::{Services, PREFIX};
use crate::symbols::{border, read_tables, CPU_WORDS, WRAPPED};
use crate::{constants, tools, Error, Plan};

const SCRIPT: &str = include_str!("../../../tree/host.ld");

/// The image's load address. The address is below 2 GiB, in a range that the host does not use for
/// executables.
const ADDRESS: &str = "0x10000000";

/// Prefix of the names that the glue defines. All other names in the tree's objects become local,
/// so the services cannot refer to them.
const GLUE: &str = "kiln_glue_";

/// Name of a file, next to the image, that lists the names that the tree's objects export to each
/// other. The file is needed because these names are local symbols in the image.
const GLOBALS: &str = "globals";

/// Reads the names that the tree's objects export to each other.
///
/// # Errors
/// Fails if the image was linked by an older version of Kiln.
pub(crate) fn globals(image: &Path) -> Result<BTreeSet<String>, Error> {
    let path = image.with_file_name(GLOBALS);
    let text = fs::read_to_string(&path).map_err(|e| Error::cache(&path, e))?;
    Ok(text.lines().map(String::from).collect())
}

/// Name of the image file that [`link`] creates in its `place` directory.
pub(crate) const IMAGE: &str = "image";

/// Links the image in `place` if anything has changed since the image was last linked. An image
/// that contains only suites lacks the glue functions that call the crypto API. Services refer to
/// these functions, but do not call them in such an image.
pub(crate) fn link(
    plan: &Plan,
    cache: &Cache,
    place: &Path,
    selection: &Selection,
    services: &Services,
    part: &Part,
) -> Result<PathBuf, Error> {
    fs::create_dir_all(place).map_err(|e| Error::cache(place, e))?;
    let image = place.join(IMAGE);
    let stamp_file = place.join("linked");
    let stamp = stamp(cache, selection, services);
    if image.is_file() && fs::read_to_string(&stamp_file).is_ok_and(|s| s == stamp) {
        return Ok(image);
    }
    let host = |name: &str| place.join(name);
    let (all, named, tree) = (host("all.o"), host("named.o"), host("tree.o"));
    run(Command::new("ld")
        .current_dir(&cache.objects)
        .args(WRAPPED.map(|name| format!("--wrap={name}")))
        .args(["-r", "-o"])
        .arg(&all)
        .args(&selection.linked))?;

    // Rename symbols in one pass and make symbols local in another. In a single pass, objcopy
    // would make symbols local before renaming any, and so would select them by their old names.
    let tables = read_tables(place, &["all.o"])?;
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
    let globals: String = table.defined.iter().map(|n| format!("{n}\n")).collect();
    update(&host(GLOBALS), &globals)?;
    constants::write(cache, place, &selection.linked)?;
    update(&host("rename"), &rename)?;
    update(&host("keep"), &keep)?;
    run(objcopy("--redefine-syms", &host("rename")).args([&all, &named]))?;
    run(objcopy("--keep-global-symbols", &host("keep")).args([&named, &tree]))?;

    let stubs = stubs(&plan.compiler, place, services)?;
    update(&host("host.ld"), SCRIPT)?;
    let new = host("image.new");
    let mut ld = Command::new("ld");
    ld.args(["-static", "-e", "kiln_image_setup", "--build-id=none", "-o"])
        .arg(&new)
        .args(["-z", "noexecstack", "-z", "norelro"])
        .arg(format!("-Ttext-segment={ADDRESS}"))
        .arg("-T")
        .arg(host("host.ld"))
        .args(&services.objects)
        .args([&tree, &stubs]);
    if *part != Part::Whole {
        ld.arg("--unresolved-symbols=ignore-all");
    }
    for (name, at) in CPU_WORDS {
        if !table.defined.contains(*name) {
            ld.arg(format!("--defsym={name}={at:#x}"));
        }
    }
    run(&mut ld)?;
    // Replace the image by renaming the new file, so that processes that have loaded the old image
    // are not affected.
    fs::rename(&new, &image).map_err(|e| Error::cache(&image, e))?;
    for file in [&all, &named] {
        let _ = fs::remove_file(file);
    }
    update(&stamp_file, &stamp)?;
    Ok(image)
}

/// Generates stubs for the `kernel/` functions that the tree's objects or the services call. Each
/// stub jumps through a slot.
fn stubs(compiler: &Compiler, place: &Path, services: &Services) -> Result<PathBuf, Error> {
    let mut objects = services.objects.clone();
    objects.push(place.join("tree.o"));
    let mut text = String::from("\t.section .note.GNU-stack,\"\",@progbits\n");
    let border = border();
    let needed: BTreeSet<String> = read_tables(place, &objects)?
        .into_values()
        .flat_map(|t| t.needed)
        .filter(|name| border.contains(name.as_str()))
        .collect();
    for name in needed {
        text.push_str(&format!(
            "\t.text\n\t.globl {name}\n\t.type {name}, @function\n{name}:\n\tjmp *{SLOT}{name}(%rip)\n\
             \t.size {name}, . - {name}\n\t.data\n\t.balign 8\n{SLOT}{name}:\n\t.quad 0\n"
        ));
    }
    let source = place.join("stubs.s");
    update(&source, &text)?;
    let object = source.with_extension("o");
    run(Command::new(&compiler.path)
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(&object))?;
    Ok(object)
}

fn objcopy(option: &str, file: &Path) -> Command {
    let mut command = Command::new("objcopy");
    command.arg(format!("{option}={}", file.display()));
    command
}

/// Returns a stamp that changes whenever an object, a service or the linker script changes.
fn stamp(cache: &Cache, selection: &Selection, services: &Services) -> String {
    let files = [GLOBALS, constants::FILE];
    let mut text = format!("{:016x} {ADDRESS} {SCRIPT} {files:?}", services.stamp);
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
    tools::run(command, "binutils")?.map_err(|why| Error::Link {
        tool: command.get_program().to_string_lossy().into_owned(),
        why,
    })
}
