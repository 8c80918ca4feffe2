//! Determines a tree's configuration: either Kiln's own, or the user's file plus the options that
//! Kiln needs to host the tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::place::hash;
use crate::{Error, Source};

/// Options that every configuration needs so that Kiln can host the tree.
const HOSTING: &str = include_str!("../../../tree/config.hosting");

/// Options that Kiln adds only if the base is `x86_64_defconfig`.
const KILN: &str = include_str!("../../../tree/config");

/// Options that are added only if the preemption model in the user's configuration does not
/// maintain the preempt count.
const COUNTING: &str = "CONFIG_DEBUG_KERNEL=y\nCONFIG_DEBUG_ATOMIC_SLEEP=y\n";

/// A build configuration for a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `kiln`, or the name of the user's file.
    pub name: String,
    /// The user's configuration; `None` means `x86_64_defconfig`.
    pub base: Option<String>,
    /// Options appended to the base.
    pub fragment: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "kiln".into(),
            base: None,
            fragment: format!("{HOSTING}\n{KILN}"),
        }
    }
}

impl Config {
    /// Finds a configuration. `tree` selects the `.config` in the tree's directory; any other value
    /// is a file name. `.gz` and `.xz` files are decompressed.
    ///
    /// # Errors
    /// Fails if the file does not exist, or is not the configuration of an x86-64 kernel.
    pub fn find(which: &str, source: &Source) -> Result<Config, Error> {
        let (path, name) = match which {
            "tree" => {
                let path = source.dir.join(".config");
                if !path.is_file() {
                    return Err(Error::NoConfig(source.dir.clone()));
                }
                (path, "tree".to_string())
            }
            file => {
                let path = Path::new(file).to_owned();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = name.into_owned();
                (path, name)
            }
        };
        Ok(Config {
            name,
            base: Some(checked(&path, read(&path)?)?),
            fragment: HOSTING.into(),
        })
    }

    /// Returns a hash of the content, for the cache directory's name.
    pub fn key(&self) -> u64 {
        let base = self.base.as_deref().unwrap_or("");
        hash(&[base.as_bytes(), self.fragment.as_bytes()])
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let fail = |why: &str| Error::Config {
        path: path.to_owned(),
        why: why.to_owned(),
    };
    let (unpack, package) = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => ("gzip", "gzip"),
        Some("xz") => ("xz", "xz-utils"),
        _ => {
            let bytes = fs::read(path).map_err(|e| fail(&e.to_string()))?;
            return String::from_utf8(bytes).map_err(|_| fail("is not text"));
        }
    };
    let output = Command::new(unpack)
        .arg("-dc")
        .arg(path)
        .output()
        .map_err(|e| Error::tool(unpack, package, e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| !line.trim().is_empty());
        let why = said.unwrap_or("it cannot be unpacked").trim();
        return Err(fail(why));
    }
    String::from_utf8(output.stdout).map_err(|_| fail("is not text"))
}

fn checked(path: &Path, text: String) -> Result<String, Error> {
    let path = path.to_owned();
    let sets = |line: &str| line.starts_with("CONFIG_") && line.contains('=');
    if !text.lines().any(sets) {
        let why = "no line of it sets an option".to_owned();
        return Err(Error::Config { path, why });
    }
    // Kconfig writes a header line that names the architecture. A savedefconfig file has no such
    // line and is assumed to be for x86.
    let other = text
        .lines()
        .take(5)
        .filter_map(|l| l.strip_prefix("# Linux/")?.split_whitespace().next())
        .find(|arch| *arch != "x86" && *arch != "x86_64");
    if let Some(arch) = other {
        let arch = arch.to_owned();
        return Err(Error::ConfigArch { path, arch });
    }
    if text.lines().any(|l| l == "CONFIG_X86_32=y") {
        let arch = "32-bit x86".to_owned();
        return Err(Error::ConfigArch { path, arch });
    }
    Ok(text)
}

/// The outcome of running Kconfig.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Mitigations and hardening options that are compiled in.
    pub mitigations: Vec<&'static str>,
    /// Notes for the reader of the results.
    pub notes: Vec<String>,
    /// Options that make the kernel maintain the preempt count; they are added before Kconfig runs
    /// a second time. `None` if one run is enough.
    pub again: Option<&'static str>,
}

/// Mitigations that result rows mention. Each entry holds the current and older names of the
/// Kconfig option, and the name used in rows.
const MITIGATIONS: [(&[&str], &str); 9] = [
    (&["MITIGATION_RETPOLINE", "RETPOLINE"], "retpoline"),
    (&["MITIGATION_RETHUNK", "RETHUNK"], "rethunk"),
    (&["MITIGATION_SLS", "SLS"], "sls"),
    (&["X86_KERNEL_IBT"], "ibt"),
    (&["CFI", "CFI_CLANG"], "cfi"),
    (
        &["MITIGATION_CALL_DEPTH_TRACKING", "CALL_DEPTH_TRACKING"],
        "call-padding",
    ),
    (&["STACKPROTECTOR"], "stack-protector"),
    (&["FORTIFY_SOURCE"], "fortify"),
    (&["ZERO_CALL_USED_REGS"], "zero-regs"),
];

/// Formats a configuration for rows: its name, followed by the compiled-in mitigations.
pub(crate) fn label(name: &str, mitigations: &[&str]) -> String {
    match mitigations {
        [] => name.to_string(),
        list => format!("{name} ({})", list.join(", ")),
    }
}

/// Compares the requested options with `last`, the `.config` that Kconfig produced.
pub(crate) fn compare(config: &Config, last: &str) -> Taken {
    let has = |text: &str, name: &str| value(text, name) == Some("y");
    let mut notes = Vec::new();
    let mitigations = MITIGATIONS
        .iter()
        .filter(|(names, _)| names.iter().any(|n| has(last, n)))
        .map(|(_, called)| *called)
        .collect();
    match &config.base {
        None => {
            // Options that do not exist in this tree's Kconfig are not reported.
            let refused: Vec<&str> = parse_options(&config.fragment)
                .filter(|(name, v)| *v == "y" && value(last, name) == Some("n"))
                .map(|(name, _)| name)
                .collect();
            if !refused.is_empty() {
                notes.push(format!(
                    "this tree's configuration does without {}",
                    refused.join(", ")
                ));
            }
        }
        Some(base) => {
            let mut forced: Vec<String> = parse_options(HOSTING)
                .filter_map(|(name, _)| {
                    let (was, is) = (value(base, name)?, value(last, name).unwrap_or("n"));
                    (was != is && !(was == "m" && is == "y"))
                        .then(|| format!("{name} {was} to {is}"))
                })
                .collect();
            if has(last, "DEBUG_ATOMIC_SLEEP") && !has(base, "DEBUG_ATOMIC_SLEEP") {
                forced.push("DEBUG_ATOMIC_SLEEP n to y".into());
            }
            if !forced.is_empty() {
                notes.push(format!("changed for hosting: {}", forced.join(", ")));
            }
            let lost: Vec<&str> = MITIGATIONS
                .iter()
                .flat_map(|(names, _)| names.iter())
                .copied()
                .filter(|n| has(base, n) && !has(last, n))
                .filter(|n| parse_options(HOSTING).all(|(name, _)| name != *n))
                .collect();
            if !lost.is_empty() {
                notes.push(format!(
                    "in the file, but not available with this tree and compiler: {}",
                    lost.join(", ")
                ));
            }
        }
    }
    Taken {
        mitigations,
        notes,
        again: (!has(last, "PREEMPT_COUNT")).then_some(COUNTING),
    }
}

/// Parses the options that a fragment sets to `y` or `n`.
fn parse_options(fragment: &str) -> impl Iterator<Item = (&str, &str)> {
    fragment.lines().filter_map(|line| {
        if let Some(rest) = line.strip_prefix("# CONFIG_") {
            return Some((rest.strip_suffix(" is not set")?, "n"));
        }
        line.strip_prefix("CONFIG_")?.split_once('=')
    })
}

/// Returns an option's value in a configuration. If several lines set the option, the last one
/// counts.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().rev().find_map(|line| {
        let (off, rest) = match line.strip_prefix("# CONFIG_") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("CONFIG_")?),
        };
        let rest = rest.strip_prefix(name)?;
        match off {
            true => (rest == " is not set").then_some("n"),
            false => rest.strip_prefix('='),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        match checked(Path::new("/c/x.config"), text.into()) {
            Err(e @ (Error::Config { .. } | Error::ConfigArch { .. })) => {
                let line = e.to_string();
                assert!(line.contains("/c/x.config"), "{line}");
                line
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_configures_no_x86_64_kernel_is_refused() {
        assert!(refusal("hello\n").contains("no line"));
        let arm =
            "#\n# Automatically generated\n# Linux/arm64 6.12.1 Kernel Configuration\nCONFIG_A=y\n";
        assert!(refusal(arm).contains("arm64"));
        assert!(refusal("CONFIG_X86_32=y\n").contains("32-bit"));
        let good = "# Linux/x86 6.12.1 Kernel Configuration\nCONFIG_A=y\n";
        assert!(checked(Path::new("x"), good.into()).is_ok());
        assert!(checked(Path::new("x"), "CONFIG_A=m\n".into()).is_ok());
    }

    #[test]
    fn values_are_read_as_kconfig_reads_them() {
        let text =
            "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_AB=m\nCONFIG_C=y\n# CONFIG_C is not set\n";
        let read = ["A", "B", "AB", "C", "D"].map(|name| value(text, name));
        assert_eq!(read, [Some("y"), Some("n"), Some("m"), Some("n"), None]);
    }

    #[test]
    fn what_was_forced_away_or_lost_is_named() {
        let base = "CONFIG_MODULES=y\nCONFIG_MITIGATION_RETPOLINE=y\nCONFIG_MITIGATION_SLS=y\n\
                    CONFIG_XEN=m\nCONFIG_PREEMPT_COUNT=y\nCONFIG_STACKPROTECTOR=y\n";
        let config = Config {
            name: "mine".into(),
            base: Some(base.into()),
            fragment: HOSTING.into(),
        };
        let last = "# CONFIG_MODULES is not set\nCONFIG_MITIGATION_RETPOLINE=y\nCONFIG_XEN=y\n\
                    CONFIG_PREEMPT_COUNT=y\n# CONFIG_STACKPROTECTOR is not set\n";
        let taken = compare(&config, last);
        assert_eq!(taken.mitigations, ["retpoline"]);
        assert_eq!(taken.again, None);
        assert_eq!(taken.notes.len(), 2, "{taken:?}");
        assert!(taken.notes[0].contains("MODULES y to n"), "{taken:?}");
        assert!(
            taken.notes[0].contains("STACKPROTECTOR y to n"),
            "{taken:?}"
        );
        assert!(!taken.notes[0].contains("XEN"), "{taken:?}");
        assert!(taken.notes[1].ends_with(": MITIGATION_SLS"), "{taken:?}");
    }

    #[test]
    fn a_model_that_does_not_count_is_told_to() {
        let config = Config {
            name: "mine".into(),
            base: Some("CONFIG_PREEMPT_NONE=y\n".into()),
            fragment: HOSTING.into(),
        };
        assert!(compare(&config, "CONFIG_PREEMPT_NONE=y\n").again.is_some());
    }

    #[test]
    fn every_content_has_a_key_of_its_own() {
        let of = |base: Option<&str>| Config {
            base: base.map(String::from),
            ..Config::default()
        };
        assert_ne!(of(None).key(), of(Some("CONFIG_A=y\n")).key());
        assert_ne!(
            of(Some("CONFIG_A=y\n")).key(),
            of(Some("CONFIG_A=m\n")).key()
        );
    }
}
