//! What is asked for.

use std::path::PathBuf;
use std::str::FromStr;

use kiln_driver::Request;
use kiln_measure::SplitMix64;
use kiln_question::{unknown, Error};
use kiln_virtio::wire::session::{Akcipher, Cipher};
use kiln_virtio::wire::{algo, Create};

/// Workers beyond this are threads that the host shuffles.
const MOST_WORKERS: usize = 256;
/// Rounds of a row by default, enough that one disturbed round is outside the interval, and with `--quick`.
const ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 6;
/// The fewest rounds that have a 95 % interval (`kiln_measure::ratio_of_rounds`), and a bound against slips.
const LEAST_ROUNDS: usize = 6;
const MOST_ROUNDS: usize = 1000;
/// Bytes of an RSA modulus: 2048 bits.
const MODULUS: usize = 256;

/// How the control queue is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The used ring is watched with the lock held.
    Poll,
    /// The thread sleeps until its request is completed.
    Wait,
    /// A function is called; many requests are in flight.
    Async,
}

impl Way {
    /// All of them.
    pub(super) const ALL: [Way; 3] = [Way::Poll, Way::Wait, Way::Async];

    /// As rows and flags have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Poll => "poll",
            Way::Wait => "wait",
            Way::Async => "async",
        }
    }
}

/// What kind of session comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// AES-128-CBC.
    Cipher,
    /// An RSA public key of 2048 bits, raw.
    Akcipher,
}

impl Kind {
    /// Both.
    pub(super) const ALL: [Kind; 2] = [Kind::Cipher, Kind::Akcipher];

    /// As rows and flags have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Cipher => "cipher",
            Kind::Akcipher => "akcipher",
        }
    }

    /// One of this kind, its key from the seed.
    pub(super) fn request(self, seed: u64) -> Request {
        let mut random = SplitMix64(seed);
        match self {
            Kind::Cipher => {
                let mut key = [0; 16];
                random.fill(&mut key);
                let create = Create::Cipher(Cipher {
                    algo: algo::cipher::AES_CBC,
                    key_len: key.len() as u32,
                    op: algo::OP_ENCRYPT,
                });
                Request::new(create, &key)
            }
            Kind::Akcipher => {
                let mut modulus = [0; MODULUS];
                random.fill(&mut modulus);
                // Of its full length, and odd.
                modulus[0] |= 0x80;
                modulus[MODULUS - 1] |= 1;
                let key = public_key(&modulus);
                let create = Create::Akcipher(Akcipher {
                    algo: algo::akcipher::RSA,
                    key_type: algo::akcipher::PUBLIC,
                    key_len: key.len() as u32,
                    para: [algo::akcipher::RAW_PADDING, algo::akcipher::RSA_NO_HASH],
                });
                Request::new(create, &key)
            }
        }
    }
}

/// `RSAPublicKey` in DER (RFC 8017, appendix A.1.1), the exponent 65537.
fn public_key(modulus: &[u8; MODULUS]) -> Vec<u8> {
    // The leading zero keeps the number positive.
    let mut numbers = vec![0x02, 0x82, 1, 1, 0];
    numbers.extend_from_slice(modulus);
    numbers.extend_from_slice(&[0x02, 3, 1, 0, 1]);
    let mut key = vec![0x30, 0x82];
    key.extend_from_slice(&(numbers.len() as u16).to_be_bytes());
    key.extend_from_slice(&numbers);
    key
}

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Ways of waiting.
    pub ways: Vec<Way>,
    /// Numbers of threads; `async` has one, whatever they are.
    pub workers: Vec<usize>,
    /// Whether the device serves control requests on the queue's thread, or on another.
    pub ctrls: Vec<&'static str>,
    /// Kinds of sessions.
    pub kinds: Vec<Kind>,
    /// Requests in flight under `async`.
    pub depth: usize,
    /// Measured time of each row, shared by its rounds.
    pub seconds: f64,
    /// Rounds, in each of which every row is measured once.
    pub rounds: usize,
    /// A device that is there already; else one is started.
    pub socket: Option<PathBuf>,
    /// Microseconds that a device that is started looks on before it sleeps; its own default if none.
    pub poll_us: Option<u64>,
    /// Attempts of a poller on the lock before it yields its core; none: the driver's default.
    pub spins: Option<u32>,
    /// Every random choice follows from it.
    pub seed: u64,
}

impl Plan {
    /// The paper's question, and the one behind it.
    pub(super) fn new(seed: u64, quick: bool) -> Plan {
        Plan {
            ways: Way::ALL.to_vec(),
            workers: vec![1, 2, 8],
            ctrls: vec!["inline", "thread"],
            kinds: Kind::ALL.to_vec(),
            depth: 128,
            seconds: if quick { 0.4 } else { 2.0 },
            rounds: if quick { QUICK_ROUNDS } else { ROUNDS },
            socket: None,
            poll_us: None,
            spins: None,
            seed,
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// A number out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(n) = self.workers.iter().find(|&&n| n == 0 || n > MOST_WORKERS) {
            return Err(Error::input(format!(
                "--workers {n}: from 1 to {MOST_WORKERS} threads can be workers"
            )));
        }
        if !(1..=256).contains(&self.depth) {
            return Err(Error::input(format!(
                "--depth {}: the queue holds from 1 to 256 requests",
                self.depth
            )));
        }
        if !(0.01..=600.0).contains(&self.seconds) {
            return Err(Error::input(format!(
                "--seconds {}: a row takes from 0.01 to 600",
                self.seconds
            )));
        }
        if !(LEAST_ROUNDS..=MOST_ROUNDS).contains(&self.rounds) {
            return Err(Error::input(format!(
                "--rounds {}: from {LEAST_ROUNDS}, the fewest that give an interval, to {MOST_ROUNDS}",
                self.rounds
            )));
        }
        Ok(())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(name: &str) -> Result<Way, Error> {
        let way = Way::ALL.into_iter().find(|w| w.name() == name);
        way.ok_or_else(|| unknown("way of waiting", name, &Way::ALL.map(Way::name)))
    }
}

/// Ways by name; all if there is none.
///
/// # Errors
/// A name that is not there.
pub(super) fn parse_modes(names: &[String]) -> Result<Vec<Way>, Error> {
    match names {
        [] => Ok(Way::ALL.to_vec()),
        names => names.iter().map(|n| n.parse()).collect(),
    }
}

/// Kinds of sessions by name; both if there is none.
///
/// # Errors
/// A name that is not there.
pub(super) fn parse_kinds(names: &[String]) -> Result<Vec<Kind>, Error> {
    let known = Kind::ALL.map(Kind::name);
    let one = |name: &String| {
        let kind = Kind::ALL.into_iter().find(|k| k.name() == name);
        kind.ok_or_else(|| unknown("kind of session", name, &known))
    };
    match names {
        [] => Ok(Kind::ALL.to_vec()),
        names => names.iter().map(one).collect(),
    }
}

/// The device's ways of serving control requests by name; both if there is none.
///
/// # Errors
/// A name that is not there.
pub(super) fn parse_ctrls(names: &[String]) -> Result<Vec<&'static str>, Error> {
    const KNOWN: [&str; 2] = ["inline", "thread"];
    let one = |name: &String| {
        let known = KNOWN.into_iter().find(|k| k == name);
        known.ok_or_else(|| unknown("way of serving", name, &KNOWN))
    };
    match names {
        [] => Ok(KNOWN.to_vec()),
        names => names.iter().map(one).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_that_there_are_not() {
        assert!(parse_modes(&["wiat".into()])
            .unwrap_err()
            .to_string()
            .contains("'wait'"));
        assert!(parse_kinds(&["rsa".into()]).is_err());
        assert!(parse_ctrls(&["in-line".into()]).is_err());
        let mut plan = Plan::new(1, true);
        plan.check().unwrap();
        plan.rounds = 5;
        assert!(plan.check().unwrap_err().to_string().contains("from 6"));
        plan.rounds = 6;
        plan.workers = vec![0];
        assert!(plan.check().is_err());
    }

    #[test]
    fn the_key_is_as_long_as_it_says() {
        let key = public_key(&[0xff; MODULUS]);
        assert_eq!(
            key.len(),
            4 + usize::from(u16::from_be_bytes([key[2], key[3]]))
        );
        assert_eq!(key.len(), 270);
    }
}
