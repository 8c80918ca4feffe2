//! Parses the kernel log lines in which the module reports whether it restored live registers
//! correctly (`linux/module/live.c`).

use crate::Error;

/// Prefix of the kernel log lines in which the module reports on live registers.
const SAID: &str = "kiln: live ";

/// Results for one register width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Width {
    /// Register width: `xmm`, `ymm` or `zmm`.
    pub name: String,
    /// Number of rounds in which registers were saved, overwritten and restored.
    pub rounds: u32,
    /// Number of rounds after which a register did not have its original value, or the save area
    /// was not fully wiped.
    pub wrong: u32,
    /// Number of control rounds in which a changed register, or register contents left in the save
    /// area, went undetected. Control rounds neither restore registers nor wipe the area, so each
    /// round must detect both.
    pub missed: u32,
    /// Minimum time to save and restore the registers and wipe the save area, in TSC cycles. The
    /// time to read the TSC is subtracted.
    pub least: u64,
    pub median: u64,
}

impl Width {
    /// Parses a kernel log line. Returns `None` if the line is not such a report.
    pub fn read(text: &str) -> Option<Width> {
        let (_, said) = text.split_once(SAID)?;
        let words: Vec<&str> = said.split_whitespace().collect();
        let [name, "rounds", rounds, "wrong", wrong, "missed", missed, "cycles", least, median] =
            words[..]
        else {
            return None;
        };
        Some(Width {
            name: ["xmm", "ymm", "zmm"]
                .contains(&name)
                .then(|| name.to_owned())?,
            rounds: rounds.parse().ok()?,
            wrong: wrong.parse().ok()?,
            missed: missed.parse().ok()?,
            least: least.parse().ok()?,
            median: median.parse().ok()?,
        })
    }

    /// Formats the result as a note that accompanies the rows.
    pub fn note(&self) -> String {
        format!(
            "the module saved and restored {} registers {} times, as for a section over a section, and lost none; \
             unsaved, the control, it lost them each time; {} TSC cycles at least, {} the median",
            self.name, self.rounds, self.least, self.median
        )
    }
}

/// Checks that no registers were lost.
///
/// # Errors
/// Fails if registers were lost, the control did not detect a loss, or the module did not report.
pub fn judge(widths: &[Width], rounds: u32) -> Result<(), Error> {
    if widths.is_empty() {
        return Err(Error::NoWidths);
    }
    let bad = |w: &&Width| w.wrong > 0 || w.missed > 0 || w.rounds != rounds;
    match widths.iter().find(bad) {
        None => Ok(()),
        Some(w) => Err(Error::Width {
            name: w.name.clone(),
            wrong: w.wrong,
            rounds: w.rounds,
            missed: w.missed,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_or_not_at_all() {
        let line = "kiln: live zmm rounds 9 wrong 0 missed 0 cycles 180 190";
        let width = Width::read(line).unwrap();
        assert_eq!((width.rounds, width.least, width.median), (9, 180, 190));
        assert!(width.note().contains("zmm"));
        for bad in [
            "",
            "kiln: live ",
            "kiln: live: -95",
            &line.replace("zmm", "tmm"),
            &line.replace(" 190", ""),
            &line.replace(" 190", " 190 1"),
            &line.replace("wrong 0", "wrong -1"),
            &line.replace("missed", "found"),
        ] {
            assert_eq!(Width::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_loss_and_a_blind_control_are_faults() {
        let read = |text: &str| Width::read(&format!("kiln: live ymm {text} cycles 1 1")).unwrap();
        let well = read("rounds 9 wrong 0 missed 0");
        let one = std::slice::from_ref(&well);
        assert!(judge(one, 9).is_ok());
        assert!(judge(&[], 9).is_err());
        assert!(judge(one, 10).is_err());
        for bad in ["rounds 9 wrong 1 missed 0", "rounds 9 wrong 0 missed 1"] {
            assert!(judge(&[well.clone(), read(bad)], 9).is_err(), "{bad}");
        }
    }
}
