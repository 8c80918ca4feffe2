//! Messages that are encrypted or hashed in parallel, and the expected results.

use std::fmt;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_measure::SplitMix64;

use super::judge::{judge, Judged};
use super::message::{bytes, Message};

/// Maximum number of messages: more than two rounds of the widest implementation.
const MOST: usize = 80;
/// Messages have up to 50 times this many bytes.
const UNIT: usize = 16;
/// Maximum length in bytes of the text that a hash has absorbed before the messages.
const MOST_SHARED: usize = 300;

/// Messages under one key, with their expected results and their placement.
#[derive(Clone, Debug)]
pub struct Many {
    /// The messages. All have the same key.
    pub messages: Vec<Message>,
    /// For a hash: the text that precedes each of the messages. The state has absorbed it before
    /// the call.
    pub shared: Vec<u8>,
    /// The expected results, one per message.
    pub judged: Vec<Judged>,
    /// Whether the results overwrite the messages.
    pub in_place: bool,
    /// Seed for the placement.
    pub rng: u64,
}

impl Many {
    /// Creates random messages, all of one length or of different lengths, including empty ones.
    pub(crate) fn draw(with: Impl, rng: &mut SplitMix64) -> Result<Many, String> {
        let count = match rng.below(3) {
            0 => 1 + rng.below(8),
            _ => 1 + rng.below(MOST),
        };
        let most = [1, 5, 20, 50][rng.below(4)];
        // The unit of a cipher's lengths is its block; hashes take any length.
        let (unit, hash) = match with.kind() {
            Kind::Hash => (1, true),
            _ => (with.block_size(), false),
        };
        let most = most * UNIT / unit;
        let alike = rng.one_in(3).then(|| rng.below(most + 1));
        let first = Message::draw(with, rng, Some(0));
        let shared = match (hash, rng.below(4)) {
            (true, 0) => with.block_size() * (1 + rng.below(2)),
            (true, 1) => rng.below(MOST_SHARED),
            _ => 0,
        };
        let shared = bytes(rng, shared);
        let mut messages = Vec::new();
        let mut judged = Vec::new();
        for _ in 0..count {
            let len = unit * alike.unwrap_or_else(|| rng.below(most + 1));
            let message = Message {
                iv: bytes(rng, with.iv_size()),
                text: bytes(rng, len),
                ..first.clone()
            };
            let whole = Message {
                text: [&shared[..], &message.text].concat(),
                ..message.clone()
            };
            judged.push(judge(with, Op::Encrypt, &whole, &[])?);
            messages.push(message);
        }
        Ok(Many {
            messages,
            shared,
            judged,
            in_place: !hash && rng.one_in(2),
            rng: rng.next_u64(),
        })
    }

    /// Returns the expected outputs: the texts of a cipher, or the digests of a hash.
    pub(crate) fn results(&self) -> impl Iterator<Item = &[u8]> {
        self.judged.iter().map(|j| match &j.answer.tag[..] {
            [] => &j.answer.text[..],
            digest => digest,
        })
    }
}

impl fmt::Display for Many {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = self.messages.iter().map(|m| m.text.len());
        let most = lens.max().unwrap_or(0);
        let place = if self.in_place { ", in place" } else { "" };
        let after = match self.shared.len() {
            0 => String::new(),
            n => format!(", after {n} bytes in common"),
        };
        write!(
            f,
            "{} messages of up to {most} bytes{after}{place}",
            self.messages.len()
        )
    }
}
