//! Other libraries, loaded at run time where there are any, to be measured beside Kiln.

pub mod openssl;

use crate::algorithm::unknown;
use crate::speed::{xts_op, Candidate, Choice, Judge, Level, Source, Spec, Work};
use crate::{Algorithm, Error};
use openssl::OpenSsl;

/// Names that `--peers` takes, beside `auto` and `none`.
pub const NAMES: [&str; 1] = ["openssl"];

/// Which peers to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those there are.
    #[default]
    Auto,
    /// None.
    None,
    /// These, or it is a fault.
    Named(Vec<String>),
}

impl Wanted {
    /// From the words of `--peers`.
    pub fn parse(words: &[String]) -> Result<Wanted, Error> {
        match words {
            [] => Ok(Wanted::Auto),
            [word] if word == "auto" => Ok(Wanted::Auto),
            [word] if word == "none" => Ok(Wanted::None),
            _ => {
                for word in words {
                    if word == "auto" || word == "none" {
                        return Err(Error::input(format!(
                            "--peers: '{word}' stands alone: leave the others out"
                        )));
                    }
                    if !NAMES.contains(&word.as_str()) {
                        let known: Vec<_> = ["auto", "none"].into_iter().chain(NAMES).collect();
                        return Err(unknown("peer", word, &known));
                    }
                }
                Ok(Wanted::Named(words.to_vec()))
            }
        }
    }

    /// Whether the peer was asked for by name.
    pub fn names(&self, peer: &str) -> bool {
        matches!(self, Wanted::Named(names) if names.iter().any(|n| n == peer))
    }
}

/// The peers found.
#[derive(Default)]
pub struct Peers {
    /// OpenSSL's libcrypto.
    pub openssl: Option<OpenSsl>,
}

impl Peers {
    /// Loads those wanted. Of a peer that nobody named, a fault is a note.
    pub fn load(wanted: &Wanted, notes: &mut Vec<String>) -> Result<Peers, Error> {
        if *wanted == Wanted::None {
            return Ok(Peers::default());
        }
        match OpenSsl::load() {
            Ok(openssl) => Ok(Peers {
                openssl: Some(openssl),
            }),
            Err(why) if wanted.names("openssl") => Err(Error::lacks(why)),
            Err(why) => {
                notes.push(why);
                Ok(Peers::default())
            }
        }
    }
}

/// Peers are measured beside what others have: they bring no algorithms and no answers.
impl Source for Peers {
    fn algorithms(&self) -> Vec<Spec> {
        Vec::new()
    }

    fn names(&self, _: &str) -> Vec<(String, Level)> {
        Vec::new()
    }

    fn candidates(
        &self,
        work: &Work,
        _: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let Some(openssl) = &self.openssl else {
            return Ok(Vec::new());
        };
        if work.spec.name != Algorithm::XTS_AES.name() {
            return Ok(Vec::new());
        }
        match openssl.candidate(&work.key, xts_op(work.op)) {
            Ok(candidate) => Ok(vec![candidate]),
            Err(why) => {
                notes.push(format!("{why}: no rows of it"));
                Ok(Vec::new())
            }
        }
    }

    fn judge(&self, _: &Work) -> Result<Option<Judge<'_>>, Error> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let parse = |words: &[&str]| {
            Wanted::parse(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&[]), Ok(Wanted::Auto));
        assert_eq!(parse(&["none"]), Ok(Wanted::None));
        assert!(parse(&["openssl"]).unwrap().names("openssl"));
        assert!(!Wanted::Auto.names("openssl"));
        let fault = |words| parse(words).unwrap_err().to_string();
        assert!(fault(&["opensll"]).contains("did you mean 'openssl'"));
        assert!(fault(&["none", "openssl"]).contains("stands alone"));
    }
}
