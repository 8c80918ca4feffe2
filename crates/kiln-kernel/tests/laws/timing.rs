//! Checks that ciphers use only instructions whose timing does not depend on secret operands, and
//! only instructions that the cipher's tier provides. `opcodes.rs` lists the allowed instructions.
//!
//! These checks cannot detect addresses and jumps that depend on secrets; `tests/constant_time/`
//! checks those.

use std::fs;

use iced_x86::{CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use kiln_kbuild::Object;
use object::{Object as _, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::opcodes::{has_feature, takes_constant_time};

/// An instruction and its location in an object.
pub(crate) struct Place {
    /// Location as `FUNCTION+OFFSET`.
    pub at: String,
    pub instruction: Instruction,
}

pub(crate) fn instructions(object: &Object) -> Vec<Place> {
    let bytes = fs::read(&object.path).unwrap_or_else(|e| panic!("{}: {e}", object.path.display()));
    let file = object::File::parse(&*bytes).expect("an ELF object");
    let mut all = Vec::new();
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let functions: Vec<_> = file
            .symbols()
            .filter(|s| s.kind() == SymbolKind::Text && s.section_index() == Some(section.index()))
            .collect();
        let code = section.data().expect("code that is not compressed");
        for instruction in Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE) {
            let ip = instruction.ip();
            let within = functions
                .iter()
                .filter(|f| f.address() <= ip)
                .max_by_key(|f| f.address());
            let at = match within {
                Some(f) => format!("{}+{:#x}", f.name().unwrap_or("?"), ip - f.address()),
                None => format!("{}+{ip:#x}", section.name().unwrap_or("?")),
            };
            all.push(Place { at, instruction });
        }
    }
    all
}

/// Returns instructions that are not on the list. Their timing may depend on their operands.
pub(crate) fn operand_time(object: &Object) -> Vec<String> {
    report(object, |i| {
        let known = takes_constant_time(i.mnemonic());
        (!known).then(|| "is not known to take the same time for all operands".to_owned())
    })
}

/// Returns instructions that need a CPU feature beyond the object's tier.
pub(crate) fn beyond_tier(object: &Object) -> Vec<String> {
    let tier = object.simd.unwrap_or("general registers");
    report(object, |i| {
        let lacks: Vec<&CpuidFeature> = i
            .cpuid_features()
            .iter()
            .filter(|f| !has_feature(object.simd, **f))
            .collect();
        (!lacks.is_empty()).then(|| format!("needs {lacks:?}, which {tier} is without"))
    })
}

/// Returns the number of conditional jumps in an object. This check cannot determine whether the
/// jumps depend on secrets.
pub(crate) fn conditional_jumps(object: &Object) -> usize {
    let all = instructions(object);
    let jumps = |p: &&Place| p.instruction.flow_control() == FlowControl::ConditionalBranch;
    all.iter().filter(jumps).count()
}

fn report(object: &Object, offends: impl Fn(&Instruction) -> Option<String>) -> Vec<String> {
    let source = object.source.display();
    instructions(object)
        .iter()
        .filter_map(|p| {
            let why = offends(&p.instruction)?;
            let name = name(p.instruction.mnemonic());
            Some(format!("{source}: {}: {name} {why}", p.at))
        })
        .collect()
}

/// Returns the mnemonic in lower case, as assemblers write it.
pub(crate) fn name(mnemonic: Mnemonic) -> String {
    format!("{mnemonic:?}").to_lowercase()
}
