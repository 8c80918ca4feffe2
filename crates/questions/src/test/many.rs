//! Messages to encrypt, decrypt or hash in parallel, and the expected results.

use std::fmt;

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::fpu::Context;
use kiln_measure::SplitMix64;

use super::caller;
use super::judge::{judge, task, Judged};
use super::message::{bytes, Message};

/// Maximum number of messages: enough for more than two rounds of the widest implementation.
const MOST: usize = 80;
/// Maximum message lengths are given in units of this many bytes. The largest maximum is 50 units.
const UNIT: usize = 16;
/// Maximum length in bytes of the text that a hash has absorbed before the messages.
const MOST_SHARED: usize = 300;

/// Messages under one key, with their expected results and their placement.
#[derive(Clone, Debug)]
pub struct Many {
    /// Whether the messages are encrypted or decrypted. Only AEADs decrypt several at a time.
    pub op: Op,
    /// The messages. All have the same key and tag size.
    pub messages: Vec<Message>,
    /// For a hash: the text that precedes each message. The hash state absorbs this text before the
    /// call.
    pub shared: Vec<u8>,
    /// The expected results, one per message. For decryption with an AEAD, the tags are those
    /// passed to the call, and the expected text of a forged message is all zeros.
    pub judged: Vec<Judged>,
    /// For each message, whether a bit of its tag is flipped.
    pub forged: Vec<bool>,
    /// Whether the results overwrite the messages.
    pub in_place: bool,
    /// The context from which the call is made.
    pub context: Context,
    /// Seed for the placement of the messages in memory.
    pub rng: u64,
}

impl Many {
    /// Creates random messages, either all of the same length or of different lengths, including
    /// empty ones.
    pub(crate) fn draw(with: Impl, context: Context, rng: &mut SplitMix64) -> Result<Many, String> {
        let count = match rng.below(3) {
            0 => 1 + rng.below(8),
            _ => 1 + rng.below(MOST),
        };
        let most = [1, 5, 20, 50][rng.below(4)];
        Many::draw_of((count, most), with, context, rng)
    }

    /// Creates `count` random messages of up to `most` units.
    pub(super) fn draw_of(
        (count, most): (usize, usize),
        with: Impl,
        context: Context,
        rng: &mut SplitMix64,
    ) -> Result<Many, String> {
        // A cipher's lengths are multiples of its block size; hashes accept any length.
        let (hash, aead) = (with.kind() == Kind::Hash, with.kind() == Kind::Aead);
        let unit = if hash { 1 } else { with.block_size() };
        let op = match aead && rng.one_in(2) {
            true => Op::Decrypt,
            false => Op::Encrypt,
        };
        let forges = op == Op::Decrypt && rng.one_in(2);
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
        let mut forged = Vec::new();
        for _ in 0..count {
            let len = unit * alike.unwrap_or_else(|| rng.below(most + 1));
            if aead {
                let forge = forges && rng.one_in(4);
                let (message, right) = draw_sealed(with, op, &first, len, forge, rng)?;
                messages.push(message);
                judged.push(right);
                forged.push(forge);
                continue;
            }
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
            forged.push(false);
        }
        Ok(Many {
            op,
            messages,
            shared,
            judged,
            forged,
            in_place: !hash && rng.one_in(2),
            context,
            rng: rng.next_u64(),
        })
    }

    /// Returns the texts of all messages, concatenated.
    pub(crate) fn texts(&self) -> Vec<u8> {
        let texts = self.messages.iter().map(|m| &m.text[..]);
        texts.collect::<Vec<_>>().concat()
    }

    /// Returns the expected outputs: the texts for a cipher or an AEAD, the digests for a hash.
    pub(crate) fn results(&self) -> impl Iterator<Item = &[u8]> {
        // The answer of a hash contains the digest instead of a tag, and no text.
        let hash = self.messages[0].tag_size == 0 && !self.judged[0].answer.tag.is_empty();
        self.judged.iter().map(move |j| match hash {
            true => &j.answer.tag[..],
            false => &j.answer.text[..],
        })
    }

    /// Returns the tags of all messages, concatenated.
    pub(crate) fn tags(&self) -> Vec<u8> {
        let tags = self.judged.iter().map(|j| &j.answer.tag[..]);
        tags.collect::<Vec<_>>().concat()
    }
}

/// Creates an AEAD message with the key and tag size of `first`, and its expected result. If
/// `forge` is set, a bit of the tag is flipped.
fn draw_sealed(
    with: Impl,
    op: Op,
    first: &Message,
    len: usize,
    forge: bool,
    rng: &mut SplitMix64,
) -> Result<(Message, Judged), String> {
    let message = Message {
        key: first.key.clone(),
        tag_size: first.tag_size,
        ..Message::draw(with, rng, Some(len))
    };
    let (message, mut judged) = task(with, op, message)?;
    if forge {
        judged.answer.tag[rng.below(first.tag_size)] ^= 1 << rng.below(8);
        judged.answer.text.fill(0);
    }
    Ok((message, judged))
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
        let opened = match (self.op, self.forged.iter().filter(|f| **f).count()) {
            (Op::Encrypt, _) => String::new(),
            (Op::Decrypt, n) => format!(" to decrypt, {n} of them forged"),
        };
        write!(
            f,
            "{} messages of up to {most} bytes{opened}{after}{place}, context {}",
            self.messages.len(),
            caller::name(self.context)
        )
    }
}
