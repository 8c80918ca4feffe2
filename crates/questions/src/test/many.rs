//! Messages that are encrypted in parallel, and the expected results.

use std::fmt;

use kiln_kernel::cipher::{Impl, Op};
use kiln_measure::SplitMix64;

use super::judge::{judge, Judged};
use super::message::{bytes, Message};

/// Maximum number of messages: more than two rounds of the widest implementation.
const MOST: usize = 80;

/// Messages under one key, with their expected results and their placement.
#[derive(Clone, Debug)]
pub struct Many {
    /// The messages. All have the same key.
    pub messages: Vec<Message>,
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
        let alike = rng.one_in(3).then(|| rng.below(most + 1));
        let first = Message::draw(with, rng, Some(0));
        let mut messages = Vec::new();
        let mut judged = Vec::new();
        for _ in 0..count {
            let blocks = alike.unwrap_or_else(|| rng.below(most + 1));
            let message = Message {
                iv: bytes(rng, with.iv_size()),
                text: bytes(rng, blocks * with.block_size()),
                ..first.clone()
            };
            judged.push(judge(with, Op::Encrypt, &message, &[])?);
            messages.push(message);
        }
        Ok(Many {
            messages,
            judged,
            in_place: rng.one_in(2),
            rng: rng.next_u64(),
        })
    }
}

impl fmt::Display for Many {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = self.messages.iter().map(|m| m.text.len());
        let most = lens.max().unwrap_or(0);
        let place = if self.in_place { ", in place" } else { "" };
        write!(
            f,
            "encrypt {} messages of up to {most} bytes{place}",
            self.messages.len()
        )
    }
}
