//! Parses a kernel's configuration.

use super::files::{Lines, Missing};

/// The line that ends the last menu in every configuration. If a file lacks this line, it was cut
/// short, so an option that is missing from the file may still be set in the kernel.
const LAST: &str = "# end of Kernel hacking";

/// The options on which conclusions are based. A recording contains only these options.
pub(super) const OPTIONS: &[&str] = &[
    "BPF_SYSCALL",
    "CC_OPTIMIZE_FOR_PERFORMANCE",
    "CC_OPTIMIZE_FOR_SIZE",
    "CC_VERSION_TEXT",
    "CRC_T10DIF_ARCH",
    "CRYPTO_AES_NI_INTEL",
    "CRYPTO_DEV_VIRTIO",
    "CRYPTO_LIB_SHA1_ARCH",
    "CRYPTO_LIB_SHA256_ARCH",
    "CRYPTO_LIB_SHA512_ARCH",
    "CRYPTO_SHA256_SSSE3",
    "CRYPTO_SIMD",
    "KASAN",
    "KCSAN",
    "KMSAN",
    "KPROBES",
    "PREEMPT",
    "PREEMPT_LAZY",
    "PREEMPT_NONE",
    "PREEMPT_RT",
    "PREEMPT_VOLUNTARY",
    "UBSAN",
    "UBSAN_ALIGNMENT",
    "UBSAN_BOOL",
    "UBSAN_BOUNDS",
    "UBSAN_DIV_ZERO",
    "UBSAN_ENUM",
    "UBSAN_OBJECT_SIZE",
    "UBSAN_SHIFT",
    "UBSAN_UNREACHABLE",
];

/// The options in a configuration file that is known to be complete.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// Path of the file, relative to the root directory.
    pub path: String,
    lines: Vec<String>,
}

impl Config {
    pub(super) fn new((path, lines): Lines) -> Result<Config, Missing> {
        match lines.iter().any(|l| l == LAST) {
            true => Ok(Config { path, lines }),
            false => Err(Missing::Unusable("is cut short or is not a configuration")),
        }
    }

    /// Returns the value of an option, without quotes; `None` if the option is not set.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        debug_assert!(OPTIONS.contains(&option), "{option} is not recorded");
        let value = self.lines.iter().find_map(|line| {
            let rest = line.strip_prefix("CONFIG_")?.strip_prefix(option)?;
            rest.strip_prefix('=')
        });
        value.map(|v| v.trim_matches('"'))
    }

    /// Returns whether an option is `y` or `m`.
    pub(super) fn is_set(&self, option: &str) -> bool {
        matches!(self.value(option), Some("y" | "m"))
    }

    /// Describes the value of an option, for example `CRYPTO_SIMD=m` or `CRYPTO_SIMD is not set`.
    pub(super) fn words(&self, option: &str) -> String {
        match self.value(option) {
            Some(value) => format!("{option}={value}"),
            None => format!("{option} is not set"),
        }
    }
}

/// Selects the configuration lines that a recording needs.
pub(crate) fn condense_config(text: &str) -> Vec<String> {
    let wanted = |line: &&str| {
        let name = line.strip_prefix("CONFIG_").and_then(|l| l.split_once('='));
        *line == LAST || name.is_some_and(|(name, _)| OPTIONS.contains(&name))
    };
    text.lines().filter(wanted).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, Missing> {
        Config::new((
            "boot/config-x".into(),
            text.lines().map(str::to_owned).collect(),
        ))
    }

    #[test]
    fn options_are_whole_names() {
        let text = "CONFIG_CRYPTO_SIMD=m\n# CONFIG_UBSAN is not set\nCONFIG_UBSAN_SHIFT=y\n\
                    CONFIG_CC_VERSION_TEXT=\"gcc-12 (x) 12.2.0\"\nCONFIG_KASAN_INLINE=y\n# end of Kernel hacking";
        let config = config(text).unwrap();
        assert!(config.is_set("CRYPTO_SIMD") && config.is_set("UBSAN_SHIFT"));
        assert!(!config.is_set("UBSAN") && !config.is_set("KASAN"));
        assert_eq!(config.value("CC_VERSION_TEXT"), Some("gcc-12 (x) 12.2.0"));
        assert_eq!(config.words("CRYPTO_SIMD"), "CRYPTO_SIMD=m");
        assert_eq!(config.words("KASAN"), "KASAN is not set");
        assert_eq!(condense_config(text).len(), 4);
    }

    #[test]
    fn what_was_cut_short_is_not_believed() {
        assert!(config("CONFIG_A=y\n# end of Kernel hack").is_err());
        assert!(config("").is_err());
    }

    #[test]
    fn options_are_sorted_and_once() {
        assert!(OPTIONS.windows(2).all(|w| w[0] < w[1]));
    }
}
