//! The error for a name that does not exist, which suggests the nearest existing name.

use strsim::levenshtein;

use crate::Error;

/// Maximum number of names that an error line lists.
const FEW: usize = 40;

/// Creates the error for an unknown name. It suggests the nearest known name, and lists all known
/// names if they are few.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let nearest = known
        .iter()
        .min_by_key(|k| levenshtein(name, k))
        .filter(|k| levenshtein(name, k) <= (name.len() / 3).max(2));
    let hint = match nearest {
        Some(near) => format!("did you mean '{near}'? {}", there_is(known)),
        None => there_is(known),
    };
    Error::input(format!("unknown {what} '{name}': {hint}"))
}

fn there_is(known: &[&str]) -> String {
    if known.len() > FEW {
        return format!("'kiln list' names all {}", known.len());
    }
    let verb = if known.len() == 1 { "is" } else { "are" };
    format!("there {verb} {}", known.join(", "))
}
