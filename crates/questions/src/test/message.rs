//! A message, its expected result, and where both are placed in memory.

use std::fmt;

use kiln_kernel::cipher::{Impl, Kind};
use kiln_kernel::fpu::Context;
use kiln_measure::SplitMix64;

use super::guard::{Place, PAGE};

/// Maximum length in bytes of a random text.
const LONGEST: usize = 66_000;

/// The inputs of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The key; empty if the function takes no key.
    pub key: Vec<u8>,
    pub iv: Vec<u8>,
    /// Associated data; empty unless the function belongs to an AEAD.
    pub aad: Vec<u8>,
    /// The text to encrypt, decrypt or digest.
    pub text: Vec<u8>,
    /// Size of the tag in bytes, for AEADs only.
    pub tag_size: usize,
}

/// The outputs of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The encrypted or decrypted text; empty for a hash.
    pub text: Vec<u8>,
    /// The tag of an AEAD, or the digest of a hash; empty for other algorithms.
    pub tag: Vec<u8>,
    /// Content of the IV buffer after the call. The function may have changed it.
    pub iv: Vec<u8>,
}

/// How a message is divided, and which implementations process the pieces.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// Lengths of the pieces of the associated data.
    pub aad: Vec<usize>,
    /// Lengths of the pieces of the text.
    pub text: Vec<usize>,
    /// The implementation that performs every second step; `None` if the tested implementation
    /// performs all of them.
    pub other: Option<Impl>,
    /// Bit n is set if the state is moved to other memory after step n.
    pub moves: u64,
}

/// Placement of all buffers in memory, and the context of the call.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Whether the source and the destination are the same memory.
    pub in_place: bool,
    /// Placement of the source, unless `in_place` is set.
    pub src: Place,
    /// Placement of the destination. If `in_place` is set, the source has the same placement.
    pub dst: Place,
    pub iv: Place,
    /// Placement of the associated data.
    pub aad: Place,
    /// Placement of the tag or digest.
    pub tag: Place,
    pub key: Place,
    /// The context from which every call is made.
    pub context: Context,
    /// How the message is divided, if it is processed in pieces.
    pub cut: Option<Cut>,
}

impl Layout {
    /// Creates a layout with all buffers at `place`, for calls from a task that process the whole
    /// message at once.
    pub fn at(place: Place, in_place: bool) -> Layout {
        Layout {
            in_place,
            src: place,
            dst: place,
            iv: place,
            aad: place,
            tag: place,
            key: place,
            context: Context::Task,
            cut: None,
        }
    }

    /// Creates a random layout, for calls from a task that process the whole message at once.
    pub(crate) fn draw(rng: &mut SplitMix64) -> Layout {
        Layout {
            in_place: rng.one_in(2),
            src: place(rng),
            dst: place(rng),
            iv: place(rng),
            aad: place(rng),
            tag: place(rng),
            key: place(rng),
            context: Context::Task,
            cut: None,
        }
    }
}

impl Message {
    /// Creates a random message that `imp` accepts. If `len` is given, the text has `len` bytes,
    /// rounded up to a length that `imp` accepts.
    pub(crate) fn draw(imp: Impl, rng: &mut SplitMix64, len: Option<usize>) -> Message {
        let len = whole(imp, len.unwrap_or_else(|| length(rng)));
        let key = match imp.key_sizes() {
            sizes if sizes.is_empty() => 0,
            sizes => sizes[rng.below(sizes.len())],
        };
        let aad = match (imp.kind(), rng.below(6)) {
            (Kind::Aead, 0) => 0,
            (Kind::Aead, 1) => rng.below(700),
            (Kind::Aead, _) => rng.below(40),
            _ => 0,
        };
        let tag_size = match imp.kind() {
            Kind::Aead => imp.tag_sizes()[rng.below(imp.tag_sizes().len())],
            _ => 0,
        };
        let mut message = Message {
            key: bytes(rng, key),
            iv: bytes(rng, imp.iv_size()),
            aad: bytes(rng, aad),
            text: bytes(rng, len),
            tag_size,
        };
        message.settle_iv(imp, rng);
        message
    }

    /// Adjusts the IV so that the algorithm accepts it and, in some cases, so that the counter soon
    /// overflows.
    fn settle_iv(&mut self, imp: Impl, rng: &mut SplitMix64) {
        let iv = &mut self.iv;
        if rng.one_in(4) {
            let from = rng.below(iv.len() + 1);
            iv[from..].fill(0xff);
            // With 0xff in the last byte, the counter overflows at the first increment. In half of
            // these IVs, randomize the last byte, so that the overflow occurs within 256 blocks.
            if let Some(last) = iv.last_mut().filter(|_| rng.one_in(2)) {
                *last = rng.below(256) as u8;
            }
        }
        // Make ChaCha20's counter, which is the first four bytes in little-endian order, wrap
        // around within 256 blocks.
        if imp.alg() == "chacha20" && rng.one_in(4) {
            iv[1..4].fill(0xff);
        }
        // For CCM, choose a length field in which the text's length fits. The first byte of the IV
        // encodes the size of this field (RFC 3610).
        if imp.alg().contains("ccm(") && imp.iv_size() == 16 {
            let least =
                1 + usize::from(self.text.len() > 255) + usize::from(self.text.len() > 65_535);
            iv[0] = (least + rng.below(8 - least)) as u8;
        }
    }
}

impl Cut {
    /// Merges the last piece of the text into the one before it until it has at least the minimum
    /// length of the algorithm. No implementation would accept a shorter last piece.
    pub(crate) fn settle(&mut self, imp: Impl) {
        while let [.., before, last] = self.text[..] {
            if last >= imp.shortest() {
                break;
            }
            self.text.pop();
            if let Some(end) = self.text.last_mut() {
                *end = before + last;
            }
        }
    }

    /// Divides `message` into random pieces.
    pub(crate) fn draw(imp: Impl, message: &Message, usable: &[Impl], rng: &mut SplitMix64) -> Cut {
        let mut cut = Cut {
            aad: pieces(message.aad.len(), 1, rng),
            text: pieces(message.text.len(), unit(imp), rng),
            other: rng.one_in(2).then(|| usable[rng.below(usable.len())]),
            moves: rng.next_u64(),
        };
        cut.settle(imp);
        cut
    }
}

/// Returns the granularity of pieces in bytes. The length of every piece except the last must be a
/// multiple of this value.
pub(crate) fn unit(imp: Impl) -> usize {
    match imp.kind() {
        Kind::Hash => 1,
        _ if imp.alg().contains("chacha") => 64,
        _ => imp.block_size().max(16),
    }
}

/// Returns the smallest length that `imp` accepts and that is at least `len`.
pub(crate) fn whole(imp: Impl, len: usize) -> usize {
    let len = len.max(imp.shortest());
    match imp.kind() {
        Kind::Skcipher => len.next_multiple_of(imp.block_size()),
        _ => len,
    }
}

pub(crate) fn bytes(rng: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Returns a random length, usually a short one. Favours lengths that make the code take different
/// branches over lengths that only add loop iterations.
fn length(rng: &mut SplitMix64) -> usize {
    if rng.one_in(4096) {
        return 4200 + rng.below(LONGEST - 4200 + 1);
    }
    match rng.below(64) {
        0..=23 => rng.below(65),
        24..=47 => rng.below(300),
        48..=57 => rng.below(1100),
        58..=61 => {
            let unit = [64, 128, 256, 512, 1024][rng.below(5)];
            (unit * (1 + rng.below(4200 / unit)) + rng.below(41)).saturating_sub(20)
        }
        _ => rng.below(4200),
    }
}

fn pieces(len: usize, unit: usize, rng: &mut SplitMix64) -> Vec<usize> {
    let mut pieces = Vec::new();
    let mut left = len;
    while left > 0 {
        let most = [40, 300, 2000][rng.below(3)];
        let n = (rng.below(most) / unit * unit).min(left);
        // A piece may be empty.
        pieces.push(n);
        left -= n;
        if left < unit || rng.one_in(8) {
            pieces.push(left);
            left = 0;
        }
    }
    pieces
}

/// Returns a random place. One half of the places are adjacent to a guard page: three out of four
/// of these to the upper one, and the rest to the lower one, which testmgr's two-page buffers do
/// not have. The other half are distributed like testmgr's offsets: a quarter in the last 128 bytes
/// of a page, three eighths at offsets below 32, and the rest anywhere in a page.
fn place(rng: &mut SplitMix64) -> Place {
    if rng.one_in(2) {
        return match rng.below(4) {
            0 => Place::At(0),
            _ => Place::End,
        };
    }
    Place::At(match rng.below(8) {
        0..=1 => PAGE - 1 - rng.below(128),
        2..=4 => rng.below(32),
        _ => rng.below(PAGE),
    })
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.text.len())?;
        if !self.key.is_empty() {
            write!(f, ", {}-bit key", 8 * self.key.len())?;
        }
        if self.tag_size > 0 {
            write!(
                f,
                ", {} associated, tag of {}",
                self.aad.len(),
                self.tag_size
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_place {
            true => write!(f, "in place ({})", self.dst)?,
            false => write!(f, "source {}, destination {}", self.src, self.dst)?,
        }
        if let Some(cut) = &self.cut {
            write!(f, ", in {} pieces", cut.aad.len() + cut.text.len())?;
            if let Some(other) = cut.other {
                write!(f, " in turn with {}", other.driver())?;
            }
        }
        Ok(())
    }
}
