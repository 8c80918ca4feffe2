//! The image's file: a static ELF executable of the link in `link.rs`.

use std::fs;
use std::path::Path;

use crate::Error;

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it belongs.
    pub address: u64,
    /// How much it takes there.
    pub size: u64,
    /// Where it begins in the file, and how much of it is there.
    pub offset: u64,
    pub file_size: u64,
    /// The bits PF_X, PF_W, PF_R.
    pub flags: u32,
}

/// A name for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    pub name: String,
    pub value: u64,
    pub global: bool,
    /// A number, no address.
    pub absolute: bool,
}

/// A section, as far as anybody asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub address: u64,
    pub size: u64,
    /// Empty if it has no contents in the file.
    pub offset: u64,
    pub in_file: bool,
}

/// A file that was checked as far as it is used.
#[derive(Debug)]
pub struct Elf {
    pub bytes: Vec<u8>,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
}

const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
const SHN_ABS: u16 = 0xfff1;

impl Elf {
    /// Reads and checks it.
    pub fn open(path: &Path) -> Result<Elf, Error> {
        let bytes = fs::read(path).map_err(|e| Error::io(path, &e))?;
        Elf::parse(bytes).map_err(|what| {
            Error::Lacks(format!(
                "{} is damaged ({what}): remove it, kiln makes it again",
                path.display()
            ))
        })
    }

    fn parse(bytes: Vec<u8>) -> Result<Elf, &'static str> {
        let file = Reader(&bytes);
        // 64 bits, little endian, version 1; an executable for x86-64.
        if file.slice(0, 7)? != b"\x7fELF\x02\x01\x01" || file.u16(16)? != 2 || file.u16(18)? != 62
        {
            return Err("no x86-64 executable");
        }
        let mut segments = Vec::new();
        let (start, size, count) = (file.u64(32)?, file.u16(54)?, file.u16(56)?);
        for i in 0..u64::from(count) {
            let at = start.saturating_add(i * u64::from(size));
            let segment = Segment {
                address: file.u64(at + 16)?,
                size: file.u64(at + 40)?,
                offset: file.u64(at + 8)?,
                file_size: file.u64(at + 32)?,
                flags: file.u32(at + 4)?,
            };
            if file.u32(at)? != PT_LOAD || segment.size == 0 {
                continue;
            }
            file.slice(segment.offset, segment.file_size)?;
            if segment.file_size > segment.size {
                return Err("a segment that is larger in the file");
            }
            segments.push(segment);
        }
        if segments.is_empty() {
            return Err("no segments");
        }
        let headers = Headers::of(&file)?;
        let mut sections = Vec::new();
        let mut symbols = Vec::new();
        for i in 0..headers.count {
            let section = headers.section(&file, i)?;
            if headers.kind(&file, i)? == SHT_SYMTAB {
                symbols = headers.symbols(&file, i)?;
            }
            sections.push(section);
        }
        if symbols.is_empty() {
            return Err("no symbols");
        }
        Ok(Elf {
            bytes,
            segments,
            sections,
            symbols,
        })
    }

    /// What the file has of a segment.
    pub fn contents(&self, segment: &Segment) -> &[u8] {
        &self.bytes[segment.offset as usize..][..segment.file_size as usize]
    }
}

/// The section headers.
struct Headers {
    start: u64,
    size: u64,
    count: u64,
    names: u64,
}

impl Headers {
    fn of(file: &Reader) -> Result<Headers, &'static str> {
        let mut headers = Headers {
            start: file.u64(40)?,
            size: u64::from(file.u16(58)?),
            count: u64::from(file.u16(60)?),
            names: 0,
        };
        file.slice(headers.start, headers.size * headers.count)?;
        let names = headers.at(u64::from(file.u16(62)?));
        headers.names = file.u64(names + 24)?;
        Ok(headers)
    }

    fn at(&self, i: u64) -> u64 {
        self.start.saturating_add(i * self.size).min(1 << 60)
    }

    fn kind(&self, file: &Reader, i: u64) -> Result<u32, &'static str> {
        file.u32(self.at(i) + 4)
    }

    fn section(&self, file: &Reader, i: u64) -> Result<Section, &'static str> {
        let at = self.at(i);
        let in_file = self.kind(file, i)? != SHT_NOBITS;
        let (offset, size) = (file.u64(at + 24)?, file.u64(at + 32)?);
        if in_file {
            file.slice(offset, size)?;
        }
        Ok(Section {
            name: file.string(self.names, u64::from(file.u32(at)?))?,
            address: file.u64(at + 16)?,
            size,
            offset,
            in_file,
        })
    }

    fn symbols(&self, file: &Reader, i: u64) -> Result<Vec<Symbol>, &'static str> {
        let at = self.at(i);
        let (table, size) = (file.u64(at + 24)?, file.u64(at + 32)?);
        let names = file.u64(self.at(u64::from(file.u32(at + 40)?)) + 24)?;
        let mut symbols = Vec::new();
        for n in 0..size / 24 {
            let entry = table.saturating_add(n * 24).min(1 << 60);
            let (info, section) = (file.slice(entry + 4, 1)?[0], file.u16(entry + 6)?);
            // Objects, functions and what assembly did not say; not undefined.
            if info & 15 > 2 || section == 0 {
                continue;
            }
            symbols.push(Symbol {
                name: file.string(names, u64::from(file.u32(entry)?))?,
                value: file.u64(entry + 8)?,
                global: info >> 4 != 0,
                absolute: section == SHN_ABS,
            });
        }
        Ok(symbols)
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn slice(&self, at: u64, size: u64) -> Result<&[u8], &'static str> {
        let end = at.checked_add(size).ok_or("a size beyond all files")?;
        if end > self.0.len() as u64 {
            return Err("it ends too early");
        }
        Ok(&self.0[at as usize..end as usize])
    }

    fn number<const N: usize>(&self, at: u64) -> Result<[u8; N], &'static str> {
        Ok(self.slice(at, N as u64)?.try_into().expect("as long"))
    }

    fn u16(&self, at: u64) -> Result<u16, &'static str> {
        self.number(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: u64) -> Result<u32, &'static str> {
        self.number(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: u64) -> Result<u64, &'static str> {
        // Offsets are added to: none is near the end of all numbers.
        self.number(at).map(u64::from_le_bytes)
    }

    fn string(&self, table: u64, at: u64) -> Result<String, &'static str> {
        let start = table.checked_add(at).ok_or("a name beyond all files")?;
        let rest = self.slice(start, (self.0.len() as u64).saturating_sub(start))?;
        let end = rest.iter().position(|&b| b == 0);
        let name = &rest[..end.ok_or("a name without an end")?];
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own program: no ET_EXEC, but an ELF file of the right machine.
    fn own() -> Vec<u8> {
        let mut bytes = fs::read("/proc/self/exe").unwrap();
        bytes[16] = 2;
        bytes
    }

    #[test]
    fn a_program_is_read() {
        let elf = Elf::parse(own()).unwrap();
        assert!(elf.segments.iter().any(|s| s.flags & 1 != 0));
        assert!(elf.symbols.iter().any(|s| s.name == "main" && s.global));
        assert!(elf
            .sections
            .iter()
            .any(|s| s.name == ".bss" && !s.in_file && s.size > 0));
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
