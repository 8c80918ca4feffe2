//! Determines which CPU features a hosted tree can see when tiers are masked.

use kiln_kbuild::TIERS;

use crate::host::seen_tiers;

/// Returns the bit mask of the tiers that include a feature.
fn tiers_with(feature: &str) -> u32 {
    let numbered = TIERS.tiers.iter().enumerate();
    numbered
        .filter(|(_, tier)| tier.features.contains(&feature))
        .fold(0, |bits, (n, _)| bits | 1 << n)
}

/// Returns whether a hosted tree can see a CPU feature.
pub(crate) fn seen(feature: &str) -> bool {
    tiers_with(feature) & seen_tiers() != 0
}

/// Generates the table that `tree/cpu.c` includes. It lists Linux's features and XSAVE states, each
/// with the tiers that include it. Features that this version of Linux does not define are omitted,
/// because its code cannot check for them.
pub(crate) fn header() -> String {
    let mut text = "/* Generated from kernel/tiers.def. */\n\
                    static const struct { u32 tiers; u16 feature; } kiln_tier_features[] = {\n"
        .to_string();
    for (kernel, with) in kernel_features() {
        let tiers = tiers_with(with);
        text += &format!(
            "#ifdef X86_FEATURE_{kernel}\n\t{{ {tiers:#x}, X86_FEATURE_{kernel} }},\n#endif\n"
        );
    }
    text += "};\nstatic const struct { u32 tiers; u64 xfeatures; } kiln_tier_states[] = {\n";
    for feature in &TIERS.features {
        if let Some(state) = feature.state {
            text += &format!("\t{{ {:#x}, {state} }},\n", tiers_with(feature.id));
        }
    }
    text + "};\n"
}

/// Returns the name of each Linux feature, paired with the Kiln feature that hides it when masked.
fn kernel_features() -> impl Iterator<Item = (&'static str, &'static str)> {
    let listed = TIERS
        .features
        .iter()
        .filter_map(|f| Some((f.kernel?, f.id)));
    listed.chain(TIERS.kernel_features.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn a_feature_is_seen_with_each_tier_that_has_it() {
        let text = header();
        let number = |id: &str| TIERS.tiers.iter().position(|t| t.id == id).unwrap();
        let (sha, avx512) = (1 << number("SHA_NI"), 1 << number("VAES_AVX512"));
        assert!(
            text.contains(&format!("{{ {sha:#x}, X86_FEATURE_SHA_NI }}")),
            "{text}"
        );
        for line in [
            format!("{{ {avx512:#x}, X86_FEATURE_GFNI }}"),
            format!("{{ {avx512:#x}, X86_FEATURE_AVX512CD }}"),
            format!("{{ {avx512:#x}, BIT(5) | BIT(6) | BIT(7) }}"),
        ] {
            assert!(text.contains(&line), "{line}: {text}");
        }
        for tier in &TIERS.tiers[1..] {
            assert_ne!(tiers_with("SSSE3") & 1 << number(tier.id), 0);
        }
    }

    /// Checks that each name exists in at least one tree, because a misspelled name would hide
    /// nothing.
    #[test]
    fn linux_knows_every_name() {
        let mut known = String::new();
        for tree in ["KILN_TEST_TREE", "KILN_TEST_TREE_NEXT"] {
            let Some(tree) = env::var_os(tree).filter(|tree| !tree.is_empty()) else {
                println!("SKIPPED: {tree} is not set");
                return;
            };
            let names = std::path::Path::new(&tree).join("arch/x86/include/asm/cpufeatures.h");
            known += &fs::read_to_string(&names).unwrap();
        }
        let known: Vec<&str> = known.split_whitespace().collect();
        for (name, _) in kernel_features() {
            let name = format!("X86_FEATURE_{name}");
            assert!(known.contains(&name.as_str()), "{name}");
        }
    }
}
