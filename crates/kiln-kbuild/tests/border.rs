//! Tests the interface between C and Rust. The bindings and assertions in the repository must be
//! exactly what bindgen generates from the headers.
//!
//! The test is in this crate instead of kiln-kernel, which does not compile if the files in the
//! repository differ from the generated ones. To regenerate the files, run the following command:
//! `KILN_BLESS=1 cargo test --release -p kiln-kbuild --test border`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use bindgen::callbacks::{ItemInfo, ItemKind, ParseCallbacks};

/// Headers and the files generated from them, relative to the repository's root.
struct Border {
    /// Header files, or directories of header files. Bindings are generated for the declarations in
    /// these files.
    headers: &'static [&'static str],
    bindings: &'static str,
    assertions: &'static str,
    /// Headers that the generated C file includes.
    includes: &'static [&'static str],
    /// Structures that are imported from other bindings instead of generated. Each pair consists of
    /// a pattern for the structure's names and the `use` line that imports it.
    elsewhere: &'static [(&'static str, &'static str)],
}

const KERNEL: Border = Border {
    headers: &[
        "kernel/include/kiln/abi",
        "kernel/include/kiln/cipher.h",
        "kernel/include/kiln/cpu_offsets.h",
        "kernel/include/kiln/histogram.h",
        "kernel/include/kiln/scene.h",
    ],
    bindings: "crates/kiln-kernel/src/sys/generated.rs",
    assertions: "kernel/load/abi_layout.c",
    includes: &[
        "<kiln/abi/audit.h>",
        "<kiln/abi/bench.h>",
        "<kiln/abi/cipher.h>",
        "<kiln/abi/cpu.h>",
        "<kiln/abi/crypto.h>",
        "<kiln/abi/esp.h>",
        "<kiln/abi/hosted.h>",
        "<kiln/abi/load.h>",
    ],
    elsewhere: &[],
};

const TREE: Border = Border {
    headers: &["tree/abi.h"],
    bindings: "crates/kiln-tree/src/raw.rs",
    assertions: "tree/services/layout.c",
    includes: &["<kiln/tree.h>"],
    elsewhere: &[
        (
            "(kiln_m|M)essages",
            "use kiln_kernel::messages::Raw as Messages;",
        ),
        ("(kiln_a|A)udit", "use kiln_kernel::irq::Audit;"),
    ],
};

/// First line of the generated files.
const HEAD: &str =
    "// Made from the headers by tests/border.rs of kiln-kbuild; KILN_BLESS=1 makes it anew.";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).expect("the repository")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Converts a C name to a Rust name: `kiln_load_side` to `LoadSide`, and `kiln_seal_t` to `Seal`.
fn rust_name(c_name: &str) -> String {
    let name = c_name.strip_prefix("kiln_").unwrap_or(c_name);
    let words = name.strip_suffix("_t").unwrap_or(name).split('_');
    words
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// Suffix that is appended to a structure's name to form the Rust name of its anonymous union.
const UNION: &str = "Any";

/// Gives structures Rust names, and records their C names.
#[derive(Debug, Default)]
struct Names(Rc<RefCell<BTreeMap<String, String>>>);

impl ParseCallbacks for Names {
    fn item_name(&self, item: ItemInfo<'_>) -> Option<String> {
        const PLAIN: [&str; 6] = [
            "boot",
            "cpu",
            "cpu_stats",
            "histogram",
            "scatterlist",
            "task",
        ];
        let ours = item.name.starts_with("kiln_") || PLAIN.contains(&item.name);
        if !matches!(item.kind, ItemKind::Type) || !ours {
            return None;
        }
        // bindgen gives this name to a structure's anonymous union.
        if let Some((structure, _)) = item.name.split_once("__bindgen_ty_") {
            return Some(rust_name(structure) + UNION);
        }
        let name = rust_name(item.name);
        self.0.borrow_mut().insert(name.clone(), item.name.into());
        Some(name)
    }
}

/// Runs bindgen on the headers below `root`. Returns the Rust code, and a map from the Rust name of
/// each structure to its C name.
fn bindings(border: &Border, root: &Path) -> (String, BTreeMap<String, String>) {
    let path = |path: &str| root.join(path).display().to_string();
    let include = |header: &&str| {
        // Replace <kiln/tree.h>, the name by which tree objects include tree/abi.h.
        let header = header.replace("<kiln/tree.h>", &format!("\"{}\"", path("tree/abi.h")));
        format!("#include {header}\n")
    };
    let wrapper: String = border.includes.iter().map(include).collect();
    let names = Names::default();
    let map = names.0.clone();
    let mut builder = bindgen::Builder::default()
        .header_contents("border.h", &wrapper)
        .clang_args([
            "--target=x86_64-unknown-linux-gnu",
            "-std=gnu11",
            "-ffreestanding",
            "-DKILN_BINDGEN",
        ])
        .clang_arg(format!("-I{}", path("kernel/include")))
        .clang_arg(format!("-I{}", path("kernel/include/kiln")))
        .raw_line(HEAD)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .generate_cstr(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .parse_callbacks(Box::new(names));
    for header in border.headers {
        builder = builder.allowlist_file(format!("{}.*", path(header)));
    }
    for (name, line) in border.elsewhere {
        builder = builder.blocklist_type(name).raw_line(*line);
    }
    let made = builder.generate().unwrap_or_else(|e| panic!("{e}"));
    let map = map.borrow().clone();
    (made.to_string(), map)
}

/// A size or an offset that bindgen asserts. `member` is `None` for a structure's size.
struct Fact {
    structure: String,
    member: Option<String>,
    bytes: u64,
}

fn facts(bindings: &str) -> Vec<Fact> {
    // Join lines, because the pretty-printer breaks long assertions.
    let flat = bindings.split_whitespace().collect::<Vec<_>>().join(" ");
    let number = |text: &str| -> u64 {
        let (_, after) = text.split_once(") - ").expect("an assertion");
        let digits = after.split("usize").next().expect("a number");
        digits.parse().expect("a number")
    };
    let mut all = Vec::new();
    let quoted: Vec<&str> = flat.split('"').skip(1).collect();
    for pair in quoted.chunks(2) {
        let &[label, text] = pair else {
            continue;
        };
        if let Some(structure) = label.strip_prefix("Size of ") {
            all.push(Fact {
                structure: structure.into(),
                member: None,
                bytes: number(text),
            });
        } else if let Some(what) = label.strip_prefix("Offset of field: ") {
            let (structure, member) = what.split_once("::").expect("a member");
            all.push(Fact {
                structure: structure.into(),
                member: Some(member.into()),
                bytes: number(text),
            });
        }
    }
    all
}

/// Generates the same assertions in C that bindgen generates in Rust. In C, the members of an
/// anonymous union are members of the structure.
fn assertions(border: &Border, bindings: &str, names: &BTreeMap<String, String>) -> String {
    let facts = facts(bindings);
    let mut text = format!(
        "// SPDX-License-Identifier: GPL-2.0-only OR MIT\n{}\n",
        HEAD.replace("// ", "/* ") + " */"
    );
    for include in border.includes {
        writeln!(text, "#include {include}").expect("a string");
    }
    text += "\n#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)\n\
             #define AT(type, member, bytes) \\\n\
             \t_Static_assert(__builtin_offsetof(type, member) == (bytes), #type \".\" #member)\n\n";
    for fact in &facts {
        let Some(c_name) = names.get(&fact.structure) else {
            assert!(fact.structure.ends_with(UNION), "{}", fact.structure);
            continue;
        };
        let c_name = format!("struct {c_name}");
        let line = match &fact.member {
            None => format!("SIZE({c_name}, {});", fact.bytes),
            Some(member) if member.starts_with("__bindgen_anon") => {
                let union = format!("{}{UNION}", fact.structure);
                let members = facts.iter().filter(|f| f.structure == union);
                let members = members.filter_map(|f| Some((f.member.as_ref()?, f.bytes)));
                let lines = members.map(|(member, bytes)| {
                    format!("AT({c_name}, {member}, {});", fact.bytes + bytes)
                });
                lines.collect::<Vec<_>>().join("\n")
            }
            // Remove the underscore that bindgen appends to Rust keywords.
            Some(member) => format!(
                "AT({c_name}, {}, {});",
                member.trim_end_matches('_'),
                fact.bytes
            ),
        };
        writeln!(text, "{line}").expect("a string");
    }
    text
}

/// Returns whether bindgen works on this machine.
///
/// # Panics
/// Panics if clang is installed but its libclang cannot be loaded.
fn has_libclang() -> bool {
    let there = catch_unwind(bindgen::clang_version).is_ok();
    if !there {
        let clang = Command::new("clang").arg("--version").output();
        assert!(
            clang.is_err(),
            "clang is installed, its libclang does not load"
        );
        println!("SKIPPED: needs libclang (apt-get install libclang1)");
    }
    there
}

fn compare_or_bless(path: &str, made: &str) {
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(root().join(path), made).unwrap_or_else(|e| panic!("{path}: {e}"));
        return;
    }
    let there = read(path);
    let line = there.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(
        there == made,
        "{path} differs from the headers, KILN_BLESS=1 regenerates it; first difference: {line:?}"
    );
}

#[test]
fn bindings_and_assertions_are_those_of_the_headers() {
    if !has_libclang() {
        return;
    }
    for border in [KERNEL, TREE] {
        let (rust, names) = bindings(&border, &root());
        compare_or_bless(border.bindings, &rust);
        compare_or_bless(border.assertions, &assertions(&border, &rust, &names));
    }
}

/// Returns the C names of the structures that a header defines.
fn structures(header: &str) -> BTreeSet<String> {
    let lines = header.lines().filter(|line| line.ends_with('{'));
    let names = lines.filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {"));
    names.map(String::from).collect()
}

/// Returns the structures that lack a size assertion in Rust or in C.
fn without_assertion(headers: &[String], rust: &str, c: &str) -> Vec<String> {
    let all = headers.iter().flat_map(|text| structures(text));
    all.filter(|name| {
        let in_rust = rust.contains(&format!("\"Size of {}\"", rust_name(name)));
        !in_rust || !c.contains(&format!("SIZE(struct {name}, "))
    })
    .collect()
}

fn headers(path: &str) -> Vec<String> {
    let path = root().join(path);
    if path.is_file() {
        return vec![fs::read_to_string(path).expect("a header")];
    }
    let entries = fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    entries
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a header"))
        .collect()
}

#[test]
fn every_structure_at_the_border_is_asserted() {
    let mut all = 0;
    for border in [KERNEL, TREE] {
        let headers: Vec<String> = border
            .headers
            .iter()
            .flat_map(|path| headers(path))
            .collect();
        all += headers.iter().map(|h| structures(h).len()).sum::<usize>();
        let (rust, c) = (read(border.bindings), read(border.assertions));
        assert_eq!(without_assertion(&headers, &rust, &c), [""; 0]);
    }
    assert!(all >= 50, "{all} structures");
    // Control: a structure without assertions must be found.
    let header = "struct kiln_new {\n\tint a;\n};\n".to_string();
    assert_eq!(without_assertion(&[header], "", ""), ["kiln_new"]);
}

/// Returns the lines of a Rust file that refer to other modules of the crate.
fn uses_of_the_crate(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.filter(|line| line.contains("crate::")).collect()
}

#[test]
fn the_raw_layer_uses_nothing_of_the_safe_one() {
    for path in ["crates/kiln-kernel/src/sys/mod.rs", KERNEL.bindings] {
        assert_eq!(uses_of_the_crate(&read(path)), [""; 0], "{path}");
    }
    // Control: a line that refers to another module must be found.
    let offender = "use crate::cpu::Histogram;";
    assert_eq!(uses_of_the_crate(offender), [offender]);
}

/// Returns whether the C assertions in this copy of `kernel/` compile with the headers in the same
/// copy.
fn compiles(kernel: &Path) -> bool {
    let compiler = kiln_kbuild::Compiler::from_env().unwrap_or_else(|e| panic!("{e}"));
    let output = Command::new(&compiler.path)
        .args(["-std=gnu11", "-ffreestanding", "-fsyntax-only", "-I"])
        .arg(kernel.join("include"))
        .arg(kernel.join("load/abi_layout.c"))
        .output()
        .expect("the compiler runs");
    output.status.success()
}

/// Control: the assertions must detect swapped members. Without assertions, the code would compile,
/// because the members have the same type.
#[test]
fn swapped_members_do_not_compile() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kernel = dir.path().join("kernel");
    let copied = Command::new("cp")
        .arg("-r")
        .args([root().join("kernel"), kernel.clone()])
        .status();
    assert!(copied.expect("cp").success());
    assert!(compiles(&kernel));
    let swaps = [
        ("cipher.h", "*encrypt, *decrypt;", "*decrypt, *encrypt;"),
        ("abi/submission.h", "*dst, *src, *iv;", "*src, *dst, *iv;"),
        (
            "abi/hosted.h",
            "	void (*begin)(void);\n	void (*end)(void);",
            "	void (*end)(void);\n	void (*begin)(void);",
        ),
    ];
    for (header, from, to) in swaps {
        let path = kernel.join("include/kiln").join(header);
        let good = fs::read_to_string(&path).expect("a header");
        let bad = good.replacen(from, to, 1);
        assert_ne!(good, bad, "{header}");
        fs::write(&path, bad).expect("a copy");
        assert!(!compiles(&kernel), "{header}: {to}");
        fs::write(&path, good).expect("a copy");
    }
}
