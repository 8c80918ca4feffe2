//! Finds constants that are aligned only by chance. An assembly file may read a constant with an
//! instruction that requires an aligned address, although the constant's section does not request
//! that alignment. Such code works until a change elsewhere moves the constant.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, Formatter, GasFormatter, Instruction, Mnemonic, Register,
};
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
};

use crate::cache::{update, Cache};
use crate::Error;

/// Name of the file, next to the image, that lists the findings.
pub(crate) const FILE: &str = "constants";

/// An instruction that reads a constant whose alignment is not guaranteed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByChance {
    pub function: String,
    /// Offset of the instruction from the start of the function, in bytes.
    pub offset: u64,
    pub what: String,
}

/// Examines the objects built from assembly files, and writes the findings to [`FILE`] in the
/// directory `place`. Objects built from C files are skipped, because the compiler aligns their
/// constants.
///
/// # Errors
/// Fails if an object cannot be read, or the file cannot be written.
pub(crate) fn write(cache: &Cache, place: &Path, objects: &[String]) -> Result<(), Error> {
    let mut text = String::new();
    for object in objects {
        if cache.source.join(object).with_extension("c").exists() {
            continue;
        }
        let path = cache.objects.join(object);
        let bytes = fs::read(&path).map_err(|e| Error::cache(&path, e))?;
        let found = examine(&bytes).map_err(|e| Error::DamagedImage {
            path: path.clone(),
            what: e.to_string(),
        })?;
        for by_chance in found {
            let ByChance {
                function,
                offset,
                what,
            } = by_chance;
            text.push_str(&format!("{function} {offset} {what}\n"));
        }
    }
    update(&place.join(FILE), &text).map(|_| ())
}

/// Reads the file that [`write`] wrote next to the image.
///
/// # Errors
/// Fails if the image was linked by an older version of Kiln.
pub(crate) fn read(image: &Path) -> Result<Vec<ByChance>, Error> {
    let path = image.with_file_name(FILE);
    let text = fs::read_to_string(&path).map_err(|e| Error::cache(&path, e))?;
    let parse = |line: &str| {
        let mut words = line.splitn(3, ' ');
        Some(ByChance {
            function: words.next()?.into(),
            offset: words.next()?.parse().ok()?,
            what: words.next()?.into(),
        })
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// Examines all code of a relocatable object.
fn examine(bytes: &[u8]) -> object::Result<Vec<ByChance>> {
    let file = ElfFile64::<LittleEndian>::parse(bytes)?;
    let mut found = Vec::new();
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let relocations: BTreeMap<u64, _> = section.relocations().collect();
        if relocations.is_empty() {
            continue;
        }
        let names = functions(&file, section.index());
        for i in Decoder::with_ip(64, section.data()?, 0, DecoderOptions::NONE).iter() {
            let Some(needed) = needed(&i) else { continue };
            let Some((at, relocation)) = relocations.range(i.ip()..i.next_ip()).next() else {
                continue;
            };
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                continue;
            };
            let symbol = file.symbol_by_index(symbol)?;
            let Some(section) = symbol.section_index() else {
                continue;
            };
            let section = file.section_by_index(section)?;
            // A RIP-relative operand is relative to the end of the instruction, but its relocation
            // is relative to the location of the operand itself.
            let distance = match i.memory_base() {
                Register::RIP => i.next_ip() - at,
                _ => 0,
            };
            let place = symbol.address() as i64 + relocation.addend() + distance as i64;
            let given = section
                .align()
                .min(1 << place.trailing_zeros().min(62))
                .max(1);
            if given >= needed {
                continue;
            }
            let (start, function) = names.range(..=i.ip()).next_back().unwrap_or((&0, &"?"));
            let mut text = String::new();
            GasFormatter::new().format_mnemonic(&i, &mut text);
            found.push(ByChance {
                function: (*function).to_owned(),
                offset: i.ip() - start,
                what: format!(
                    "'{text}' reads a constant at a multiple of {needed}, but {} only guarantees \
                     {given}",
                    section.name()?
                ),
            });
        }
    }
    Ok(found)
}

/// Returns the names of the functions in a section, keyed by address.
fn functions<'a>(
    file: &'a ElfFile64<'_, LittleEndian>,
    section: SectionIndex,
) -> BTreeMap<u64, &'a str> {
    let own = file
        .symbols()
        .filter(|s| s.section_index() == Some(section) && !s.name().unwrap_or("").is_empty());
    own.map(|s| (s.address(), s.name().unwrap_or(""))).collect()
}

/// Returns the alignment in bytes that an instruction requires of the constant that it reads.
/// Returns `None` if the instruction accepts any alignment, or if it does not read a constant at a
/// fixed address.
fn needed(i: &Instruction) -> Option<u64> {
    let is_fixed = matches!(i.memory_base(), Register::None | Register::RIP)
        && i.memory_index() == Register::None;
    let size = i.memory_size().size() as u64;
    if !is_fixed || size < 16 {
        return None;
    }
    let requires = match i.encoding() {
        // SSE instructions require an aligned operand, with a few exceptions (SDM volume 1, section
        // 4.1.1).
        EncodingKind::Legacy => {
            (0..i.op_count()).any(|n| i.op_register(n).is_xmm()) && !is_unaligned(i.mnemonic())
        }
        // With all other encodings, only the aligned moves require an aligned operand (SDM volume
        // 1, section 14.9).
        _ => matches!(
            i.mnemonic(),
            Mnemonic::Vmovdqa
                | Mnemonic::Vmovdqa32
                | Mnemonic::Vmovdqa64
                | Mnemonic::Vmovaps
                | Mnemonic::Vmovapd
                | Mnemonic::Vmovntdqa
                | Mnemonic::Vmovntdq
                | Mnemonic::Vmovntps
                | Mnemonic::Vmovntpd
        ),
    };
    requires.then_some(size)
}

/// Returns whether this SSE instruction accepts an operand with any alignment.
fn is_unaligned(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Movdqu
            | Mnemonic::Movups
            | Mnemonic::Movupd
            | Mnemonic::Lddqu
            | Mnemonic::Pcmpestri
            | Mnemonic::Pcmpestrm
            | Mnemonic::Pcmpistri
            | Mnemonic::Pcmpistrm
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn assemble(text: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        let (source, object) = (dir.path().join("a.s"), dir.path().join("a.o"));
        fs::write(&source, text).expect("the source is written");
        let mut assembler = Command::new("as");
        assembler.arg(&source).arg("-o").arg(&object);
        assert!(assembler.status().expect("an assembler").success());
        fs::read(object).expect("an object")
    }

    #[test]
    fn constants_that_are_aligned_by_chance_are_found() {
        let of = |align: u32, instructions: &str| -> Vec<(String, u64)> {
            let text = format!(
                ".text\nf: nop\n{instructions}\nret\n\
                 .section .rodata.mask, \"a\"\n.balign {align}\n.quad 1, 2\nmask: .quad 3, 4, 5, 6\n"
            );
            let found = examine(&assemble(&text)).expect("an object");
            found.into_iter().map(|f| (f.function, f.offset)).collect()
        };
        let wrong = vec![("f".to_owned(), 1)];
        for (instructions, align, expected) in [
            ("movdqa mask(%rip), %xmm1", 16, vec![]),
            ("movdqa mask(%rip), %xmm1", 8, wrong.clone()),
            ("pshufb mask(%rip), %xmm1", 8, wrong.clone()),
            ("pxor mask+8(%rip), %xmm1", 16, wrong.clone()),
            ("movdqa mask, %xmm1", 8, wrong.clone()),
            ("vmovdqa mask(%rip), %ymm1", 16, wrong.clone()),
            ("vmovdqa mask+16(%rip), %ymm1", 32, vec![]),
            ("vmovdqa mask(%rip), %ymm1", 32, wrong),
            // These instructions either accept an unaligned address, or read from an address
            // computed at run time.
            ("movdqu mask(%rip), %xmm1", 1, vec![]),
            ("vpshufb mask(%rip), %xmm1, %xmm1", 1, vec![]),
            ("movdqa mask(,%rax), %xmm1", 1, vec![]),
            ("movq mask(%rip), %xmm1", 1, vec![]),
        ] {
            assert_eq!(of(align, instructions), expected, "{instructions}");
        }
    }
}
