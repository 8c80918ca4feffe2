//! The in-memory messages that [`crate::calls`] passes to functions and [`crate::crypto`] submits
//! in requests.

use std::fmt;

use crate::cipher::{Impl, Kind, Op};
use crate::sys;

pub use crate::sys::Messages as Raw;

/// Size in bytes of the longest IV.
const MAX_IV: usize = 32;

/// Messages in memory. Mirrors `struct kiln_messages`.
///
/// A message consists of a prefix (associated data), text and, for decryption, a tag. A result has
/// space for the prefix (which is not written), the text and, for encryption, the tag. The result
/// of a hash is the digest.
#[derive(Default)]
pub struct Messages<'a> {
    /// Direction; ignored by hashes.
    pub op: Op,
    /// Buffer that holds the messages. Message i starts at offset `i * src_stride`.
    pub src: &'a [u8],
    /// Buffer for the results; the result of message i is written to offset `i * dst_stride`.
    pub dst: &'a mut [u8],
    /// Buffer that holds the IVs. The IV of message i is at offset `i * iv_stride`.
    pub ivs: &'a [u8],
    /// Buffer for copies of all IVs. The called functions may modify the copies. The buffer may be
    /// empty if there is only one message.
    pub iv_room: &'a mut [u8],
    /// Distance in bytes between consecutive messages.
    pub src_stride: usize,
    /// Distance in bytes between consecutive results; 0 if all results share the same buffer.
    pub dst_stride: usize,
    /// Distance in bytes between consecutive IVs.
    pub iv_stride: usize,
    /// Text length in bytes.
    pub len: usize,
    /// Prefix length in bytes.
    pub prefix: usize,
    /// Tag length in bytes; 0 if the algorithm has no tag.
    pub tag_size: usize,
    /// Number of messages in `src`.
    pub count: usize,
}

/// Sizes in bytes of a message's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lens {
    /// Size of the prefix, which holds associated data.
    pub assoc: usize,
    pub text: usize,
    /// Size of the tag, which is part of the result when encrypting, and of the message when
    /// decrypting.
    pub tag: usize,
    /// Size of a hash's digest.
    pub digest: usize,
}

impl Lens {
    /// Returns the size in bytes of a whole message.
    pub fn src(&self, op: Op) -> usize {
        self.assoc + self.text + if op == Op::Decrypt { self.tag } else { 0 }
    }

    /// Returns the size in bytes of a whole result.
    pub fn dst(&self, op: Op) -> usize {
        match (self.digest, op) {
            (0, Op::Encrypt) => self.assoc + self.text + self.tag,
            (0, Op::Decrypt) => self.assoc + self.text,
            (digest, _) => digest,
        }
    }
}

impl Impl {
    /// Returns the sizes for a message with `text` bytes of text and, if the implementation is an
    /// AEAD, `assoc` bytes of associated data.
    pub fn lens(self, assoc: usize, text: usize) -> Lens {
        let (aead, hash) = (self.kind() == Kind::Aead, self.kind() == Kind::Hash);
        Lens {
            assoc: if aead { assoc } else { 0 },
            text,
            tag: if aead { self.digest_size() } else { 0 },
            digest: if hash { self.digest_size() } else { 0 },
        }
    }
}

/// Error: the messages exceed their buffers, or the algorithm does not accept them. The string
/// describes the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit(pub &'static str);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unfit messages: {}", self.0)
    }
}

impl std::error::Error for Unfit {}

/// What an algorithm requires of the buffers for its messages. Also used by kiln-tree.
#[doc(hidden)]
pub struct Needs {
    pub kind: Kind,
    /// IV size in bytes.
    pub iv: usize,
    /// Digest size in bytes.
    pub digest: usize,
    /// Whether tags are in a separate buffer.
    pub tags_apart: bool,
    /// Whether IVs are copied to `iv_room`.
    pub copies_ivs: bool,
}

/// Space for the IV of a single message.
#[doc(hidden)]
pub type IvRoom = [u8; MAX_IV];

pub(crate) fn fits(good: bool, what: &'static str) -> Result<(), Unfit> {
    good.then_some(()).ok_or(Unfit(what))
}

/// Returns whether a buffer of `bytes` bytes can hold `count` parts of `size` bytes at intervals of
/// `stride` bytes.
pub(crate) fn holds(bytes: usize, count: usize, stride: usize, size: usize) -> bool {
    let last = count.checked_sub(1).and_then(|n| n.checked_mul(stride));
    last.and_then(|n| n.checked_add(size))
        .is_some_and(|end| end <= bytes)
}

impl<'a> Messages<'a> {
    /// Describes a single message that has neither a prefix nor a tag.
    pub fn single(op: Op, src: &'a [u8], dst: &'a mut [u8], iv: &'a [u8]) -> Messages<'a> {
        Messages {
            op,
            len: src.len(),
            src_stride: src.len(),
            dst_stride: dst.len(),
            iv_stride: iv.len(),
            src,
            dst,
            ivs: iv,
            count: 1,
            ..Messages::default()
        }
    }

    /// Returns the messages after the first `n`.
    ///
    /// # Panics
    /// If there are fewer than `n` messages.
    pub fn skip(self, n: usize) -> Messages<'a> {
        Messages {
            src: &self.src[n * self.src_stride..],
            dst: &mut self.dst[n * self.dst_stride..],
            ivs: &self.ivs[n * self.iv_stride..],
            count: self.count - n,
            ..self
        }
    }

    /// Sets the sizes of the messages' prefix and tag.
    pub fn with_lens(self, lens: Lens) -> Messages<'a> {
        Messages {
            len: lens.text,
            prefix: lens.assoc,
            tag_size: lens.tag,
            ..self
        }
    }

    /// Checks that the buffers are large enough, and converts the messages to the C structure.
    /// Copies the IV of a single message to `single`. The result points into the messages and
    /// `single`.
    #[doc(hidden)]
    pub fn raw(
        &mut self,
        needs: &Needs,
        single: &mut IvRoom,
        calls: u64,
    ) -> Result<sys::Messages, Unfit> {
        let count = self.count;
        let behind = match needs.tags_apart {
            true => 0,
            false => self.tag_size,
        };
        let size = |tag: bool| {
            let text = self.prefix.checked_add(self.len)?;
            text.checked_add(if tag { behind } else { 0 })
        };
        let decrypt = self.op == Op::Decrypt;
        let sizes = size(decrypt).zip(size(!decrypt));
        let (src, dst) = sizes.ok_or(Unfit("longer than memory"))?;
        let dst = match needs.kind {
            Kind::Hash => needs.digest,
            _ => dst,
        };
        fits(count > 0, "there are no messages")?;
        let sources = holds(self.src.len(), count, self.src_stride, src);
        fits(sources, "sources")?;
        let results = holds(self.dst.len(), count, self.dst_stride, dst);
        fits(results, "results")?;
        let apart = count == 1 || self.dst_stride == 0 || self.dst_stride >= dst;
        fits(apart, "results overlap")?;
        let ivs = needs.iv == 0 || holds(self.ivs.len(), count, self.iv_stride, needs.iv);
        fits(ivs, "IVs")?;
        let mut iv_room: &mut [u8] = self.iv_room;
        if needs.copies_ivs {
            if count == 1 && iv_room.is_empty() {
                iv_room = single;
            }
            let copied = count.checked_mul(self.iv_stride);
            let room = copied.is_some_and(|n| n <= self.ivs.len() && n <= iv_room.len());
            fits(room, "no space for copies of the IVs")?;
        }
        Ok(sys::Messages {
            src: self.src.as_ptr(),
            dst: self.dst.as_mut_ptr(),
            iv: self.ivs.as_ptr(),
            iv_room: iv_room.as_mut_ptr(),
            src_stride: self.src_stride as u64,
            dst_stride: self.dst_stride as u64,
            iv_stride: self.iv_stride as u64,
            len: self.len as u64,
            prefix: self.prefix as u64,
            tag: match needs.kind {
                Kind::Hash => needs.digest as u64,
                _ => self.tag_size as u64,
            },
            count: count as u64,
            calls,
            decrypt: decrypt && needs.kind != Kind::Hash,
        })
    }
}
