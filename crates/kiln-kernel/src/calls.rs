//! Calls of one implementation to be timed: many messages, one FPU section, the loop in `kernel/`.

use std::ffi::c_void;

use crate::cipher::{Context, Impl, Kind};
use crate::cpu;
use crate::sys;
use crate::xts::Op;

/// Messages and where their results go. Message i is at `i * src_stride` and is followed in its memory by nothing,
/// or by the tag that an AEAD is to open; an AEAD's result is followed by the tag that it made.
pub struct Calls<'a> {
    /// En- or decrypt; nothing to a hash.
    pub op: Op,
    /// What goes in: associated data, then the message, then a tag to open.
    pub src: &'a [u8],
    /// What comes out: room for the associated data, which is not written, then the result, then the tag made. Of a
    /// hash the digest.
    pub dst: &'a mut [u8],
    /// IVs.
    pub ivs: &'a [u8],
    /// As much room as there are IVs: functions leave others than they found.
    pub work: &'a mut [u8],
    /// Bytes of a message.
    pub len: usize,
    /// From one message to the next.
    pub src_stride: usize,
    /// From one result to the next.
    pub dst_stride: usize,
    /// From one IV to the next.
    pub iv_stride: usize,
    /// Bytes before the message.
    pub prefix: usize,
    /// Of them, associated data, from the first on.
    pub aad_len: usize,
    /// Bytes of a tag.
    pub tag_size: usize,
    /// Messages.
    pub count: usize,
    /// Each IV is the beginning of the last result.
    pub chained: bool,
}

impl Calls<'_> {
    fn check(&self, imp: Impl) {
        let (aead, hash) = (imp.kind() == Kind::Aead, imp.kind() == Kind::Hash);
        let decrypt = self.op == Op::Decrypt;
        let tag = |on: bool| if aead && on { self.tag_size } else { 0 };
        let holds = |bytes: usize, stride: usize, each: usize| {
            (self.count - 1)
                .checked_mul(stride)
                .and_then(|n| n.checked_add(each))
                .is_some_and(|end| end <= bytes)
        };
        let (src, dst) = match hash {
            true => (self.prefix + self.len, imp.digest_size()),
            false => (
                self.prefix + self.len + tag(decrypt),
                self.prefix + self.len + tag(!decrypt),
            ),
        };
        assert!(self.count > 0, "there are messages");
        assert!(holds(self.src.len(), self.src_stride, src), "sources");
        assert!(holds(self.dst.len(), self.dst_stride, dst), "results");
        assert!(
            self.count == 1 || self.dst_stride >= dst,
            "results lie apart"
        );
        let iv = imp.iv_size();
        assert!(iv == 0 || holds(self.ivs.len(), self.iv_stride, iv), "IVs");
        assert!(
            self.work.len() >= self.count * self.iv_stride,
            "room for IVs"
        );
        assert!(self.ivs.len() >= self.count * self.iv_stride, "whole IVs");
        assert!(self.aad_len <= self.prefix, "associated data");
        assert!(self.len >= imp.shortest(), "long enough");
        let whole = imp.kind() != Kind::Skcipher || self.len % imp.block_size() == 0;
        assert!(whole, "whole blocks");
        let tags = !aead || imp.tag_sizes().contains(&self.tag_size);
        assert!(tags, "a tag size it takes");
        let chains = imp.kind() == Kind::Skcipher && self.len >= iv;
        assert!(!self.chained || chains, "IVs within the results");
    }

    /// Make `calls` calls; how many were refused for a wrong tag.
    ///
    /// # Panics
    /// If the buffers are too short, or the tier cannot be used.
    pub fn run(&mut self, imp: Impl, ctx: &Context, calls: u64) -> u64 {
        assert!(imp.tier().usable(), "{imp:?} cannot be used here");
        assert_eq!(ctx.alg(), imp.alg());
        self.check(imp);
        let decrypt = self.op == Op::Decrypt;
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr());
        // SAFETY: `check` saw that source and, but for a hash, destination have so many bytes; a tag that is to be
        // opened is read only.
        let (text, result, tag, tag_stride) = unsafe {
            let text = src.add(self.prefix);
            match (imp.kind(), decrypt) {
                (Kind::Hash, _) => (text, dst, dst, self.dst_stride),
                (_, true) => (
                    text,
                    dst.add(self.prefix),
                    text.add(self.len).cast_mut(),
                    self.src_stride,
                ),
                (_, false) => (
                    text,
                    dst.add(self.prefix),
                    dst.add(self.prefix + self.len),
                    self.dst_stride,
                ),
            }
        };
        let mut raw = sys::Calls {
            imp: imp.0,
            ctx: ctx.as_ptr(),
            dst: result,
            src: text,
            fresh: self.ivs.as_ptr(),
            aad: src,
            iv: self.work.as_mut_ptr(),
            tag,
            len: self.len,
            src_stride: self.src_stride,
            dst_stride: self.dst_stride,
            iv_stride: self.iv_stride,
            aad_stride: self.src_stride,
            tag_stride,
            aadlen: self.aad_len,
            tagsize: self.tag_size,
            count: self.count,
            calls,
            decrypt,
            chained: self.chained,
        };
        // SAFETY: `check` saw that all messages lie in their buffers.
        unsafe { cpu::gate(sys::kiln_calls_run, (&raw mut raw).cast::<c_void>()) }
    }
}
