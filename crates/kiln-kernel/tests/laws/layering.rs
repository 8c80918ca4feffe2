//! Checks layering: which headers a file may include, which symbols an object may use, and which
//! crates a crate may depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kiln_kbuild::recipe::tier_of;
use kiln_kbuild::{walk, Built, CIPHER_LIST};

use crate::symbols::symbols;

/// Headers that every freestanding compiler provides.
const FREESTANDING: [&str; 3] = ["stdbool.h", "stddef.h", "stdint.h"];

/// The header that declares the intrinsics, which only SIMD files may include.
const INTRINSICS: &str = "immintrin.h";

/// Returns violations of two rules: files in `kernel_dir` include only files from this directory,
/// and files without a SIMD tier do not include the intrinsics, even through a header.
pub(crate) fn kernel_includes(kernel_dir: &Path) -> Vec<String> {
    let kernel = Tree(fs::canonicalize(kernel_dir).expect("kernel/ exists"));
    let mut files = Vec::new();
    walk(&kernel.0, &mut |path| {
        let kind = path.extension().and_then(|e| e.to_str());
        if matches!(kind, Some("c" | "h" | "S")) {
            files.push(path.to_owned());
        }
    })
    .unwrap_or_else(|e| panic!("{e}"));
    files.sort();

    let mut violations = Vec::new();
    for file in &files {
        let here = kernel.relative(file);
        for include in includes(file) {
            if let Found::Violation(why) = kernel.resolve(file, &include) {
                violations.push(format!("{here}: #include {include}: {why}"));
            }
        }
        let is_header = file.extension().is_some_and(|e| e == "h");
        if !is_header && tier_of(file).is_none() {
            if let Some(by) = kernel.reaches_intrinsics(file, &mut BTreeSet::new()) {
                let by = kernel.relative(&by);
                violations.push(format!(
                    "{here} is of no SIMD tier and has <{INTRINSICS}> by {by}"
                ));
            }
        }
    }
    violations
}

/// The directories ("rooms") of `kernel/`, lowest layer first. Rooms in the same row may use each
/// other.
const ROOMS: [&[&str]; 5] = [
    &["lib", "cpu", "fpu"],
    &["ciphers"],
    &["crypto"],
    &["bench"],
    &["load"],
];

/// Headers that belong to the lowest rooms: `lib`, `cpu` and `fpu`.
const LOW_HEADERS: [&str; 16] = [
    "abi/cpu.h",
    "abi/hosted.h",
    "context.h",
    "cpu.h",
    "cpu_offsets.h",
    "fpu.h",
    "fpu_assert.h",
    "histogram.h",
    "percpu.h",
    "preempt.h",
    "sched.h",
    "slab.h",
    "spinlock.h",
    "string.h",
    "types.h",
    "unaligned.h",
];

/// Headers that belong to the higher rooms.
const HIGH_HEADERS: [&str; 8] = [
    "abi/bench.h",
    "abi/cipher.h",
    "abi/crypto.h",
    "abi/esp.h",
    "abi/load.h",
    "budget.h",
    "cipher.h",
    "crypto.h",
];

fn room_of(source: &Path) -> &str {
    let room = source.iter().next().and_then(|room| room.to_str());
    room.unwrap_or("")
}

/// Returns uses of symbols that a higher room defines.
pub(crate) fn calls_upwards(built: &Built) -> Vec<String> {
    let row = |room: &str| ROOMS.iter().position(|rooms| rooms.contains(&room));
    let objects: Vec<_> = built
        .objects
        .iter()
        .map(|o| (&o.source, symbols(&o.path)))
        .collect();
    let mut defined_in = BTreeMap::new();
    for (source, symbols) in &objects {
        for symbol in symbols.iter().filter(|s| s.global && s.defined) {
            defined_in.insert(&symbol.name, room_of(source));
        }
    }
    let mut violations = Vec::new();
    for (source, symbols) in &objects {
        let here = room_of(source);
        if row(here).is_none() {
            violations.push(format!("{}: {here} is not a known room", source.display()));
        }
        for symbol in symbols.iter().filter(|s| !s.defined) {
            let Some(there) = defined_in.get(&symbol.name) else {
                continue;
            };
            if row(there) > row(here) {
                let (file, name) = (source.display(), &symbol.name);
                violations.push(format!("{file} uses {name} of {there}, a higher room"));
            }
        }
    }
    violations
}

/// Returns uses of the crypto API's headers and identifiers in files of the lowest rooms.
pub(crate) fn crypto_in_lowest_rooms(kernel_dir: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for room in ROOMS[0] {
        let dir = kernel_dir.join(room);
        if dir.is_dir() {
            walk(&dir, &mut |path| files.push(path.to_owned())).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    let headers = LOW_HEADERS.map(|name| kernel_dir.join("include/kiln").join(name));
    files.extend(headers.into_iter().filter(|path| path.exists()));
    files.sort();

    let mut violations = Vec::new();
    for file in &files {
        let here = file.strip_prefix(kernel_dir).unwrap_or(file).display();
        for include in includes(file) {
            if HIGH_HEADERS
                .iter()
                .any(|h| include == format!("<kiln/{h}>"))
            {
                violations.push(format!("{here}: #include {include}: a higher room's"));
            }
        }
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{here}: {e}"));
        let names: BTreeSet<_> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|name| name.starts_with("crypto_") || name.starts_with("cryptd_"))
            .collect();
        violations.extend(names.into_iter().map(|name| format!("{here}: {name}")));
    }
    violations
}

/// Returns files in `ciphers/` that include `kiln/fpu.h`, directly or indirectly. Only callers of
/// ciphers may open FPU sections; ciphers themselves may include only `kiln/fpu_assert.h`.
pub(crate) fn sections_in_ciphers(kernel_dir: &Path) -> Vec<String> {
    const HEADER: &str = "<kiln/fpu.h>";
    let mut files = Vec::new();
    walk(&kernel_dir.join("ciphers"), &mut |path| {
        files.push(path.to_owned())
    })
    .unwrap_or_else(|e| panic!("{e}"));
    files.sort();
    let kernel = Tree(fs::canonicalize(kernel_dir).expect("kernel/ exists"));
    let mut violations = Vec::new();
    for file in &files {
        let here = file.strip_prefix(kernel_dir).unwrap_or(file).display();
        if kernel.reaches(HEADER, file, &mut BTreeSet::new()) {
            violations.push(format!("{here} has {HEADER}"));
        }
    }
    violations
}

/// Returns calls in objects of `ciphers/` that open or close an FPU section.
pub(crate) fn ciphers_call_sections(built: &Built) -> Vec<String> {
    let ciphers = built
        .objects
        .iter()
        .filter(|o| room_of(&o.source) == "ciphers");
    let mut violations = Vec::new();
    for object in ciphers {
        let symbols = symbols(&object.path);
        let names = symbols.iter().filter(|s| !s.defined).map(|s| &s.name);
        for name in names.filter(|n| n.contains("fpu_begin") || n.contains("fpu_end")) {
            violations.push(format!("{} uses {name}", object.source.display()));
        }
    }
    violations
}

enum Found {
    /// A file in `kernel/`.
    Ours(PathBuf),
    Compilers,
    /// A header that kiln-kbuild generates from the folders of `kernel/`.
    Generated,
    Intrinsics,
    Violation(&'static str),
}

struct Tree(PathBuf);

impl Tree {
    fn relative<'a>(&self, file: &'a Path) -> std::path::Display<'a> {
        file.strip_prefix(&self.0).unwrap_or(file).display()
    }

    fn resolve(&self, file: &Path, include: &str) -> Found {
        let path = if let Some(name) = unquote(include, '<', '>') {
            if name == INTRINSICS {
                return Found::Intrinsics;
            }
            if FREESTANDING.contains(&name) {
                return Found::Compilers;
            }
            if name == CIPHER_LIST {
                return Found::Generated;
            }
            if !name.starts_with("kiln/") {
                return Found::Violation("not a header of kernel/ or of a freestanding compiler");
            }
            self.0.join("include").join(name)
        } else if let Some(name) = unquote(include, '"', '"') {
            file.with_file_name(name)
        } else {
            return Found::Violation("neither <...> nor \"...\"");
        };
        match fs::canonicalize(path) {
            Ok(path) if path.starts_with(&self.0) => Found::Ours(path),
            Ok(_) => Found::Violation("outside kernel/"),
            Err(_) => Found::Violation("no such file"),
        }
    }

    /// Returns whether `file` includes this header, directly or indirectly.
    fn reaches(&self, header: &str, file: &Path, seen: &mut BTreeSet<PathBuf>) -> bool {
        seen.insert(file.to_owned())
            && includes(file).iter().any(|include| {
                include == header
                    || match self.resolve(file, include) {
                        Found::Ours(next) => self.reaches(header, &next, seen),
                        _ => false,
                    }
            })
    }

    /// Searches `file` and the files that it includes for a file that includes the intrinsics.
    /// Returns the path of the first such file.
    fn reaches_intrinsics(&self, file: &Path, seen: &mut BTreeSet<PathBuf>) -> Option<PathBuf> {
        if !seen.insert(file.to_owned()) {
            return None;
        }
        includes(file)
            .iter()
            .find_map(|include| match self.resolve(file, include) {
                Found::Intrinsics => Some(file.to_owned()),
                Found::Ours(header) => self.reaches_intrinsics(&header, seen),
                Found::Compilers | Found::Generated | Found::Violation(_) => None,
            })
    }
}

fn unquote(include: &str, open: char, close: char) -> Option<&str> {
    let (name, _) = include.strip_prefix(open)?.split_once(close)?;
    Some(name)
}

/// Returns the operand of each `#include` in a file, with its quotes or angle brackets.
fn includes(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix('#'))
        .filter_map(|line| line.trim_start().strip_prefix("include"))
        .map(|rest| rest.trim().to_owned())
        .collect()
}

/// Returns lines in the manifest of `name` that declare a dependency on a crate of this workspace.
pub(crate) fn kiln_dependencies(name: &str, manifest: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let mut in_dependencies = false;
    for line in manifest.lines().map(str::trim) {
        let section = line.strip_prefix('[');
        if let Some(section) = section {
            in_dependencies = section.contains("dependencies");
        }
        let value = line.split_once("package").map(|(_, v)| v);
        let renamed = value.is_some_and(|v| v.contains("\"kiln"));
        let named = match section {
            Some(section) => section.contains("dependencies.kiln"),
            None => line.trim_start_matches('"').starts_with("kiln"),
        };
        if in_dependencies && (named || renamed) {
            violations.push(format!("{name} depends on another crate of Kiln: {line}"));
        }
    }
    violations
}
