//! Other libraries, for comparison with Kiln. Installed libraries are loaded at run time; the cargo
//! feature `peers` compiles one more library into the program.

mod aws_lc;
mod each;
mod gcrypt;
#[cfg(feature = "peers")]
mod graviola;
pub mod installed;
mod interface;
mod ipsec_mb;
mod library;
mod nettle;
mod openssl;
pub mod release;

use std::path::Path;

use kiln_question::{unknown, Error};

use crate::{Candidate, Choice, Judge, Kind, Level, Source, Spec, Work};
use interface::Peer;

/// Names that `--peers` accepts in addition to `auto` and `none`.
#[cfg(not(feature = "peers"))]
pub const NAMES: [&str; 5] = ["openssl", "libgcrypt", "nettle", "ipsec-mb", "aws-lc"];
/// Names that `--peers` accepts in addition to `auto` and `none`.
#[cfg(feature = "peers")]
pub const NAMES: [&str; 6] = [
    "openssl",
    "libgcrypt",
    "nettle",
    "ipsec-mb",
    "aws-lc",
    graviola::NAME,
];

/// Loads the library called `name`, which must be one of [`NAMES`].
///
/// # Errors
/// Returns one line that states the reason and a remedy.
pub fn load(name: &str) -> Result<Box<dyn Peer>, String> {
    load_from(name, None)
}

/// Loads a library. If `file` is given, tries only that file.
///
/// # Errors
/// Returns one line that states the reason and a remedy.
pub fn load_from(name: &str, file: Option<&Path>) -> Result<Box<dyn Peer>, String> {
    match name {
        "openssl" => openssl::OpenSsl::load(file).map(|p| Box::new(p) as Box<dyn Peer>),
        "libgcrypt" => gcrypt::Gcrypt::load(file).map(|p| Box::new(p) as Box<dyn Peer>),
        "nettle" => nettle::Nettle::load(file).map(|p| Box::new(p) as Box<dyn Peer>),
        "ipsec-mb" => ipsec_mb::IpsecMb::load(file).map(|p| Box::new(p) as Box<dyn Peer>),
        "aws-lc" => aws_lc::AwsLc::load(file).map(|p| Box::new(p) as Box<dyn Peer>),
        #[cfg(feature = "peers")]
        graviola::NAME => graviola::Graviola::load().map(|p| Box::new(p) as Box<dyn Peer>),
        other => Err(format!("library {other} is not known")),
    }
}

/// The libraries that `--peers` requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All installed libraries.
    #[default]
    Auto,
    None,
    /// The libraries with these names. A missing library is an error.
    Named(Vec<String>),
}

impl Wanted {
    /// Parses the values of `--peers`.
    pub fn parse(words: &[String]) -> Result<Wanted, Error> {
        match words {
            [] => Ok(Wanted::Auto),
            [word] if word == "auto" => Ok(Wanted::Auto),
            [word] if word == "none" => Ok(Wanted::None),
            _ => {
                for word in words {
                    if word == "auto" || word == "none" {
                        return Err(Error::input(format!(
                            "--peers: '{word}' cannot be combined with other names: leave '{word}' or the others out"
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

    /// Returns whether the user requested this library by name.
    pub fn names(&self, peer: &str) -> bool {
        matches!(self, Wanted::Named(names) if names.iter().any(|n| n == peer))
    }
}

/// The loaded libraries.
#[derive(Default)]
pub struct Peers {
    all: Vec<Box<dyn Peer>>,
}

impl Peers {
    /// Loads the requested libraries. Fails if the baseline library or a library that was requested
    /// by name cannot be loaded. If any other library cannot be loaded, adds a note.
    pub fn load(
        wanted: &Wanted,
        baseline: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Result<Peers, Error> {
        let mut peers = Peers::default();
        for name in NAMES {
            let named = wanted.names(name) || baseline == Some(name);
            let tried = named || *wanted == Wanted::Auto;
            if !tried {
                continue;
            }
            match load(name) {
                Ok(peer) => peers.all.push(peer),
                Err(why) if named => return Err(Error::lacks(why)),
                Err(why) => notes.push(why),
            }
        }
        Ok(peers)
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }
}

/// Libraries supply candidates only for algorithms that another source lists. They list no
/// algorithms themselves and provide no judges.
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
        choice: Choice,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Candidate<'_>>, Error> {
        let mut found = Vec::new();
        // Libraries have no candidates for hashes that take a key with each message; only kernel
        // trees have such hashes.
        if work.spec.kind == Kind::Hash && work.spec.prefix > 0 {
            return Ok(found);
        }
        for peer in &self.all {
            match peer.candidates(work) {
                Ok(mut all) => {
                    all.retain(|c| !(choice.latency && c.together));
                    // Apply the algorithm's restrictions on message length to libraries too.
                    all.iter_mut().for_each(|c| c.takes = work.spec.takes);
                    found.extend(all);
                }
                Err(why) => notes.push(format!("{why}: no rows of it")),
            }
        }
        Ok(found)
    }

    fn judge(&self, _: &Work) -> Result<Option<Judge<'_>>, Error> {
        Ok(None)
    }
}
