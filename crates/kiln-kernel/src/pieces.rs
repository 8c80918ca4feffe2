//! Processes one message in pieces, with one call to an implementation per piece. The state is kept
//! between calls.

use std::ptr;

use crate::cipher::{Context, Impl, Kind, Op};
use crate::cpu;
use crate::sys;
use crate::tier::Tier;

/// A message, and how it is divided into pieces.
pub struct Pieces<'a> {
    /// Direction; ignored by hashes.
    pub op: Op,
    /// A second implementation, which processes every other piece.
    pub other: Option<Impl>,
    pub src: &'a [u8],
    /// The result; empty for a hash.
    pub dst: &'a mut [u8],
    pub iv: &'a [u8],
    pub aad: &'a [u8],
    /// Tag size in bytes; used only for AEADs.
    pub tag_size: usize,
    /// Lengths of the associated data pieces.
    pub aad_pieces: &'a [usize],
    /// Lengths of the text pieces.
    pub pieces: &'a [usize],
}

impl Impl {
    /// Returns the state of an unkeyed hash after it has processed `data`, in the format that
    /// `kernel/` uses. Returns `None` for other algorithms, and for tiers that need an FPU section.
    pub fn unkeyed_state(self, data: &[u8]) -> Option<Vec<u8>> {
        let plain = self.kind() == Kind::Hash && !self.is_keyed() && self.tier() == Tier::Generic;
        if !plain {
            return None;
        }
        // SAFETY: the kind determines which member of the union is initialised.
        let ops = unsafe { self.0.__bindgen_anon_1.hash };
        let mut state = vec![0u64; self.state_size().div_ceil(8)];
        let to = state.as_mut_ptr().cast();
        // SAFETY: the buffer has the size and alignment of a state. An unkeyed hash does not read
        // the context, and a generic implementation does not need an FPU section.
        unsafe {
            ops.init?(ptr::null(), to);
            ops.update?(ptr::null(), to, data.as_ptr(), data.len());
        }
        let bytes = state.into_iter().flat_map(u64::to_le_bytes);
        Some(bytes.take(self.state_size()).collect())
    }

    /// Processes one message in pieces. With `other`, the two implementations alternate and share
    /// one state. Returns the tag or digest, for both encryption and decryption.
    ///
    /// # Panics
    /// If an implementation does not accept the message or cannot be used here, or if the text is
    /// longer than [`Impl::longest`].
    pub fn pieces(self, ctx: &Context, message: &mut Pieces<'_>) -> Vec<u8> {
        for imp in [Some(self), message.other].into_iter().flatten() {
            assert!(imp.tier().usable(), "{imp:?} cannot be used here");
            assert_eq!(ctx.alg(), imp.alg());
        }
        let aad: usize = message.aad_pieces.iter().sum();
        let text: usize = message.pieces.iter().sum();
        assert_eq!((aad, text), (message.aad.len(), message.src.len()));
        assert!(message.dst.len() >= text || self.kind() == Kind::Hash);
        assert!(message.iv.len() >= self.iv_size());
        let all: Vec<u32> = message
            .aad_pieces
            .iter()
            .chain(message.pieces)
            .map(|&n| n as u32)
            .collect();
        let mut tag = vec![0; self.digest_size().max(message.tag_size)];
        let mut raw = sys::Pieces {
            impl_: self.0,
            other: message.other.map_or(std::ptr::null(), |o| o.0),
            ctx: ctx.as_ptr(),
            dst: message.dst.as_mut_ptr(),
            src: message.src.as_ptr(),
            iv: message.iv.as_ptr(),
            aad: message.aad.as_ptr(),
            tag: tag.as_mut_ptr(),
            len: text,
            aadlen: aad,
            tagsize: message.tag_size,
            decrypt: message.op == Op::Decrypt,
            piece: all.as_ptr(),
            pieces: all.len() as u32,
            aad_pieces: message.aad_pieces.len() as u32,
        };
        // SAFETY: the assertions above ensure that the pieces do not exceed the buffers.
        let err = unsafe { cpu::gate(sys::kiln_pieces_run, (&raw mut raw).cast()) };
        assert_eq!(err, 0, "the text is not too long");
        tag
    }
}
