//! Parses the image file, a static ELF executable that `link.rs` linked.

use std::fs;
use std::path::Path;

use object::read::elf::ElfFile64;
use object::{
    Architecture, LittleEndian, Object, ObjectKind, ObjectSection, ObjectSegment, ObjectSymbol,
    SymbolKind, SymbolSection,
};

use crate::Error;

/// A loadable segment of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The segment's load address.
    pub address: u64,
    /// Size in memory, in bytes.
    pub size: u64,
    /// Offset and size of the segment's contents in the file.
    range: (u64, u64),
    pub executable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub name: String,
    pub value: u64,
    pub global: bool,
    pub absolute: bool,
}

/// A section, reduced to the fields that Kiln uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    pub name: String,
    pub address: u64,
    pub size: u64,
    /// Offset and size of the section's contents in the file; `None` if the section has no contents
    /// in the file.
    range: Option<(u64, u64)>,
}

/// An ELF file. The parts that Kiln uses have been validated.
#[derive(Debug)]
pub(crate) struct Elf {
    bytes: Vec<u8>,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
}

impl Elf {
    /// Reads an ELF file and validates the parts that Kiln uses.
    pub(crate) fn open(path: &Path) -> Result<Elf, Error> {
        let bytes = fs::read(path).map_err(|e| Error::cache(path, e))?;
        Elf::parse(bytes).map_err(|what| Error::DamagedImage {
            path: path.to_owned(),
            what,
        })
    }

    fn parse(bytes: Vec<u8>) -> Result<Elf, String> {
        let fault = |e: object::Error| e.to_string();
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).map_err(fault)?;
        if file.kind() != ObjectKind::Executable || file.architecture() != Architecture::X86_64 {
            return Err("no x86-64 executable".to_string());
        }
        let name = |bytes: object::Result<&[u8]>| -> Result<String, String> {
            Ok(String::from_utf8_lossy(bytes.map_err(fault)?).into_owned())
        };
        let mut segments = Vec::new();
        for segment in file.segments().filter(|s| s.size() > 0) {
            if segment.data().map_err(fault)?.len() as u64 > segment.size() {
                return Err("a segment that is larger in the file than in memory".to_string());
            }
            segments.push(Segment {
                address: segment.address(),
                size: segment.size(),
                range: segment.file_range(),
                executable: segment.permissions().executable(),
            });
        }
        let mut sections = Vec::new();
        for section in file.sections() {
            section.data().map_err(fault)?;
            sections.push(Section {
                name: name(section.name_bytes())?,
                address: section.address(),
                size: section.size(),
                range: section.file_range(),
            });
        }
        let mut symbols = Vec::new();
        for symbol in file.symbols().filter(|s| !s.is_undefined()) {
            // Symbols defined in assembly may have no type.
            let kinds = [SymbolKind::Unknown, SymbolKind::Data, SymbolKind::Text];
            if kinds.contains(&symbol.kind()) {
                symbols.push(Symbol {
                    name: name(symbol.name_bytes())?,
                    value: symbol.address(),
                    global: symbol.is_global(),
                    absolute: symbol.section() == SymbolSection::Absolute,
                });
            }
        }
        if segments.is_empty() || symbols.is_empty() {
            return Err("no segments or no symbols".to_string());
        }
        Ok(Elf {
            bytes,
            segments,
            sections,
            symbols,
        })
    }

    /// Returns the contents of a segment in the file.
    pub(crate) fn contents(&self, segment: &Segment) -> &[u8] {
        self.range(segment.range)
    }

    /// Returns the contents of a section; `None` if the section has no contents in the file.
    pub(crate) fn section(&self, section: &Section) -> Option<&[u8]> {
        section.range.map(|range| self.range(range))
    }

    fn range(&self, (offset, size): (u64, u64)) -> &[u8] {
        let from = self.bytes.get(offset as usize..).unwrap_or_default();
        from.get(..size as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a copy of this test's own executable, with its type changed to ET_EXEC. It is a
    /// convenient test file, because it is an ELF file for the right machine.
    fn own() -> Vec<u8> {
        let mut bytes = fs::read("/proc/self/exe").unwrap();
        bytes[16] = 2;
        bytes
    }

    #[test]
    fn a_program_is_read() {
        let elf = Elf::parse(own()).unwrap();
        assert!(elf.segments.iter().any(|s| s.executable));
        assert!(elf.symbols.iter().any(|s| s.name == "main" && s.global));
        assert!(elf
            .sections
            .iter()
            .any(|s| s.name == ".bss" && elf.section(s).is_none() && s.size > 0));
    }

    #[test]
    fn a_truncated_file_is_refused_at_every_length() {
        let bytes = own();
        for n in (0..64)
            .chain((64..bytes.len()).step_by(bytes.len() / 97))
            .chain(bytes.len() - 64..bytes.len())
        {
            assert!(Elf::parse(bytes[..n].to_vec()).is_err(), "{n}");
        }
    }

    #[test]
    fn nonsense_is_refused_without_a_panic() {
        assert!(Elf::parse(vec![0xff; 4096]).is_err());
        let mut bytes = own();
        let end = bytes.len().min(4096);
        for i in 16..end {
            let old = bytes[i];
            if i >= 64 && i % 61 != 0 {
                continue;
            }
            bytes[i] = 0xff;
            let _ = Elf::parse(bytes.clone());
            bytes[i] = old;
        }
    }
}
