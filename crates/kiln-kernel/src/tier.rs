//! Tiers, which are the sets of CPU features that implementations are written for, and functions
//! that report which tiers this CPU supports.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::derive::parse_names;
use crate::sys;

static MASKED: AtomicBool = AtomicBool::new(false);

/// Expands the rows of `kernel/tiers.def`, as converted by `build.rs`.
macro_rules! tiers {
    (
        features: $($feature:ident)*;
        $($tier:ident $name:literal $bits:literal [$($has:ident)*];)*
    ) => {
        /// A CPU feature that tiers may require. Each feature is a `FEATURE` row in
        /// `kernel/tiers.def`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $($feature),*
        }

        /// A set of CPU features that implementations are written for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Tier {
            $($tier),*
        }

        impl Tier {
            /// Every tier, lowest first.
            pub const ALL: [Tier; [$(Tier::$tier),*].len()] = [$(Tier::$tier),*];

            /// Returns the tier's name, as used in `KILN_TIERS`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Tier::$tier => $name),*
                }
            }

            /// Returns the width in bits of the tier's widest register.
            pub const fn bits(self) -> u32 {
                match self {
                    $(Tier::$tier => $bits),*
                }
            }

            /// Returns the features that a CPU needs for the tier.
            pub fn features(self) -> &'static [Feature] {
                match self {
                    $(Tier::$tier => &[$(Feature::$has),*]),*
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/tiers.rs"));

impl Tier {
    /// Returns whether the tier requires `feature`.
    pub fn has(self, feature: Feature) -> bool {
        self.features().contains(&feature)
    }

    /// Returns whether the CPU supports the tier, even if the mask forbids it.
    pub fn present(self) -> bool {
        // SAFETY: the function takes no arguments, reads CPUID, and caches the result atomically.
        let present = unsafe { sys::kiln_tiers_present() };
        present & self.bit() != 0
    }

    /// Returns whether the CPU supports the tier and the mask allows it.
    pub fn usable(self) -> bool {
        // SAFETY: the function takes no arguments, reads CPUID, and caches the result atomically.
        let usable = unsafe { sys::kiln_tiers() };
        usable & self.bit() != 0
    }

    /// Returns a feature of the tier that this CPU lacks, or `None` if the CPU has all of the
    /// tier's features.
    pub fn lacks(self) -> Option<&'static str> {
        // SAFETY: the function accepts any number, and returns null or a static string.
        unsafe { static_str(sys::kiln_tier_lacks(self as u32)) }
    }

    /// Allows only these tiers. The generic tier is always allowed.
    pub fn mask(tiers: &[Tier]) {
        let mask = tiers.iter().fold(0, |m, t| m | t.bit());
        MASKED.store(true, Ordering::Relaxed);
        // SAFETY: the function accepts any mask and stores it atomically, so other threads may read
        // it.
        unsafe { sys::kiln_tiers_mask(mask) }
    }

    /// Returns masks for tests. The first mask contains only the lowest tier, and each subsequent
    /// mask adds the next usable tier, until all are included. A mask whose highest tier is AVX is
    /// omitted unless AVX is the highest usable tier. Kiln has no AVX code, so its tests would only
    /// repeat those of the previous mask.
    pub fn masks() -> Vec<Vec<Tier>> {
        let mut masks = Tier::all_masks();
        let all = masks.pop();
        masks.retain(|m| m.last() != Some(&Tier::Avx));
        masks.extend(all);
        masks
    }

    /// Returns masks for hosted trees: those of [`Tier::masks`], and one whose highest tier is AVX.
    /// Masks whose highest tier is AVX or AVX2 do not contain SHA-NI, which the first CPUs with
    /// these tiers also lacked. For SHA-1 and SHA-256, trees prefer SHA-NI code to AVX and AVX2
    /// code, which would otherwise not run under any mask.
    pub fn tree_masks() -> Vec<Vec<Tier>> {
        let mut masks = Tier::all_masks();
        let all = masks.last().cloned().unwrap_or_default();
        for mask in &mut masks {
            if matches!(mask.last(), Some(Tier::Avx | Tier::Avx2)) {
                mask.retain(|t| *t != Tier::ShaNi);
            }
        }
        // If AVX or AVX2 is the highest tier, also return the mask of all tiers.
        if masks.last() != Some(&all) {
            masks.push(all);
        }
        masks
    }

    fn all_masks() -> Vec<Vec<Tier>> {
        let usable: Vec<Tier> = Tier::ALL.into_iter().filter(|t| t.usable()).collect();
        (1..=usable.len()).map(|n| usable[..n].to_vec()).collect()
    }

    /// Returns the environment variable assignment that makes a command run under the current mask,
    /// for use as a prefix of its command line. The string is empty if no mask is set.
    pub fn prefix() -> String {
        let usable = Tier::ALL.into_iter().filter(|t| t.usable());
        match Tier::masked() {
            true => Tier::prefix_of(&usable.collect::<Vec<_>>()),
            false => String::new(),
        }
    }

    /// Returns the environment variable assignment that makes a command run under `mask`, for use
    /// as a prefix of its command line.
    pub fn prefix_of(mask: &[Tier]) -> String {
        let names: Vec<&str> = mask.iter().map(|t| t.name()).collect();
        format!("KILN_TIERS={} ", names.join(","))
    }

    /// Returns whether a mask was set, even one that allows every tier of this CPU.
    pub fn masked() -> bool {
        MASKED.load(Ordering::Relaxed)
    }

    /// Returns the width in bits of the widest register of the tiers that this CPU supports,
    /// ignoring the mask.
    pub fn widest_present() -> u32 {
        let present = Tier::ALL.iter().filter(|t| t.present());
        present.map(|t| t.bits()).max().unwrap_or(0)
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }

    pub(crate) fn from_raw(raw: u32) -> Tier {
        Tier::ALL[raw as usize]
    }
}

parse_names!(Tier, "tier", Tier::ALL);

/// Converts a C string. Returns `None` for null.
///
/// # Safety
/// `p` must be null or point to a NUL-terminated string that is never freed.
pub(crate) unsafe fn static_str(p: *const std::ffi::c_char) -> Option<&'static str> {
    if p.is_null() {
        return None;
    }
    // SAFETY: the caller promises a NUL-terminated string that is never freed.
    unsafe { CStr::from_ptr(p) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for t in Tier::ALL {
            assert_eq!(t.name().parse::<Tier>(), Ok(t));
        }
        assert!("sse9".parse::<Tier>().unwrap_err().contains("vaes-avx512"));
    }

    #[test]
    fn each_tier_of_a_tree_ends_one_mask_and_avx_and_avx2_are_without_sha_ni() {
        let masks = Tier::tree_masks();
        for tier in Tier::ALL.into_iter().filter(|t| t.usable()) {
            let ending: Vec<_> = masks.iter().filter(|m| m.last() == Some(&tier)).collect();
            assert!(!ending.is_empty(), "{tier}");
            if matches!(tier, Tier::Avx | Tier::Avx2) {
                assert!(!ending[0].contains(&Tier::ShaNi), "{tier}");
            }
        }
        let all: Vec<Tier> = Tier::ALL.into_iter().filter(|t| t.usable()).collect();
        assert_eq!(
            (masks.last(), Tier::masks().last()),
            (Some(&all), Some(&all))
        );
        if Tier::Avx2.usable() {
            assert!(Tier::masks().iter().all(|m| m.last() != Some(&Tier::Avx)));
        }
    }

    #[test]
    fn a_tier_is_present_or_lacks_something() {
        for t in Tier::ALL {
            assert_eq!(t.present(), t.lacks().is_none(), "{t}");
        }
        assert!(Tier::Generic.present());
    }
}
