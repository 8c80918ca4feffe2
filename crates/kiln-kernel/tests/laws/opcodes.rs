//! Defines which instructions ciphers may use, and which CPU features each tier may rely on.

use iced_x86::{CpuidFeature, Mnemonic};
use kiln_kbuild::TIERS;
use CpuidFeature::{CMOV, INTEL186, INTEL386, INTEL486, INTEL8086, MULTIBYTENOP, X64};

use crate::timing::name;

/*
 * The tables list allowed instructions, because a list of forbidden ones would never be complete.
 * An allowed instruction meets one of three conditions: it is on Intel's list of instructions with
 * data operand independent timing; it has a single latency in every table of AMD's Software
 * Optimization Guides for families 17h to 1Ah; or it is a jump, which tests/constant_time/ checks.
 *
 * Not allowed, even where they would be useful:
 * - div, idiv and floating point, because dividends and denormals affect the timing;
 * - pdep and pext, which are microcoded before Zen 3 and take one step per bit of the mask;
 * - gathers, scatters, maskmov, pcmpestri and similar instructions, and compressing stores;
 * - bsf and bsr, because on older CPUs the position of the bit affects the timing.
 *
 * The timing of rep stos and rep movs depends on the address and the count, which are public. The
 * timing of vpexpandb on registers depends on its mask, which is also public. A prefetch is
 * allowed, because it is a load whose value is not used.
 */
const GENERAL: &str = "
    adc add and andn bswap bt btc btr bts bzhi call cbw cdq cdqe clc cmp cqo crc32 cwde dec
    imul inc jmp lea leave mov movbe movsx movsxd movzx mul mulx neg nop not or pop push ret
    rol ror rorx sahf sal sar sarx sbb shl shld shlx shr shrd shrx stc sub test ud2 xadd xchg xor
    movsb movsd movsq movsw stosb stosd stosq stosw
    prefetcht0";

/// Vector instructions. The VEX and EVEX forms, which start with a v, are also allowed.
const VECTOR: &str = "
    lddqu movaps movapd movd movddup movdqa movdqa32 movdqa64 movdqu movdqu16 movdqu32 movdqu64
    movdqu8 movhlps movhpd movhps movlhps movlpd movlps movntdq movq movsd movshdup movsldup
    movss movupd movups
    andnpd andnps andpd andps orpd orps pand pandd pandn pandnd pandnq pandq por pord porq
    pternlogd pternlogq pxor pxord pxorq xorpd xorps
    paddb paddd paddq paddw psubb psubd psubq psubw pavgb pavgw
    pmaddubsw pmaddwd pmuldq pmulhuw pmulhw pmulld pmullq pmullw pmuludq pmadd52huq pmadd52luq
    pmaxud pmaxuq pminud pminuq pabsd
    pcmpeqb pcmpeqd pcmpeqq pcmpeqw pcmpgtb pcmpgtd pcmpgtq pcmpgtw
    pcmpb pcmpd pcmpq pcmpw pcmpub pcmpud pcmpuq pcmpuw ptest ptestmb ptestmd ptestmq ptestnmd
    ptestnmq pmovmskb movmskps movmskpd
    pslld pslldq psllq psllvd psllvq psllw psrad psraq psravd psraw psrld psrldq psrlq psrlvd
    psrlvq psrlw prold prolq prolvd prolvq prord prorq prorvd prorvq pshldd pshldq pshldvd
    pshldvq pshrdd pshrdq pshrdvd pshrdvq
    alignd alignq palignr blendpd blendps blendvpd blendvps pblendd pblendvb pblendw blendmpd
    blendmps pblendmb pblendmd pblendmq
    packssdw packsswb packusdw packuswb punpckhbw punpckhdq punpckhqdq punpckhwd punpcklbw
    punpckldq punpcklqdq punpcklwd unpckhpd unpckhps unpcklpd unpcklps
    pshufb pshufd pshufhw pshuflw shufpd shufps shufi32x4 shufi64x2 shuff32x4 shuff64x2
    perm2f128 perm2i128 permb permd permq permw permps permpd permilpd permilps permi2b permi2d
    permi2q permi2w permt2b permt2d permt2q permt2w pmultishiftqb pexpandb
    broadcastf128 broadcastf32x2 broadcastf32x4 broadcastf64x2 broadcastf64x4 broadcasti128
    broadcasti32x2 broadcasti32x4 broadcasti32x8 broadcasti64x2 broadcasti64x4 broadcastsd
    broadcastss pbroadcastb pbroadcastd pbroadcastq pbroadcastw
    extractf128 extractf32x4 extractf32x8 extractf64x2 extractf64x4 extracti128 extracti32x4
    extracti32x8 extracti64x2 extracti64x4 extractps insertf128 insertf32x4 insertf32x8
    insertf64x2 insertf64x4 inserti128 inserti32x4 inserti32x8 inserti64x2 inserti64x4 insertps
    pextrb pextrd pextrq pextrw pinsrb pinsrd pinsrq pinsrw
    pmovqd pmovqw pmovqb pmovdw pmovdb pmovwb pmovsxbd pmovsxbq pmovsxbw pmovsxdq pmovsxwd
    pmovsxwq pmovzxbd pmovzxbq pmovzxbw pmovzxdq pmovzxwd pmovzxwq pmovm2b pmovm2d pmovm2q
    pmovb2m pmovd2m pmovq2m
    aesdec aesdeclast aesenc aesenclast aesimc pclmulqdq gf2p8affineinvqb gf2p8affineqb
    gf2p8mulb sha1msg1 sha1msg2 sha1nexte sha1rnds4 sha256msg1 sha256msg2 sha256rnds2
    zeroall zeroupper";

/// Mask instructions, without their suffix b, w, d or q.
const MASK: &str = "kadd kand kandn kmov knot kor kortest kshiftl kshiftr ktest kunpck kxnor kxor";

/// Returns whether an instruction is known to take the same time for all operands.
pub(crate) fn takes_constant_time(mnemonic: Mnemonic) -> bool {
    let name = name(mnemonic);
    let within = |list: &str, name: &str| list.split_whitespace().any(|m| m == name);
    let condition = |of: &str| name.strip_prefix(of).is_some_and(is_condition);
    within(GENERAL, &name)
        || within(VECTOR, &name)
        || name
            .strip_prefix('v')
            .is_some_and(|name| within(VECTOR, name))
        || name
            .strip_suffix(['b', 'w', 'd', 'q'])
            .is_some_and(|name| within(MASK, name))
        || ["j", "set", "cmov"].into_iter().any(condition)
}

fn is_condition(name: &str) -> bool {
    let all = "a ae b be e g ge l le ne no np ns o p s";
    all.split(' ').any(|c| c == name)
}

/// Features that cover the general-purpose instructions of every x86-64 CPU.
const BASE: &[CpuidFeature] = &[
    INTEL8086,
    INTEL186,
    INTEL386,
    INTEL486,
    X64,
    CMOV,
    MULTIBYTENOP,
];

/// Returns whether all CPUs of a tier have this feature. `suffix` is the suffix of the tier's
/// source files, or `None` for no tier. `kernel/tiers.def` and the disassembler use the same
/// feature names.
pub(crate) fn has_feature(suffix: Option<&str>, feature: CpuidFeature) -> bool {
    let tier = suffix.map(|suffix| {
        let found = TIERS.tiers.iter().find(|t| t.suffix == suffix);
        found.unwrap_or_else(|| panic!("{suffix} is not a tier"))
    });
    let name = format!("{feature:?}");
    BASE.contains(&feature) || tier.is_some_and(|t| t.features.contains(&name.as_str()))
}
