//! Parses lists and ranges of message lengths: `16,64`, `16..4112`, `16..4112/16`.

use std::num::IntErrorKind;
use std::str::FromStr;

use crate::Error;

/// Lengths that tables show by default, in bytes.
pub const DEFAULT: [usize; 8] = [16, 64, 256, 512, 1024, 1420, 4096, 16384];

/// Maximum length of a measured message, in bytes. It is limited because several sets of messages
/// must fit into memory.
pub const LONGEST: usize = 16 << 20;

/// Maximum number of lengths per command.
const MOST: usize = 1 << 17;

/// Message lengths in bytes, ascending and unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lens(pub Vec<usize>);

impl Default for Lens {
    fn default() -> Lens {
        Lens(DEFAULT.to_vec())
    }
}

impl FromStr for Lens {
    type Err = Error;

    fn from_str(list: &str) -> Result<Lens, Error> {
        let mut lens = Vec::new();
        for item in list.split(',') {
            let (first, last, step) = parse_item(list, item.trim())?;
            if (last - first) / step >= MOST - lens.len() {
                return Err(Error::input(format!(
                    "length list '{list}': more than {MOST} lengths: use a larger step"
                )));
            }
            lens.extend((first..=last).step_by(step));
        }
        lens.sort_unstable();
        lens.dedup();
        Ok(Lens(lens))
    }
}

/// Parses a length or a range. Returns the first value, the last value and the step.
fn parse_item(list: &str, item: &str) -> Result<(usize, usize, usize), Error> {
    let number = |text: &str| {
        text.trim().parse::<usize>().map_err(|e| {
            Error::input(match e.kind() {
                IntErrorKind::PosOverflow => {
                    format!("length list '{list}': '{item}' is too large: use at most {LONGEST} bytes")
                }
                _ => format!(
                    "length list '{list}': '{item}' is neither a length nor a range like 16..4112 or 16..4112/16"
                ),
            })
        })
    };
    let Some((first, rest)) = item.split_once("..") else {
        let len = number(item)?;
        return Ok((len, len, 1));
    };
    let (last, step) = match rest.split_once('/') {
        Some((last, step)) => (last, number(step)?),
        None => (rest, 1),
    };
    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
    if first > last {
        return Err(Error::input(format!(
            "length list '{list}': the range '{item}' runs backwards: swap its ends"
        )));
    }
    if step == 0 {
        return Err(Error::input(format!(
            "length list '{list}': the range '{item}' has step 0: use 1 or more"
        )));
    }
    Ok((first, last, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, want) in [
            ("16", vec![16]),
            ("64,16,64", vec![16, 64]),
            ("16..19", vec![16, 17, 18, 19]),
            ("16..=18", vec![16, 17, 18]),
            ("16..64/16", vec![16, 32, 48, 64]),
            ("16..60/16", vec![16, 32, 48]),
            (" 512 , 16 .. 18 ", vec![16, 17, 18, 512]),
        ] {
            assert_eq!(text.parse::<Lens>().unwrap().0, want, "{text}");
        }
        assert_eq!("16..4112".parse::<Lens>().unwrap().0.len(), 4097);
    }

    #[test]
    fn faults() {
        for (text, want) in [
            ("", "'' is neither"),
            ("16,", "'' is neither"),
            ("x", "'x' is neither"),
            ("16...20", "neither"),
            ("-16", "neither"),
            ("16..x", "'16..x' is neither"),
            ("20..16", "runs backwards"),
            ("16..64/0", "step 0"),
            ("0..9999999", "larger step"),
            ("0..18446744073709551615/1", "larger step"),
            ("99999999999999999999", "too large"),
        ] {
            let e = text.parse::<Lens>().unwrap_err();
            assert!(e.to_string().contains(want), "{text}: {e}");
            assert_eq!(e.exit_code(), 2);
        }
    }
}
