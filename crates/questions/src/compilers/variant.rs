//! Defines build variants. A variant adds compiler flags to those of an optimization level, or
//! removes the flags that a tree sets only for the object under test.

use std::fmt;

use kiln_question::Error;

use super::toolchain::Toolchain;

/// The flags that `patched` adds. Like the patch for gcc bug 83651, they disable `-ftree-pre` and
/// `-ftree-sra`.
const PATCHED: [&str; 2] = ["-fno-tree-pre", "-fno-tree-sra"];

/// The checks that `UBSAN`, `UBSAN_NULL` and `UBSAN_ALIGNMENT` enable in Linux 4.15. These were the
/// kernel's checks when gcc bug 83651 was reported.
pub(super) const UBSAN: [&str; 12] = [
    "-fsanitize=shift",
    "-fsanitize=integer-divide-by-zero",
    "-fsanitize=unreachable",
    "-fsanitize=vla-bound",
    "-fsanitize=null",
    "-fsanitize=signed-integer-overflow",
    "-fsanitize=bounds",
    "-fsanitize=object-size",
    "-fsanitize=returns-nonnull-attribute",
    "-fsanitize=bool",
    "-fsanitize=enum",
    "-fsanitize=alignment",
];

/// The checks that `CONFIG_UBSAN` alone enables in Linux 6.12: shift, bool and enum. The array
/// bounds check is added separately, in whichever form the compiler supports.
const UBSAN_TREE: [&str; 3] = ["-fsanitize=shift", "-fsanitize=bool", "-fsanitize=enum"];
const BOUNDS_TREE: [&str; 2] = ["-fsanitize=bounds-strict", "-fsanitize=array-bounds"];

/// The names from which a variant can be composed.
pub(super) const NAMES: [&str; 6] = [
    "default",
    "patched",
    "ubsan",
    "ubsan-tree",
    "asan",
    "no-object-flags",
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Patched,
    Ubsan,
    UbsanTree,
    Asan,
    /// Removes the flags that a tree sets only for the object under test.
    NoObjectFlags,
    /// Adds the user's flags.
    Flags(Vec<String>),
}

/// A kind of build, such as `asan` or `ubsan+patched`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    name: String,
    parts: Vec<Part>,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl Variant {
    /// Parses the name of a variant: one of [`NAMES`], flags, or several of these joined by `+`,
    /// such as `ubsan+-fno-tree-pre`.
    pub(super) fn parse(name: &str) -> Result<Variant, Error> {
        let mut parts: Vec<Part> = Vec::new();
        for word in split_parts(name) {
            parts.push(match word.as_str() {
                "default" => continue,
                "patched" => Part::Patched,
                "ubsan" => Part::Ubsan,
                "ubsan-tree" => Part::UbsanTree,
                "asan" => Part::Asan,
                "no-object-flags" => Part::NoObjectFlags,
                flags if flags.starts_with('-') => Part::Flags(split_flags(flags)),
                _ => {
                    return Err(Error::input(format!(
                        "unknown variant '{word}': use {}, or --cflags for other flags",
                        NAMES.join(", ")
                    )))
                }
            });
        }
        Ok(Variant {
            name: name.trim().to_string(),
            parts,
        })
    }

    /// Creates a variant from the user's flags, which are separated by blanks.
    pub(super) fn parse_flags(flags: &str) -> Variant {
        Variant {
            name: flags.trim().to_string(),
            parts: vec![Part::Flags(split_flags(flags))],
        }
    }

    /// Returns this variant with `flags` added. [`Variant::parse`] accepts the name of the result.
    pub(super) fn with(&self, flags: &[String]) -> Variant {
        let mut more = self.clone();
        more.parts.push(Part::Flags(flags.to_vec()));
        let flags = flags.join(" ");
        more.name = match self.parts.is_empty() {
            true => flags,
            false => format!("{}+{flags}", self.name),
        };
        more
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the variant removes the compiler flags that a tree sets only for the object
    /// under test.
    pub(super) fn drops_object_flags(&self) -> bool {
        self.parts.contains(&Part::NoObjectFlags)
    }

    /// Returns the compilation flags, or the reason why this compiler does not support the variant.
    pub(super) fn flags(&self, cc: &Toolchain) -> Result<Vec<String>, String> {
        let mut flags = Vec::new();
        for part in &self.parts {
            let some = match part {
                Part::Patched => cc.known(&PATCHED),
                Part::Ubsan => cc.known(&UBSAN),
                Part::UbsanTree => {
                    let bounds = cc.known(&BOUNDS_TREE);
                    let bounds = bounds.into_iter().take(1);
                    bounds.chain(cc.known(&UBSAN_TREE)).collect()
                }
                Part::Asan => cc.known(&["-fsanitize=address"]),
                Part::Flags(flags) => flags.clone(),
                Part::NoObjectFlags => continue,
            };
            if some.is_empty() {
                return Err(match part {
                    Part::Patched => format!("{} has no -ftree-pre and no -ftree-sra", cc.name),
                    _ => format!("{} has no such checks", cc.name),
                });
            }
            flags.extend(some);
        }
        Ok(flags)
    }

    /// Returns the compilation flags that must also be passed to the linker. These are the flags
    /// for sanitizers and link-time optimization.
    pub(super) fn link_flags(flags: &[String]) -> Vec<String> {
        let brings = |f: &&String| f.starts_with("-fsanitize") || f.starts_with("-flto");
        flags.iter().filter(brings).cloned().collect()
    }
}

/// Splits a variant's name at each `+` that separates two parts. A `+` inside a flag, such as
/// `-std=c++11`, does not separate parts.
fn split_parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in name.trim().split('+') {
        match parts.last_mut() {
            Some(flags)
                if flags.starts_with('-') && !word.starts_with('-') && !NAMES.contains(&word) =>
            {
                flags.push('+');
                flags.push_str(word);
            }
            _ => parts.push(word.to_string()),
        }
    }
    parts
}

fn split_flags(flags: &str) -> Vec<String> {
    flags.split_whitespace().map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_with_a_plus_between() {
        let v = Variant::parse("patched+ubsan").unwrap();
        assert_eq!(v.parts, [Part::Patched, Part::Ubsan]);
        assert_eq!(v.to_string(), "patched+ubsan");
        assert!(Variant::parse("default").unwrap().parts.is_empty());
        let e = Variant::parse("ubsna").unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(e.to_string().contains("ubsan-tree"), "{e}");
    }

    #[test]
    fn a_variant_with_flags_has_a_name_that_can_be_parsed() {
        let flags = |list: &[&str]| Part::Flags(list.iter().map(|f| f.to_string()).collect());
        for (from, more, name, parts) in [
            (
                "ubsan",
                &["-fno-tree-pre"][..],
                "ubsan+-fno-tree-pre",
                vec![Part::Ubsan, flags(&["-fno-tree-pre"])],
            ),
            (
                "default",
                &["-fa", "-std=c++11"],
                "-fa -std=c++11",
                vec![flags(&["-fa", "-std=c++11"])],
            ),
            (
                "-fa",
                &["-fb"],
                "-fa+-fb",
                vec![flags(&["-fa"]), flags(&["-fb"])],
            ),
        ] {
            let more: Vec<String> = more.iter().map(|f| f.to_string()).collect();
            let variant = Variant::parse(from).unwrap().with(&more);
            assert_eq!((variant.name(), &variant.parts), (name, &parts));
            assert_eq!(Variant::parse(name).unwrap(), variant);
        }
        let v = Variant::parse("-fa -fb+ubsan").unwrap();
        assert_eq!(v.parts, [flags(&["-fa", "-fb"]), Part::Ubsan]);
        assert!(Variant::parse("ubsan+fno-a").is_err());
    }

    #[test]
    fn a_compiler_without_the_flags_says_so() {
        for (name, has) in [("gcc", true), ("clang-14", false)] {
            let Ok(cc) = Toolchain::find(name) else {
                eprintln!("SKIPPED: no {name} here");
                continue;
            };
            let flags = Variant::parse("patched").unwrap().flags(&cc);
            assert_eq!(flags.is_ok(), has, "{name}: {flags:?}");
            let ubsan = Variant::parse("ubsan").unwrap().flags(&cc).unwrap();
            assert_eq!(ubsan.len(), UBSAN.len(), "{name}: {ubsan:?}");
            let tree = Variant::parse("ubsan-tree").unwrap().flags(&cc).unwrap();
            assert_eq!(tree.len(), 4, "{name}: {tree:?}");
        }
    }
}
