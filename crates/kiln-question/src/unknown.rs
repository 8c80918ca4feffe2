//! The error for an unknown name, which suggests the nearest known name.

use strsim::osa_distance;

use crate::Error;

/// Maximum number of names to list in an error line.
const FEW: usize = 40;

/// Creates the error for an unknown name. The message suggests the nearest known name, and lists
/// all known names if there are only a few.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let nearest = known
        .iter()
        .min_by_key(|k| osa_distance(name, k))
        .filter(|k| is_similar(name, k));
    let hint = match nearest {
        _ if name.is_empty() => {
            return Error::input(format!("the name of the {what} is empty: {}", list(known)));
        }
        // Three digits are probably part of a number, as in `--cases 10 000`.
        _ if name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit()) => {
            "write numbers without spaces, such as 10000".to_string()
        }
        Some(near) => format!("did you mean '{near}'? {}", list(known)),
        None => list(known),
    };
    Error::input(format!("unknown {what} '{name}': {hint}"))
}

/// Returns whether a known name is similar enough to an unknown one to be suggested. Names with
/// digits must be more similar than others, because `sha3_update` is not a misspelt `sha256_update`.
pub fn is_similar(name: &str, known: &str) -> bool {
    let has_digits = name.bytes().any(|byte| byte.is_ascii_digit());
    let limit = match has_digits {
        true => 2,
        false => (name.len() / 3).max(2),
    };
    osa_distance(name, known) <= limit
}

/// Returns the part of the message that lists the accepted names.
pub fn list(known: &[&str]) -> String {
    match known {
        [only] => format!("only '{only}' is accepted"),
        _ if known.len() > FEW => format!("'kiln list' prints all {}", known.len()),
        _ => format!("choose from {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_name_is_suggested() {
        let suggests = |name| {
            let e = unknown("name", name, &["sha256_update", "encrypt"]);
            e.to_string().contains("did you mean")
        };
        for name in ["sha265_update", "sha25_update", "encrpyt", "encrypted"] {
            assert!(suggests(name), "{name}");
        }
        for name in ["sha3_update", "digest"] {
            assert!(!suggests(name), "{name}");
        }
    }

    #[test]
    fn only_three_digits_are_part_of_a_number() {
        let text = |name| unknown("name", name, &["encrypt", "decrypt"]).to_string();
        assert!(text("000").contains("write numbers without spaces"));
        assert_eq!(
            text("20"),
            "unknown name '20': choose from encrypt, decrypt"
        );
        assert_eq!(
            text(""),
            "the name of the name is empty: choose from encrypt, decrypt"
        );
    }
}
