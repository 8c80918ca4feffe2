//! Parses `kernel/tiers.def`, the table of tiers, for build scripts and Rust code.

use std::sync::LazyLock;

/// The table of tiers, parsed from the copy of `tiers.def` that is built into this program.
pub static TIERS: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("../../../kernel/tiers.def");
    parse(text).unwrap_or_else(|e| panic!("kernel/tiers.def: {e}"))
});

/// All rows of `tiers.def`, in file order.
#[derive(Debug, Default)]
pub struct Table {
    /// CPU features, from the `FEATURE` rows.
    pub features: Vec<Feature>,
    /// `(name, feature)` pairs from the `KERNEL_FEATURE` rows. A hosted tree sees the CPU feature
    /// that Linux calls `name` whenever it sees `feature`.
    pub kernel_features: Vec<(&'static str, &'static str)>,
    /// Tiers, from the `TIER` rows.
    pub tiers: Vec<Tier>,
}

/// A feature of a CPU or of its operating system.
#[derive(Debug)]
pub struct Feature {
    /// Name in the table, such as `AVX512_VBMI2`.
    pub id: &'static str,
    /// The XCR0 bits, as a C expression, if the feature is operating-system support for registers.
    /// `None` if the feature is a set of instructions.
    pub state: Option<&'static str>,
    /// Compiler flag that enables the feature, if any.
    pub flag: Option<&'static str>,
    /// Name in Linux, without `X86_FEATURE_`, if Linux has a name for it.
    pub kernel: Option<&'static str>,
}

/// A set of CPU features that source files are written for.
#[derive(Debug)]
pub struct Tier {
    /// Name in the table, such as `VAES_AVX512`.
    pub id: &'static str,
    /// Suffix in the names of the tier's source files, such as `vaes_avx512`.
    pub suffix: String,
    /// Width in bits of the widest register that the tier uses.
    pub bits: u32,
    /// Features that the tier requires, in the order of the table.
    pub features: Vec<&'static str>,
    /// Target flags for compiling the tier's source files.
    pub flags: Vec<&'static str>,
}

impl Tier {
    /// Returns the name used in driver names and in texts for users, such as `vaes-avx512`.
    pub fn name(&self) -> String {
        self.suffix.replace('_', "-")
    }
}

/// Converts a name in the table, such as `VAES_AVX512`, to an enum variant in Rust: `VaesAvx512`.
pub fn variant(id: &str) -> String {
    id.split('_')
        .map(|word| word[..1].to_string() + &word[1..].to_lowercase())
        .collect()
}

fn parse(text: &'static str) -> Result<Table, String> {
    let mut table = Table::default();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[start..];
        let ended = |end: Option<usize>| {
            end.ok_or_else(|| format!("no end: {}", rest.lines().next().unwrap_or("")))
        };
        let end = if rest.starts_with("/*") {
            ended(rest.find("*/"))? + "*/".len()
        } else if rest.starts_with('#') {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            let end = ended(closing(rest))?;
            let row = &rest[..end];
            table.add(row).map_err(|why| format!("{why}: {row}"))?;
            end + 1
        };
        rest = &rest[end..];
    }
    Ok(table)
}

/// Returns the index of the parenthesis that closes the first opening parenthesis in `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ')' && depth == 0
    })
}

impl Table {
    /// Parses a row and adds it to the table. `row` must not include its closing parenthesis.
    fn add(&mut self, row: &'static str) -> Result<(), String> {
        let (kind, row) = row.split_once('(').ok_or("not a row")?;
        let fields: Vec<&str> = row.split(',').map(str::trim).collect();
        let some = |field: &'static str| Some(field.trim_matches('"')).filter(|f| !f.is_empty());
        match (kind, fields.as_slice()) {
            ("FEATURE", &[id, leaf, _, bits, _, flag, kernel]) => self.features.push(Feature {
                id,
                state: (leaf == "LEAF_XCR0").then_some(bits),
                flag: some(flag),
                kernel: some(kernel),
            }),
            ("KERNEL_FEATURE", &[kernel, with]) => {
                self.feature(with)?;
                self.kernel_features.push((kernel, with));
            }
            ("TIER", &[id, bits, features]) => {
                let bits = bits.parse().map_err(|_| "bits are a number")?;
                let has = self.union(features)?;
                let has = || self.features.iter().filter(|f| has.contains(&f.id));
                let tier = Tier {
                    id,
                    suffix: id.to_lowercase(),
                    bits,
                    features: has().map(|f| f.id).collect(),
                    flags: has().filter_map(|f| f.flag).collect(),
                };
                self.tiers.push(tier);
            }
            _ => return Err("not a row of this table".into()),
        }
        Ok(())
    }

    fn feature(&self, id: &str) -> Result<&Feature, String> {
        let found = self.features.iter().find(|f| f.id == id);
        found.ok_or_else(|| format!("there is no feature {id} above"))
    }

    /// Returns the features that an expression such as `ALL_OF(AVX2) | HAS(VAES)` combines.
    fn union(&self, expression: &'static str) -> Result<Vec<&'static str>, String> {
        let mut all = Vec::new();
        for term in expression.split('|').map(str::trim) {
            match term.trim_end_matches(')').split_once('(') {
                Some(("HAS", feature)) => all.push(self.feature(feature)?.id),
                Some(("ALL_OF", id)) => {
                    let tier = self.tiers.iter().find(|t| t.id == id);
                    let tier = tier.ok_or_else(|| format!("there is no tier {id} above"))?;
                    all.extend(&tier.features);
                }
                _ if term == "0" => {}
                _ => return Err(format!("{term} is neither HAS() nor ALL_OF()")),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_has_the_features_and_flags_of_those_it_includes() {
        let tier = |id: &str| TIERS.tiers.iter().find(|t| t.id == id).unwrap();
        assert_eq!(TIERS.tiers[0].name(), "generic");
        assert!(TIERS.tiers[0].flags.is_empty());
        let avx512 = tier("VAES_AVX512");
        assert_eq!((avx512.bits, avx512.name().as_str()), (512, "vaes-avx512"));
        for flag in &tier("VAES_AVX2").flags {
            assert!(avx512.flags.contains(flag), "{flag}");
        }
        assert!(avx512.flags.contains(&"-mavx512vbmi2"));
        assert!(!avx512.features.contains(&"SHA"));
        assert!(!tier("SHA_NI").features.contains(&"AES"));
        assert_eq!(variant("VAES_AVX512"), "VaesAvx512");
    }

    #[test]
    fn states_have_bits_and_instructions_have_flags() {
        for f in &TIERS.features {
            assert_eq!(f.state.is_some(), f.flag.is_none(), "{f:?}");
        }
        let zmm = TIERS.features.iter().find(|f| f.id == "ZMM_STATE").unwrap();
        assert_eq!(zmm.state, Some("BIT(5) | BIT(6) | BIT(7)"));
    }

    #[test]
    fn what_is_not_such_a_table_is_refused() {
        for (text, why) in [
            ("TIER(A, 64)", "not a row of this table"),
            ("TIRE(A, 64, 0)", "not a row of this table"),
            ("TIER(A, wide, 0)", "bits are a number"),
            ("TIER(A, 64, HAS(B))", "no feature B above"),
            ("TIER(A, 64, ALL_OF(B))", "no tier B above"),
            ("TIER(A, 64, B)", "neither HAS() nor ALL_OF()"),
            ("KERNEL_FEATURE(A, B)", "no feature B above"),
            ("TIER(A, 64, 0", "no end"),
            ("/* TIER(A, 64, 0)", "no end"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
