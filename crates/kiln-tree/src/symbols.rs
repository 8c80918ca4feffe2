//! Reads the symbols of object files with `nm`, and lists the symbols that Kiln treats specially.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use crate::Error;

/// The global symbols that an object file defines or needs.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    pub defined: BTreeSet<String>,
    /// Undefined symbols that are not weak.
    pub needed: BTreeSet<String>,
    /// Undefined weak symbols.
    pub optional: BTreeSet<String>,
}

/// Per-CPU fields that the tree addresses by symbol, and their offsets in a per-CPU area
/// (`tree/services/percpu.c`). Linux 6.12 keeps the current task and other fields in
/// `struct pcpu_hot`, whose layout matches the beginning of `struct cpu`. Other versions have one
/// symbol per field.
pub(crate) const CPU_WORDS: &[(&str, u32)] = &[
    ("pcpu_hot", 0),
    ("const_pcpu_hot", 0),
    ("current_task", 0),
    ("const_current_task", 0),
    ("__preempt_count", 8),
    ("cpu_number", 12),
    ("const_cpu_number", 12),
    ("__x86_call_depth", 16),
    ("cpu_current_top_of_stack", 24),
    ("const_cpu_current_top_of_stack", 24),
    ("hardirq_stack_ptr", 32),
    ("__softirq_pending", 40),
    ("this_cpu_off", 0xf0000),
    ("numa_node", 0xf0008),
];

/// Symbols that the linker script (`tree/host.ld`) defines for the tree's objects.
pub(crate) const LINKER: [&str; 4] = [
    "__kunit_suites_start",
    "__kunit_suites_end",
    "__kunit_init_suites_start",
    "__kunit_init_suites_end",
];

/// Functions in the tree that the glue wraps. When other objects call these functions, the linker
/// redirects the calls to the glue.
pub(crate) const WRAPPED: [&str; 20] = [
    "alg_test",
    "crypto_alloc_tfm_node",
    "crypto_alloc_base",
    "cpu_has_xfeatures",
    "kernel_fpu_begin_mask",
    "kernel_fpu_end",
    "crypto_skcipher_encrypt",
    "crypto_skcipher_decrypt",
    "crypto_aead_encrypt",
    "crypto_aead_decrypt",
    "crypto_ahash_digest",
    "crypto_ahash_update",
    "crypto_ahash_final",
    "crypto_ahash_finup",
    "crypto_enqueue_request",
    "crypto_dequeue_request",
    "skcipher_walk_virt",
    "skcipher_walk_done",
    "skcipher_walk_aead_encrypt",
    "skcipher_walk_aead_decrypt",
];

/// Returns the names of the `kernel/` functions that a tree may call.
pub(crate) fn border() -> BTreeSet<&'static str> {
    let functions = kiln_kernel::hosted::functions();
    functions.into_iter().map(|(name, _)| name).collect()
}

/// Reads the symbol tables of object files. The result is keyed by file name. Relative file names
/// refer to `dir`.
pub(crate) fn read_tables<P: AsRef<Path>>(
    dir: &Path,
    objects: &[P],
) -> Result<HashMap<String, Table>, Error> {
    let output = Command::new("nm")
        .arg("-A")
        .args(objects.iter().map(AsRef::as_ref))
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .map_err(|e| Error::tool("nm", "binutils", e))?;
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

pub(crate) fn parse(text: &str) -> HashMap<String, Table> {
    let mut tables: HashMap<String, Table> = HashMap::new();
    for line in text.lines() {
        // Each line has the format `file:[address] letter name`.
        let Some((file, rest)) = line.split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [.., letter, name] = words[..] else {
            continue;
        };
        let table = tables.entry(file.to_string()).or_default();
        match letter {
            "U" => {
                table.needed.insert(name.to_string());
            }
            "w" | "v" => {
                table.optional.insert(name.to_string());
            }
            l if l.starts_with(|c: char| c.is_ascii_uppercase()) => {
                table.defined.insert(name.to_string());
            }
            _ => {}
        }
    }
    tables
}
