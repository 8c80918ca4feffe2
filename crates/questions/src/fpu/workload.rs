//! Defines the loads that the user can select by name. A load determines the work of the task and
//! of the softirqs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kiln_kernel::cipher::{Impl, Op};
use kiln_kernel::load::{self, Messages, TaskWork, Worker};
use kiln_measure::SplitMix64;
use kiln_question::Error;

/// Size in bytes of a softirq's message in the policy table: the payload of a full-size IPsec
/// packet.
pub(crate) const PACKET: usize = 1420;
/// Size in bytes of a softirq's message in proofs and campaigns. Short messages leave time for more
/// softirqs.
pub(crate) const SHORT_PACKET: usize = 128;

/// Number of iterations of an empty loop during which the task keeps the pattern in its registers.
/// The loop takes about ten microseconds.
const SPINS: u64 = 40_000;

/// A load in the policy table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Size of the task's messages in bytes; 0 for the task that keeps a pattern in all registers.
    pub len: usize,
    /// Size of the softirqs' messages in bytes.
    pub packet: usize,
    pub name: &'static str,
    /// Number of messages per kernel entry. An entry takes about 20 µs.
    pub entry: u64,
}

impl Workload {
    /// The default loads, in which the task encrypts messages of 16 or 4096 bytes.
    pub(crate) const XTS: [Workload; 2] = [
        Workload {
            len: 16,
            packet: PACKET,
            name: "xts-16",
            entry: 512,
        },
        Workload {
            len: 4096,
            packet: PACKET,
            name: "xts-4096",
            entry: 24,
        },
    ];
    /// A load under which the task keeps a pattern in all registers. Sections are long and softirqs
    /// are short, so nearly every interrupt hits a section.
    pub(crate) const PATTERN: Workload = Workload {
        len: 0,
        packet: 64,
        name: "pattern",
        entry: 20,
    };

    /// Creates the work of the task, which encrypts with `imp` or keeps a pattern.
    pub(crate) fn task(self, imp: Impl, seed: u64) -> Result<TaskWork, Error> {
        Ok(match self.task_messages(seed)? {
            None => self.keep(seed),
            Some(messages) => TaskWork::Crypt(imp, messages),
        })
    }

    /// Creates the task's messages; `None` if the task keeps a pattern instead.
    pub(crate) fn task_messages(self, seed: u64) -> Result<Option<Arc<Messages>>, Error> {
        match self.len {
            0 => Ok(None),
            len => messages(seed, 1, Op::Encrypt, len, 16).map(Some),
        }
    }

    /// Creates the work of a task that keeps a pattern in all registers.
    pub(crate) fn keep(self, seed: u64) -> TaskWork {
        TaskWork::Keep { seed, spins: SPINS }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => write!(f, "{} patterns kept about 10 µs", self.entry),
            len => write!(f, "{} messages of {len} B", self.entry),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(s: &str) -> Result<Workload, Error> {
        let all = [Workload::XTS[0], Workload::XTS[1], Workload::PATTERN];
        let found = all.into_iter().find(|w| w.name == s);
        found.ok_or_else(|| match s.starts_with("esp") || s.starts_with("pcap") {
            true => Error::input(format!("--load {s}: use: kiln ipsec --load {s}")),
            false => kiln_question::unknown("load", s, &all.map(|w| w.name)),
        })
    }
}

/// Returns the implementation that softirqs use if SIMD is not usable. Its results also serve as
/// the reference for other implementations.
pub(crate) fn scalar() -> Result<Impl, Error> {
    Impl::find("xts-aes-fixed-time")
        .ok_or_else(|| Error::lacks("this build has no scalar xts-aes-fixed-time: rebuild it"))
}

/// Creates messages that depend only on the arguments. `stream` distinguishes the sets of messages
/// in a load.
pub(crate) fn messages(
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

pub(crate) fn softirq_messages(seed: u64, packet: usize) -> Result<Arc<Messages>, Error> {
    messages(seed, 2, Op::Encrypt, packet, 16)
}

/// Creates a load in which the task does the work `task`, and softirqs use `worker` to encrypt
/// messages of `packet` bytes.
pub(crate) fn load_plan(
    seed: u64,
    task: TaskWork,
    worker: Worker,
    packet: usize,
    hardirq_fpu: bool,
) -> Result<load::Plan, Error> {
    Ok(load::Plan {
        task,
        softirq: (worker, softirq_messages(seed, packet)?),
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
        let e = "xts-15".parse::<Workload>().unwrap_err();
        assert!(e.to_string().contains("did you mean"), "{e}");
        let e = "pcap:x".parse::<Workload>().unwrap_err();
        assert!(e.to_string().contains("kiln ipsec --load pcap:x"), "{e}");
    }
}
