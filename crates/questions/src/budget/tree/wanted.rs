//! The request to `budget --tree`, and its validation.

use kiln_question::lens::{Lens, LONGEST};
use kiln_question::Error;

/// Default message lengths in bytes.
const LENGTHS: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 10 << 20];

pub(in crate::budget) struct Wanted {
    /// Names of functions or algorithms; if empty, all functions are measured.
    pub names: Vec<String>,
    /// Message lengths in bytes, in ascending order.
    pub lengths: Vec<usize>,
    /// Maximum section length in microseconds. If a section is longer, the command fails.
    pub max_section_us: Option<f64>,
    /// Whether to use fewer repetitions.
    pub quick: bool,
}

impl Wanted {
    /// Checks the lengths and the limit.
    ///
    /// # Errors
    /// A length cannot be measured, or the limit is not a valid time.
    pub(in crate::budget) fn new(
        names: &[String],
        lengths: Option<&str>,
        max_section_us: Option<f64>,
        quick: bool,
    ) -> Result<Wanted, Error> {
        let lengths: Option<Lens> = lengths.map(str::parse).transpose()?;
        let lengths = lengths.map_or(LENGTHS.to_vec(), |l| l.0);
        if let Some(len) = lengths.iter().find(|l| !(1..=LONGEST).contains(*l)) {
            return Err(Error::input(format!(
                "--len {len}: sections are measured at 1 to {LONGEST} bytes"
            )));
        }
        if let Some(us) = max_section_us.filter(|us| !(*us > 0.0 && us.is_finite())) {
            return Err(Error::input(format!(
                "--max-section-us {us}: a section takes more than 0 µs"
            )));
        }
        Ok(Wanted {
            names: names.to_vec(),
            lengths,
            max_section_us,
            quick,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_limits_that_cannot_be_measured_are_refused() {
        let wanted = |len, limit| Wanted::new(&[], len, limit, true);
        assert_eq!(wanted(None, None).unwrap().lengths, LENGTHS);
        assert_eq!(wanted(Some("64,16"), Some(0.5)).unwrap().lengths, [16, 64]);
        for (len, limit, named) in [
            (Some("0"), None, "--len 0"),
            (Some("16777217"), None, "--len 16777217"),
            (None, Some(0.0), "--max-section-us 0"),
            (None, Some(f64::NAN), "--max-section-us NaN"),
        ] {
            let e = wanted(len, limit).err().unwrap();
            assert!(e.to_string().contains(named), "{e}");
            assert_eq!(e.exit_code(), 2);
        }
    }
}
