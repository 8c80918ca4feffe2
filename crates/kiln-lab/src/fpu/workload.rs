//! What the task and the softirqs encrypt.

use std::str::FromStr;
use std::sync::Arc;

use kiln_kernel::load::{self, Messages, TaskWork};
use kiln_kernel::xts::{Impl, Op};
use kiln_measure::SplitMix64;

use crate::Error;

/// Bytes of a softirq's message in the policy table: what a full packet of IPsec holds.
pub const PACKET: usize = 1420;
/// Bytes of it in proof and corruption runs, where short softirqs leave time for more of them.
pub const SHORT_PACKET: usize = 512;

/// A load of the policy table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Bytes of the task's messages.
    pub len: usize,
    /// Its name.
    pub name: &'static str,
    /// Messages of one kernel entry: about 20 µs of them.
    pub entry: u64,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 2] = [
        Workload {
            len: 16,
            name: "xts-16",
            entry: 512,
        },
        Workload {
            len: 4096,
            name: "xts-4096",
            entry: 24,
        },
    ];
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(s: &str) -> Result<Workload, Error> {
        if s == "esp" || s.starts_with("pcap:") {
            return Err(Error::input(format!(
                "--load {s}: loads of packets are not part of this build: use xts-16 or xts-4096"
            )));
        }
        let known = Workload::ALL.map(|w| w.name);
        Workload::ALL
            .into_iter()
            .find(|w| w.name == s)
            .ok_or_else(|| crate::algorithm::unknown("load", s, &known))
    }
}

/// The implementation softirqs use when SIMD is not usable, and whose answers are held to be right.
pub fn scalar() -> Result<Impl, Error> {
    Impl::find("xts-aes-fixed-time")
        .ok_or_else(|| Error::lacks("this build has no scalar xts-aes-fixed-time: rebuild it"))
}

/// Messages that follow from the seed, and from nothing that ran before. `stream` tells apart those of one load.
pub fn messages(
    seed: u64,
    stream: u64,
    op: Op,
    len: usize,
    count: usize,
) -> Result<Arc<Messages>, Error> {
    let mut rng = SplitMix64(seed ^ (stream << 32) ^ len as u64);
    let mut key = [0; 64];
    rng.fill(&mut key);
    Messages::new(scalar()?, &key, op, len, count, &mut |bytes| {
        rng.fill(bytes)
    })
    .map_err(|e| Error::input(e.to_string()))
}

/// A load of a task and softirqs, the softirqs with messages of `packet` bytes.
pub fn load_plan(
    seed: u64,
    task: TaskWork,
    imp: Impl,
    packet: usize,
    hardirq_fpu: bool,
) -> Result<load::Plan, Error> {
    Ok(load::Plan {
        task,
        softirq: (imp, messages(seed, 2, Op::Encrypt, packet, 16)?),
        fallback: scalar()?,
        second: None,
        hardirq_fpu,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!("xts-16".parse::<Workload>().unwrap().len, 16);
        for (text, want) in [
            ("xts-15", "did you mean"),
            ("esp", "not part of this build"),
            ("pcap:x", "not part of this build"),
        ] {
            let e = text.parse::<Workload>().unwrap_err();
            assert!(e.to_string().contains(want), "{text}: {e}");
        }
    }
}
