//! `KILN_TIERS`, an environment variable that restricts which ISA tiers Kiln uses.

use kiln_kernel::Tier;
use kiln_measure::warning::{Kind, Warning};

use crate::Error;

pub const VARIABLE: &str = "KILN_TIERS";

/// Applies `list`, a value of `KILN_TIERS` such as `generic,aesni`. An empty list allows all tiers.
///
/// # Errors
/// Fails if a tier is unknown (status 2), or if this CPU does not support a tier (status 3). If an
/// unsupported tier were ignored, a test of that tier would silently test a different one.
pub fn mask(list: &str) -> Result<(), Error> {
    if list.trim().is_empty() {
        return Ok(());
    }
    let mut tiers = Vec::new();
    for name in list.split(',').map(str::trim) {
        let words: Vec<&str> = name.split_whitespace().collect();
        if words.len() > 1 {
            return Err(Error::input(format!(
                "{VARIABLE}: '{name}': separate tiers by commas: {}",
                words.join(",")
            )));
        }
        let tier: Tier = name.parse().map_err(|_| {
            let known: Vec<_> = Tier::ALL.iter().map(|t| t.name()).collect();
            let e = crate::unknown("tier", name, &known);
            Error::input(format!("{VARIABLE}: {e}"))
        })?;
        if let Some(feature) = tier.lacks() {
            return Err(Error::lacks(format!(
                "{VARIABLE}: tier {tier}: this CPU lacks {feature}: leave {tier} out"
            )));
        }
        tiers.push(tier);
    }
    Tier::mask(&tiers);
    Ok(())
}

/// Describes whether a tier is usable, and if not, why.
pub fn reason(tier: Tier) -> String {
    match tier.lacks() {
        Some(feature) => format!("the CPU lacks {feature}"),
        None if !tier.usable() => format!("masked by {VARIABLE}"),
        None => "present".to_string(),
    }
}

/// Returns a warning that lists the unusable tiers, each with the reason, or `None` if all tiers
/// are usable.
pub fn warning() -> Option<Warning> {
    let missing: Vec<Tier> = Tier::ALL.into_iter().filter(|t| !t.usable()).collect();
    let best = Tier::ALL.into_iter().rfind(|t| t.usable())?;
    // Tiers that are unusable for the same reason are listed together.
    let names: Vec<(&str, String)> = missing.iter().map(|&t| (t.name(), reason(t))).collect();
    let groups = names.chunk_by(|a, b| a.1 == b.1).map(|group| {
        let tiers: Vec<&str> = group.iter().map(|n| n.0).collect();
        format!("{} ({})", tiers.join(", "), group[0].1)
    });
    let groups: Vec<String> = groups.collect();
    let cure = match missing.iter().any(|t| t.lacks().is_none()) {
        true => format!("To get the missing results, unset {VARIABLE}"),
        false => "To get the missing results, use another CPU".to_string(),
    };
    (!missing.is_empty()).then(|| Warning {
        kind: Kind::Missing,
        text: format!(
            "results of ISA tier{} {}. The best tier that was measured is {best}. {cure}",
            if missing.len() == 1 { "" } else { "s" },
            groups.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_that_are_not_there_are_named() {
        let missing = Tier::ALL.into_iter().filter(|t| !t.usable());
        let names: Vec<&str> = missing.map(Tier::name).collect();
        let Some(warning) = warning() else {
            return assert!(names.is_empty(), "{names:?}");
        };
        assert!(names.iter().all(|n| warning.text.contains(n)), "{warning}");
    }

    #[test]
    fn unknown_tiers_are_refused_and_named() {
        let e = mask("generic,aes-ni").unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().contains("did you mean 'aesni'"), "{e}");
        assert_eq!(mask(""), Ok(()));
        let e = mask("generic aesni").unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().ends_with("commas: generic,aesni"), "{e}");
        let e = mask("generic, aes-ni").unwrap_err();
        assert!(e.to_string().contains("did you mean 'aesni'"), "{e}");
    }
}
