//! Selects the waiting methods, sessions and devices that `ctrlq` measures, and checks the
//! selection.

use std::path::PathBuf;
use std::str::FromStr;

use kiln_driver::Request;
use kiln_measure::{CoreList, SplitMix64};
use kiln_question::{unknown, Error};
use kiln_virtio::wire::session::{Akcipher, Cipher};
use kiln_virtio::wire::{algo, Create};

/// Maximum number of workers. With more threads, the result would mainly depend on the host's
/// scheduler.
const MOST_WORKERS: usize = 256;
/// Default number of rounds. With nine rounds, a single disturbed round cannot widen the interval.
const ROUNDS: usize = 9;
/// Default number of rounds with `--quick`.
const QUICK_ROUNDS: usize = 6;
/// The smallest number of rounds that gives a 95 % interval (`kiln_measure::ratio_of_rounds`).
const LEAST_ROUNDS: usize = 6;
/// Maximum number of rounds. The limit is meant to catch typos.
const MOST_ROUNDS: usize = 1000;
/// Size in bytes of the modulus of a 2048-bit RSA key.
const MODULUS: usize = 256;

/// How the driver waits for the control queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The thread polls the used ring while it holds the queue's lock.
    Poll,
    /// The thread sleeps until its request is completed.
    Wait,
    /// A callback runs on completion, and many requests are in flight.
    Async,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::Poll, Way::Wait, Way::Async];

    /// Returns the method's name as used in rows and flags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Poll => "poll",
            Way::Wait => "wait",
            Way::Async => "async",
        }
    }
}

/// The kind of session that is created and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// AES-128-CBC.
    Cipher,
    /// A raw public RSA key of 2048 bits.
    Akcipher,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Cipher, Kind::Akcipher];

    /// Returns the session kind's name as used in rows and flags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Cipher => "cipher",
            Kind::Akcipher => "akcipher",
        }
    }

    /// Returns a request that creates a session of this kind, with a key derived from the seed.
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
                // Set the highest bit, so that the modulus has its full length, and the lowest bit,
                // because a modulus is odd.
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

/// Encodes an `RSAPublicKey` with exponent 65537 in DER (RFC 8017, appendix A.1.1).
fn public_key(modulus: &[u8; MODULUS]) -> Vec<u8> {
    // A leading zero byte makes the modulus a positive number.
    let mut numbers = vec![0x02, 0x82, 1, 1, 0];
    numbers.extend_from_slice(modulus);
    numbers.extend_from_slice(&[0x02, 3, 1, 0, 1]);
    let mut key = vec![0x30, 0x82];
    key.extend_from_slice(&(numbers.len() as u16).to_be_bytes());
    key.extend_from_slice(&numbers);
    key
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Waiting methods to measure.
    pub ways: Vec<Way>,
    /// Numbers of worker threads to measure; `async` always uses one thread.
    pub workers: Vec<usize>,
    /// Where the device serves control requests: on the queue's own thread, or on a second thread.
    pub ctrls: Vec<&'static str>,
    pub kinds: Vec<Kind>,
    /// Number of requests in flight under `async`.
    pub depth: usize,
    /// Measurement time per row in seconds, divided among all rounds.
    pub seconds: f64,
    /// Number of rounds. Each round measures every row once.
    pub rounds: usize,
    /// Socket of a running device; if `None`, Kiln starts its own devices.
    pub socket: Option<PathBuf>,
    /// How long a device started by Kiln polls before it sleeps, in microseconds. `None` means the
    /// default.
    pub poll_us: Option<u64>,
    /// Cores of the devices started by Kiln; the driver uses the remaining cores. If `None`, driver
    /// and devices share all cores.
    pub device_cpu: Option<CoreList>,
    /// How many times a polling thread tries to take the lock before it yields its core. `None`
    /// means the driver's default.
    pub spins: Option<u32>,
    /// Seed for every random choice.
    pub seed: u64,
}

impl Plan {
    /// Returns the default plan. In addition to the published comparison, it covers other waiting
    /// methods and kinds of sessions.
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
            device_cpu: None,
            spins: None,
            seed,
        }
    }

    /// Checks that the plan can be run.
    ///
    /// # Errors
    /// Fails if a number is out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(n) = self.workers.iter().find(|&&n| n == 0 || n > MOST_WORKERS) {
            return Err(Error::input(format!(
                "--workers {n}: use 1 to {MOST_WORKERS} threads"
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
                "--rounds {}: use {LEAST_ROUNDS}, the fewest that give an interval, to {MOST_ROUNDS}",
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

/// Parses the names of waiting methods. Returns all methods if `names` is empty.
///
/// # Errors
/// Fails if a name is unknown.
pub(super) fn parse_modes(names: &[String]) -> Result<Vec<Way>, Error> {
    match names {
        [] => Ok(Way::ALL.to_vec()),
        names => names.iter().map(|n| n.parse()).collect(),
    }
}

/// Parses the names of session kinds. Returns both kinds if `names` is empty.
///
/// # Errors
/// Fails if a name is unknown.
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

/// Parses the names that select where the device serves control requests. Returns both choices if
/// `names` is empty.
///
/// # Errors
/// Fails if a name is unknown.
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
        assert!(plan.check().unwrap_err().to_string().contains("use 6"));
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
