//! Checks that driver names follow the kernel's convention.

use std::collections::BTreeSet;

/// Checks that driver names are unique, follow the kernel's convention (ALGORITHM-...-TIER) and end
/// with the driver's own tier. In tier 0, which uses only general-purpose registers, a name may end
/// with anything except the name of another tier. Returns the violations.
pub(crate) fn driver_violations(drivers: &[(&str, usize)], tiers: &[String]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for &(name, tier) in drivers {
        if !well_formed(name) {
            violations.push(format!(
                "{name:?} does not follow the kernel's convention for driver names"
            ));
        }
        if !seen.insert(name) {
            violations.push(format!("{name:?} is there twice"));
        }
        // Prefer the longest match, because one tier's name may be a suffix of another's. The name
        // of a driver of the tier "vaes-avx512" may also end with just "avx512".
        let named = (1..tiers.len())
            .filter(|&t| {
                let without_aes = tiers[t].trim_start_matches("vaes-");
                let short = !tiers.iter().any(|other| other == without_aes);
                name.ends_with(&format!("-{}", tiers[t]))
                    || short && name.ends_with(&format!("-{without_aes}"))
            })
            .max_by_key(|&t| tiers[t].len())
            .unwrap_or(0);
        if named != tier {
            let is = tiers.get(tier).map_or("an unknown one", String::as_str);
            violations.push(format!(
                "{name:?} is named for tier {}, and its tier is {is}",
                tiers[named]
            ));
        }
    }
    violations
}

/// Returns whether the name matches the regular expression `^[a-z0-9]+(-[a-z0-9_]+)+$`.
fn well_formed(name: &str) -> bool {
    let mut parts = name.split('-');
    let word = |part: &str, more: &[u8]| {
        let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || more.contains(&b);
        !part.is_empty() && part.bytes().all(ok)
    };
    parts.next().is_some_and(|first| word(first, b""))
        && name.contains('-')
        && parts.all(|part| word(part, b"_"))
}
