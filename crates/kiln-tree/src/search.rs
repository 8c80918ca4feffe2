//! Finds the library objects that the stack needs. Most of them are listed here. The others are
//! found by symbol: the file that defines a symbol exports it with `EXPORT_SYMBOL`.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Objects to build in the first round if they exist in the tree. Each is listed because a
/// supported version of Linux needs it or because Kiln measures its functions. The list includes
/// objects in `lib/crypto` and `lib/crc` because some configurations would not build them.
pub(crate) const USUAL: [&str; 61] = [
    "arch/x86/kernel/cpu/match",
    "arch/x86/lib/clear_page_64",
    "arch/x86/lib/copy_page_64",
    "arch/x86/lib/hweight",
    "arch/x86/lib/memcpy_64",
    "arch/x86/lib/memmove_64",
    "arch/x86/lib/memset_64",
    "kernel/notifier",
    "lib/argv_split",
    "lib/asn1_decoder",
    "lib/bitmap",
    "lib/bsearch",
    "lib/cmdline",
    "lib/crc-ccitt",
    "lib/crc-itu-t",
    "lib/crc-t10dif",
    "lib/crc/crc-ccitt",
    "lib/crc/crc-itu-t",
    "lib/crc/crc16",
    "lib/crc/crc4",
    "lib/crc/crc7",
    "lib/crc/crc8",
    "lib/crc16",
    "lib/crc32",
    "lib/crc4",
    "lib/crc64",
    "lib/crc64-rocksoft",
    "lib/crc7",
    "lib/crc8",
    "lib/crypto/aescfb",
    "lib/crypto/aesgcm",
    "lib/crypto/arc4",
    "lib/crypto/chacha20poly1305",
    "lib/crypto/chacha20poly1305-selftest",
    "lib/ctype",
    "lib/errname",
    "lib/find_bit",
    "lib/glob",
    "lib/hexdump",
    "lib/hweight",
    "lib/iov_iter",
    "lib/kasprintf",
    "lib/kstrtox",
    "lib/list_sort",
    "lib/llist",
    "lib/lz4/",
    "lib/oid_registry",
    "lib/once",
    "lib/parser",
    "lib/random32",
    "lib/rbtree",
    "lib/refcount",
    "lib/scatterlist",
    "lib/seq_buf",
    "lib/siphash",
    "lib/sort",
    "lib/string",
    "lib/string_helpers",
    "lib/uuid",
    "lib/vsprintf",
    "lib/xxhash",
];

/// Directories to search. The files in these directories depend on few files elsewhere.
const DIRS: [&str; 3] = ["lib", "arch/x86/lib", "arch/x86/entry"];

/// Subdirectories to skip, because they are always built, or because they contain tests, user-space
/// code, or code that runs benchmarks at start-up.
const NOT: [&str; 5] = [
    "lib/crypto",
    "lib/tests",
    "lib/kunit",
    "lib/vdso",
    "lib/raid6",
];

/// Maximum number of search rounds. The objects found in one round may need other objects.
pub(crate) const ROUNDS: usize = 5;

/// Finds the objects and directories that must be built to define these symbols. Object names are
/// returned without `.o`, directory names with a trailing slash. A subdirectory of `lib` is always
/// built as a whole, because its files depend on each other.
pub(crate) fn find(tree: &Path, symbols: &BTreeSet<String>) -> BTreeSet<String> {
    if symbols.is_empty() {
        return BTreeSet::new();
    }
    let mut defined = HashMap::new();
    for dir in DIRS {
        scan(tree, Path::new(dir), &mut defined);
    }
    symbols
        .iter()
        .filter_map(|name| defined.get(name).cloned())
        .collect()
}

fn scan(tree: &Path, dir: &Path, defined: &mut HashMap<String, String>) {
    let Ok(entries) = fs::read_dir(tree.join(dir)) else {
        return;
    };
    if NOT.iter().any(|not| dir == Path::new(not)) {
        return;
    }
    for entry in entries.flatten() {
        let path = dir.join(entry.file_name());
        if entry.path().is_dir() {
            scan(tree, &path, defined);
            continue;
        }
        let stem = path.with_extension("").to_string_lossy().into_owned();
        let built_as = match dir.strip_prefix("lib") {
            Ok(part) if part != Path::new("") => format!("{}/", dir.display()),
            _ => stem.clone(),
        };
        let source = path.extension().is_some_and(|e| e == "c" || e == "S");
        let name = entry.file_name().to_string_lossy().into_owned();
        if !source || name.starts_with("test_") || name.contains("kunit") || stem.ends_with("_32") {
            continue;
        }
        let text = fs::read(entry.path()).unwrap_or_default();
        for symbol in exported(&String::from_utf8_lossy(&text)) {
            defined.entry(symbol).or_insert_with(|| built_as.clone());
        }
    }
}

/// Returns the names that a source file exports.
fn exported(text: &str) -> Vec<String> {
    let heads = ["EXPORT_SYMBOL", "SYM_FUNC_START", "SYM_TYPED_FUNC_START"];
    text.lines()
        .filter(|line| heads.iter().any(|head| line.starts_with(head)))
        .filter_map(|line| {
            let (_, rest) = line.split_once('(')?;
            let name = rest.split([')', ',']).next()?.trim();
            Some(name.to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_leads_to_the_file_that_exports_it() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("lib/lz4/d.c", "int f(void);\nEXPORT_SYMBOL(lz4_d);\n"),
            (
                "lib/a.c",
                "\tEXPORT_SYMBOL(no);\nEXPORT_SYMBOL_NS_GPL(in_ns, \"N\");\n",
            ),
            ("lib/test_a.c", "EXPORT_SYMBOL(in_test);\n"),
            (
                "arch/x86/lib/m.S",
                "SYM_FUNC_START(copy)\nEXPORT_SYMBOL_GPL(copy)\n",
            ),
            ("kernel/k.c", "EXPORT_SYMBOL(elsewhere);\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let names = ["lz4_d", "no", "in_ns", "in_test", "copy", "elsewhere"];
        let symbols: BTreeSet<String> = names.iter().map(|s| s.to_string()).collect();
        let found: Vec<String> = find(dir.path(), &symbols).into_iter().collect();
        assert_eq!(found, ["arch/x86/lib/m", "lib/a", "lib/lz4/"]);
    }
}
