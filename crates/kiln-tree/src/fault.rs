//! Translates addresses in a tree's image to symbol names.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, Symbol};

/// The image's symbols, sorted by address. They are read on first use.
#[derive(Debug)]
pub struct Symbols {
    image: PathBuf,
    sorted: OnceCell<Vec<(u64, String)>>,
}

impl Symbols {
    pub fn lazily(image: &Path) -> Symbols {
        Symbols {
            image: image.to_owned(),
            sorted: OnceCell::new(),
        }
    }

    /// Creates the table from symbols that have already been read from an image.
    pub(crate) fn from_symbols(symbols: &[Symbol]) -> Symbols {
        let known = Symbols::lazily(Path::new(""));
        let _ = known.sorted.set(sort(symbols));
        known
    }

    /// Formats an address as `function+0x12`, or as a bare number if it is outside the image.
    pub fn name(&self, address: u64) -> String {
        let sorted = self.sorted.get_or_init(|| {
            Elf::open(&self.image).map_or_else(|_| Vec::new(), |e| sort(&e.symbols))
        });
        let after = sorted.partition_point(|(start, _)| *start <= address);
        match after.checked_sub(1).map(|i| &sorted[i]) {
            // The size of the last symbol is unknown, so addresses after it are not given a name.
            Some((start, name)) if after < sorted.len() => format!("{name}+{:#x}", address - start),
            _ => format!("{address:#x}"),
        }
    }

    /// Describes a crash on one line: what happened, and where.
    pub fn fault(&self, what: &str, address: u64) -> String {
        format!("{what}, in {}", self.name(address))
    }
}

/// Sorts the symbols by address. Skips absolute symbols, which are per-CPU offsets. Among symbols
/// with the same address, a global symbol is preferred.
fn sort(symbols: &[Symbol]) -> Vec<(u64, String)> {
    let mut sorted: Vec<&Symbol> = symbols.iter().filter(|s| !s.absolute).collect();
    sorted.sort_by_key(|s| (s.value, !s.global));
    sorted.dedup_by_key(|s| s.value);
    sorted.iter().map(|s| (s.value, s.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(value: u64, name: &str, global: bool, absolute: bool) -> Symbol {
        Symbol {
            name: name.into(),
            value,
            global,
            absolute,
        }
    }

    #[test]
    fn faults_name_the_function() {
        let symbols = Symbols::from_symbols(&[
            symbol(0x401080, "local", false, false),
            symbol(0x401080, "_xts", true, false),
            symbol(0x401000, "aes_enc", false, false),
            symbol(0, "pcpu_hot", true, true),
            symbol(0x402000, "_end", true, false),
        ]);
        assert_eq!(symbols.name(0x401000), "aes_enc+0x0");
        assert_eq!(symbols.name(0x401085), "_xts+0x5");
        assert_eq!(symbols.name(0x7f00_0000_0000), "0x7f0000000000");
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(
            symbols.fault("Segmentation fault at 0x8", 0x401012),
            "Segmentation fault at 0x8, in aes_enc+0x12"
        );
    }
}
