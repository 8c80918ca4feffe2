//! Calls of one implementation to be timed: many messages, the loop in `kernel/`.

use std::ffi::c_void;

use crate::cipher::{Context, Impl, Kind, Op, Sections};
use crate::cpu;
use crate::sys;

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
    /// Many messages at a time, by the function for that.
    pub many: bool,
    /// FPU sections; skciphers may have one for each call.
    pub sections: Sections,
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
        let many = imp.lanes().is_some() && !decrypt && !self.chained;
        assert!(!self.many || many, "encrypts many");
        let apart = imp.kind() == Kind::Skcipher && !self.chained && !self.many;
        assert!(self.sections == Sections::One || apart, "sections");
    }

    /// Make `calls` calls; how many were refused for a wrong tag, or all if the text is longer than
    /// [`Impl::longest`].
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
            many: self.many,
            sections: self.sections as u32,
        };
        // SAFETY: `check` saw that all messages lie in their buffers.
        unsafe { cpu::gate(sys::kiln_calls_run, (&raw mut raw).cast::<c_void>()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::{Pieces, Series};
    use crate::cpu::{Config, Cpu};

    const COUNT: usize = 5;

    /// Bytes that differ.
    fn bytes(n: usize) -> Vec<u8> {
        (0..n as u64)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
            .collect()
    }

    struct Memory {
        src: Vec<u8>,
        dst: Vec<u8>,
        ivs: Vec<u8>,
        work: Vec<u8>,
        stride: usize,
        prefix: usize,
        tag: usize,
        iv_stride: usize,
        len: usize,
    }

    impl Memory {
        fn new(imp: Impl, len: usize) -> Memory {
            let aead = imp.kind() == Kind::Aead;
            let (prefix, tag) = if aead {
                (16, imp.digest_size())
            } else {
                (0, 0)
            };
            let stride = prefix + len + tag.max(imp.digest_size()) + 13;
            let iv_stride = imp.iv_size().next_multiple_of(16);
            let mut ivs = bytes(COUNT * iv_stride);
            if imp.alg() == "ccm(aes)" {
                ivs.chunks_mut(iv_stride).for_each(|iv| iv[0] = 3);
            }
            Memory {
                src: bytes(COUNT * stride),
                dst: vec![0; COUNT * stride],
                work: vec![0; ivs.len()],
                ivs,
                stride,
                prefix,
                tag,
                iv_stride,
                len,
            }
        }

        fn run(&mut self, imp: Impl, ctx: &Context, op: Op, chained: bool, calls: u64) -> u64 {
            let mut all = Calls {
                chained,
                ..self.calls(op)
            };
            all.run(imp, ctx, calls)
        }

        fn calls(&mut self, op: Op) -> Calls<'_> {
            Calls {
                op,
                src: &self.src,
                dst: &mut self.dst,
                ivs: &self.ivs,
                work: &mut self.work,
                len: self.len,
                src_stride: self.stride,
                dst_stride: self.stride,
                iv_stride: self.iv_stride,
                prefix: self.prefix,
                aad_len: self.prefix,
                tag_size: self.tag,
                count: COUNT,
                chained: false,
                many: false,
                sections: Sections::One,
            }
        }
    }

    fn context(imp: Impl) -> Context {
        let sizes = imp.key_sizes();
        let size = sizes.iter().rev().find(|&&n| n <= 64).or(sizes.first());
        Context::new(imp, &bytes(size.copied().unwrap_or(0))).unwrap()
    }

    #[test]
    fn skciphers_have_a_section_for_each_call_where_they_are_to() {
        let mut cpu = Cpu::boot(&Config::default()).unwrap();
        let all = Impl::all().into_iter();
        for imp in all.filter(|i| i.kind() == Kind::Skcipher && i.tier().usable()) {
            let ctx = context(imp);
            let simd = u64::from(imp.tier() != crate::Tier::Generic);
            let mut results = Vec::new();
            for (sections, counted) in [
                (Sections::One, 1),
                (Sections::Each, COUNT as u64),
                // Only the section timer counts them.
                (Sections::EachUntimed, 0),
            ] {
                let mut m = Memory::new(imp, 64);
                cpu.reset_stats();
                let mut calls = Calls {
                    sections,
                    ..m.calls(Op::Encrypt)
                };
                calls.run(imp, &ctx, COUNT as u64);
                assert_eq!(
                    cpu.stats().sections,
                    simd * counted,
                    "{imp:?}, {sections:?}"
                );
                results.push(m.dst);
            }
            assert!(results.iter().all(|r| *r == results[0]), "{imp:?}");
        }
    }

    /// One message by the other way to call an implementation: the text, or the digest, then the tag.
    fn alone(imp: Impl, ctx: &Context, op: Op, m: &Memory, i: usize, iv: &[u8]) -> Vec<u8> {
        let from = &m.src[i * m.stride..];
        let text = &from[m.prefix..m.prefix + m.len];
        let mut dst = vec![0; m.len];
        let mut tag = vec![0; imp.digest_size()];
        if op == Op::Decrypt {
            tag[..m.tag].copy_from_slice(&from[m.prefix + m.len..][..m.tag]);
        }
        let mut series = Series {
            op,
            src: text,
            dst: &mut dst,
            ivs: iv,
            aad: &from[..m.prefix],
            tags: &mut tag,
            len: m.len,
            stride: m.len,
            aad_len: m.prefix,
            tag_size: m.tag,
            tag_stride: 0,
            count: 1,
            sections: Sections::Each,
        };
        assert_eq!(imp.run(ctx, &mut series, 1), 0, "{imp:?}");
        match imp.kind() {
            Kind::Hash => tag,
            _ if op == Op::Encrypt => [dst, tag].concat(),
            _ => dst,
        }
    }

    /// More calls than messages: each result is what the message gives alone, with its own IV.
    #[test]
    fn results_are_those_of_single_calls() {
        for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
            let ctx = context(imp);
            let mut m = Memory::new(imp, 48);
            for calls in [3, 2 * COUNT as u64 + 1] {
                m.dst.fill(0);
                assert_eq!(m.run(imp, &ctx, Op::Encrypt, false, calls), 0);
                for i in 0..COUNT.min(calls as usize) {
                    let iv = &m.ivs[i * m.iv_stride..][..imp.iv_size()];
                    let want = alone(imp, &ctx, Op::Encrypt, &m, i, iv);
                    let at = i * m.stride + m.prefix;
                    assert_eq!(m.dst[at..at + want.len()], want, "{imp:?}: {i} of {calls}");
                }
                let beyond = calls as usize * m.stride;
                assert!(m.dst.iter().skip(beyond).all(|&b| b == 0), "{imp:?}");
            }
        }
    }

    #[test]
    fn right_tags_are_opened_and_wrong_ones_counted() {
        for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
            if imp.kind() != Kind::Aead {
                continue;
            }
            let ctx = context(imp);
            let mut m = Memory::new(imp, 33);
            assert_eq!(m.run(imp, &ctx, Op::Encrypt, false, COUNT as u64), 0);
            let plain = m.src.clone();
            for i in 0..COUNT {
                let at = i * m.stride + m.prefix;
                let sealed = m.dst[at..at + 33 + m.tag].to_vec();
                m.src[at..at + sealed.len()].copy_from_slice(&sealed);
            }
            assert_eq!(m.run(imp, &ctx, Op::Decrypt, false, 2 * COUNT as u64), 0);
            for i in 0..COUNT {
                let at = i * m.stride + m.prefix;
                assert_eq!(m.dst[at..at + 33], plain[at..at + 33], "{imp:?}");
            }
            m.src[2 * m.stride + m.prefix + 33 + m.tag - 1] ^= 0x80;
            assert_eq!(m.run(imp, &ctx, Op::Decrypt, false, 2 * COUNT as u64), 2);
        }
    }

    #[test]
    fn chained_calls_take_the_last_result_as_iv() {
        for imp in Impl::all().into_iter().filter(|i| i.tier().usable()) {
            if imp.kind() != Kind::Skcipher || imp.iv_size() == 0 {
                continue;
            }
            let ctx = context(imp);
            let mut m = Memory::new(imp, 32);
            m.run(imp, &ctx, Op::Encrypt, true, COUNT as u64);
            let mut iv = m.ivs[..imp.iv_size()].to_vec();
            for i in 0..COUNT {
                let want = alone(imp, &ctx, Op::Encrypt, &m, i, &iv);
                assert_eq!(m.dst[i * m.stride..][..32], want, "{imp:?}: {i}");
                iv = want[..imp.iv_size()].to_vec();
            }
        }
    }

    /// A message in pieces that begin from what first() makes is the message.
    #[test]
    fn pieces_of_xts_are_the_whole() {
        for imp in Impl::find_all("xts(aes)")
            .into_iter()
            .filter(|i| i.tier().usable())
        {
            let ctx = context(imp);
            let m = Memory::new(imp, 83);
            let iv = &m.ivs[..16];
            let want = alone(imp, &ctx, Op::Encrypt, &m, 0, iv);
            let mut dst = vec![0; 83];
            imp.pieces(
                &ctx,
                &mut Pieces {
                    op: Op::Encrypt,
                    other: None,
                    src: &m.src[..83],
                    dst: &mut dst,
                    iv,
                    aad: &[],
                    tag_size: 0,
                    aad_pieces: &[],
                    pieces: &[16, 48, 19],
                },
            );
            assert_eq!(dst, want, "{imp:?}");
        }
    }
}
