//! Calls an implementation's functions directly, in a loop over many messages. The loop is in
//! `kernel/bench/calls.c`.

use crate::cipher::{Context, Impl, Kind, Op, Sections};
use crate::cpu;
use crate::evict::Evictor;
use crate::messages::{fits, holds, Messages, Needs, Unfit};
use crate::sys;

/// Messages, and options for the calls that process them.
#[derive(Default)]
pub struct Calls<'a> {
    /// The messages. The associated data precedes the text unless `aad` is given; the tag follows
    /// the text unless `tags` is given.
    pub messages: Messages<'a>,
    /// Associated data for all messages, concatenated.
    pub aad: Option<&'a [u8]>,
    /// Length in bytes of one message's associated data.
    pub aad_len: usize,
    /// Tags of all messages, concatenated.
    pub tags: Option<&'a mut [u8]>,
    /// Whether to use the first bytes of each result as the next IV. Requires an skcipher and
    /// [`Sections::One`].
    pub chained: bool,
    /// Whether to pass many messages per call to `encrypt_many`, `finish_many`, `seal_many` or
    /// `open_many`. Skciphers support this only for encryption. Requires [`Sections::One`].
    pub many: bool,
    /// How FPU sections are placed around the calls.
    pub sections: Sections,
}

impl<'a> Calls<'a> {
    /// Describes calls that share one section. Each message's prefix is used as associated data.
    pub fn new(messages: Messages<'a>) -> Calls<'a> {
        Calls {
            aad_len: messages.prefix,
            messages,
            ..Calls::default()
        }
    }

    /// Checks that the implementation accepts these messages.
    fn check(&self, imp: Impl) -> Result<(), Unfit> {
        let m = &self.messages;
        let (aead, skcipher) = (imp.kind() == Kind::Aead, imp.kind() == Kind::Skcipher);
        match self.aad {
            _ if !aead => {}
            None => fits(self.aad_len <= m.prefix, "associated data")?,
            Some(aad) => fits(
                holds(aad.len(), m.count, self.aad_len, self.aad_len),
                "associated data",
            )?,
        }
        if let Some(tags) = &self.tags {
            fits(holds(tags.len(), m.count, m.tag_size, m.tag_size), "tags")?;
        }
        fits(m.len >= imp.shortest(), "shorter than the algorithm allows")?;
        let whole = !skcipher || m.len % imp.block_size() == 0;
        fits(whole, "not a multiple of the block size")?;
        let tag_size = match aead {
            true => imp.tag_sizes().contains(&m.tag_size),
            false => m.tag_size == 0,
        };
        fits(tag_size, "a tag size that the algorithm does not support")?;
        let chains = skcipher && m.len >= imp.iv_size();
        fits(!self.chained || chains, "no space for an IV in the results")?;
        let both_ways = aead || m.op == Op::Encrypt;
        let many = imp.lanes().is_some() && both_ways && !self.chained;
        fits(
            !self.many || many,
            "no function for several messages at once",
        )?;
        let plain = !self.chained && !self.many;
        fits(plain || self.sections == Sections::One, "sections")
    }

    /// Makes `calls` calls. Returns how many messages were rejected because of a wrong tag, or
    /// `calls` if the text is longer than [`Impl::longest`].
    ///
    /// # Errors
    /// Fails if the messages exceed their buffers, if the implementation does not accept them, if
    /// its tier is not usable here, or if the key belongs to another algorithm.
    pub fn run(&mut self, imp: Impl, ctx: &Context, calls: u64) -> Result<u64, Unfit> {
        // SAFETY: `with_raw` ensures that all messages are within their buffers.
        let run = |raw: &mut sys::Calls| unsafe {
            cpu::gate(sys::kiln_calls_run, (&raw mut *raw).cast())
        };
        self.with_raw(imp, ctx, calls, run)
    }

    /// Evicts the first two levels of cache and then makes one call, for the first message. Returns
    /// the duration of the call in TSC ticks, or `None` if the message was rejected because of a
    /// wrong tag or because of its length.
    ///
    /// # Errors
    /// Fails in the same cases as [`Calls::run`], and also if `chained` or `many` is set.
    ///
    /// # Panics
    /// Panics if the C code did not read every line of `evictor`.
    pub fn run_cold(
        &mut self,
        imp: Impl,
        ctx: &Context,
        evictor: &Evictor,
    ) -> Result<Option<u64>, Unfit> {
        fits(!self.chained && !self.many, "a single call")?;
        let run = |raw: &mut sys::Calls| {
            let mut cold = sys::Cold {
                calls: raw,
                memory: evictor.words().as_ptr(),
                lines: evictor.lines() as u64,
                ..Default::default()
            };
            // SAFETY: `with_raw` ensures that all messages are within their buffers. The evictor
            // has as many lines as the structure specifies.
            let refused = unsafe { cpu::gate(sys::kiln_cold_run, (&raw mut cold).cast()) };
            assert!(evictor.was_read(cold.read), "lines were left out");
            (refused == 0).then_some(cold.ticks)
        };
        self.with_raw(imp, ctx, 1, run)
    }

    /// Checks the tier, the key and the messages, then calls `run` with the C structure that
    /// describes `calls` calls.
    fn with_raw<T>(
        &mut self,
        imp: Impl,
        ctx: &Context,
        calls: u64,
        run: impl FnOnce(&mut sys::Calls) -> T,
    ) -> Result<T, Unfit> {
        fits(imp.tier().usable(), "the tier is not usable on this CPU")?;
        fits(
            ctx.alg() == imp.alg(),
            "the key belongs to another algorithm",
        )?;
        self.check(imp)?;
        let needs = Needs {
            kind: imp.kind(),
            iv: imp.iv_size(),
            digest: imp.digest_size(),
            tags_apart: self.tags.is_some(),
            copies_ivs: imp.kind() == Kind::Skcipher,
        };
        let mut single = Default::default();
        let m = self.messages.raw(&needs, &mut single, calls)?;
        let text = (m.prefix + m.len) as usize;
        let (aad, aad_stride) = match self.aad {
            Some(aad) => (aad.as_ptr(), self.aad_len as u64),
            None => (m.src, m.src_stride),
        };
        let (tag, tag_stride) = match (&mut self.tags, m.decrypt) {
            (Some(tags), _) => (tags.as_mut_ptr(), m.tag),
            (None, true) => (m.src.wrapping_add(text).cast_mut(), m.src_stride),
            (None, false) => (m.dst.wrapping_add(text), m.dst_stride),
        };
        let mut raw = sys::Calls {
            impl_: imp.0,
            ctx: ctx.as_ptr(),
            m,
            aad,
            tag,
            aadlen: self.aad_len,
            aad_stride: aad_stride as usize,
            tag_stride: tag_stride as usize,
            chained: self.chained,
            many: self.many,
            sections: self.sections as u32,
        };
        // For decryption, `tag` may point into the source, because the tags are then only read.
        Ok(run(&mut raw))
    }
}

impl Impl {
    /// Encrypts or decrypts one message of an skcipher in its own section.
    ///
    /// # Panics
    /// If the implementation does not accept the message or cannot be used here.
    pub fn crypt(self, op: Op, ctx: &Context, iv: &[u8], src: &[u8], dst: &mut [u8]) {
        assert_eq!(self.kind(), Kind::Skcipher);
        assert_eq!(src.len(), dst.len());
        let mut calls = Calls {
            sections: Sections::Each,
            ..Calls::new(Messages::single(op, src, dst, iv))
        };
        calls.run(self, ctx, 1).unwrap_or_else(|e| panic!("{e}"));
    }

    /// Processes one message in its own section. For encryption and hashing, writes the tag or
    /// digest to `tag`; for decryption, compares the tag with `tag`.
    ///
    /// Returns the resulting text, which is empty for a hash, or `None` if the tag is wrong.
    ///
    /// # Errors
    /// Fails if the implementation does not accept the message or cannot be used here.
    pub fn once(
        self,
        op: Op,
        ctx: &Context,
        iv: &[u8],
        aad: &[u8],
        text: &[u8],
        tag: &mut [u8],
    ) -> Result<Option<Vec<u8>>, Unfit> {
        let mut result = Vec::new();
        let hash = self.kind() == Kind::Hash;
        if !hash {
            result.resize(text.len(), 0);
        }
        let (tag_size, dst, tags) = match self.kind() {
            Kind::Skcipher => (0, &mut result[..], None),
            Kind::Aead => (tag.len(), &mut result[..], Some(tag)),
            Kind::Hash => (0, tag, None),
        };
        let mut calls = Calls {
            messages: Messages {
                tag_size,
                ..Messages::single(op, text, dst, iv)
            },
            aad: Some(aad),
            aad_len: aad.len(),
            tags,
            sections: Sections::Each,
            ..Calls::default()
        };
        let refused = calls.run(self, ctx, 1)?;
        Ok((refused == 0).then_some(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::BLOCK;
    use crate::cpu::{Config, Cpu};
    use crate::pieces::Pieces;

    const COUNT: usize = 5;

    /// Returns `n` pseudo-random bytes.
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
            let digest = imp.digest_size();
            let (prefix, tag) = if aead { (16, digest) } else { (0, 0) };
            let stride = prefix + len + digest + 13;
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
            all.run(imp, ctx, calls).unwrap()
        }

        fn calls(&mut self, op: Op) -> Calls<'_> {
            Calls::new(Messages {
                op,
                src: &self.src,
                dst: &mut self.dst,
                ivs: &self.ivs,
                iv_room: &mut self.work,
                src_stride: self.stride,
                dst_stride: self.stride,
                iv_stride: self.iv_stride,
                len: self.len,
                prefix: self.prefix,
                tag_size: self.tag,
                count: COUNT,
            })
        }
    }

    /// Makes cold calls to every implementation, one message at a time, and compares the results
    /// with those of ordinary calls.
    #[test]
    fn cold_calls_have_the_results_of_others() {
        let evictor = Evictor::new();
        for imp in usable() {
            let ctx = context(imp);
            let (mut warm, mut cold) = (Memory::new(imp, 48), Memory::new(imp, 48));
            assert_eq!(warm.run(imp, &ctx, Op::Encrypt, false, COUNT as u64), 0);
            for i in 0..COUNT {
                let mut calls = cold.calls(Op::Encrypt);
                calls.messages = std::mem::take(&mut calls.messages).skip(i);
                let ticks = calls.run_cold(imp, &ctx, &evictor).unwrap();
                assert!(ticks.is_some(), "{imp:?}");
            }
            assert_eq!(cold.dst, warm.dst, "{imp:?}");
        }
        // A wrong tag is rejected, and so is an option that cold calls do not support.
        let imp = Impl::best("gcm(aes)").unwrap();
        let (ctx, mut m) = (context(imp), Memory::new(imp, 48));
        let mut calls = m.calls(Op::Decrypt);
        assert_eq!(calls.run_cold(imp, &ctx, &evictor), Ok(None));
        calls.many = true;
        let refused = calls.run_cold(imp, &ctx, &evictor);
        assert_eq!(refused, Err(Unfit("a single call")));
    }

    fn usable() -> impl Iterator<Item = Impl> {
        Impl::all().into_iter().filter(|i| i.tier().usable())
    }

    fn context(imp: Impl) -> Context {
        let sizes = imp.key_sizes();
        let size = sizes.iter().rev().find(|&&n| n <= 64).or(sizes.first());
        Context::new(imp, &bytes(size.copied().unwrap_or(0))).unwrap()
    }

    #[test]
    fn calls_have_a_section_each_where_they_are_to() {
        let mut cpu = Cpu::boot(&Config::default()).unwrap();
        for imp in usable() {
            let ctx = context(imp);
            let simd = u64::from(imp.tier() != crate::Tier::Generic);
            let mut results = Vec::new();
            for (sections, counted) in [
                (Sections::One, 1),
                (Sections::Each, COUNT as u64),
                // The section timer counts the sections, so the count is 0 without the timer.
                (Sections::EachUntimed, 0),
            ] {
                let mut m = Memory::new(imp, 64);
                cpu.reset_stats();
                let mut calls = Calls {
                    sections,
                    ..m.calls(Op::Encrypt)
                };
                calls.run(imp, &ctx, COUNT as u64).unwrap();
                let opened = cpu.stats().sections;
                assert_eq!(opened, simd * counted, "{imp:?}, {sections:?}");
                results.push(m.dst);
            }
            assert!(results.iter().all(|r| *r == results[0]), "{imp:?}");
        }
    }

    /// Processes one message with its tag in a separate buffer. Returns the text or digest,
    /// followed by the tag.
    fn alone(imp: Impl, ctx: &Context, op: Op, m: &Memory, i: usize, iv: &[u8]) -> Vec<u8> {
        let from = &m.src[i * m.stride..];
        let text = &from[m.prefix..m.prefix + m.len];
        let mut tag = vec![0; m.tag.max(imp.digest_size())];
        if op == Op::Decrypt {
            tag[..m.tag].copy_from_slice(&from[m.prefix + m.len..][..m.tag]);
        }
        let text = imp.once(op, ctx, iv, &from[..m.prefix], text, &mut tag);
        let text = text.unwrap().expect("the right tag");
        match op {
            Op::Encrypt => [text, tag].concat(),
            Op::Decrypt => text,
        }
    }

    #[test]
    fn messages_that_do_not_fit_are_errors() {
        type Spoil = fn(&mut Calls<'_>);
        let of_gcm: [(&str, Spoil); 12] = [
            ("there are no messages", |c| c.messages.count = 0),
            ("sources", |c| c.messages.src = &[]),
            ("sources", |c| c.messages.src_stride = usize::MAX),
            ("longer than memory", |c| c.messages.len = usize::MAX),
            ("results", |c| c.messages.dst = &mut []),
            ("results overlap", |c| c.messages.dst_stride = 1),
            ("IVs", |c| c.messages.ivs = &[]),
            ("associated data", |c| c.aad_len += 1),
            ("associated data", |c| c.aad = Some(&[1])),
            ("tags", |c| c.tags = Some(&mut [])),
            ("a tag size that the algorithm does not support", |c| {
                c.messages.tag_size = 3;
            }),
            ("no function for several messages at once", |c| {
                c.many = true
            }),
        ];
        let of_cbc: [(&str, Spoil); 3] = [
            ("not a multiple of the block size", |c| c.messages.len = 47),
            ("no space for copies of the IVs", |c| {
                c.messages.iv_room = &mut []
            }),
            ("sections", |c| {
                c.chained = true;
                c.sections = Sections::Each;
            }),
        ];
        for (alg, faults) in [("gcm(aes)", &of_gcm[..]), ("cbc(aes)", &of_cbc)] {
            let imp = Impl::find_all(alg)[0];
            let ctx = context(imp);
            for &(fault, spoil) in faults {
                let mut m = Memory::new(imp, 48);
                let mut calls = m.calls(Op::Encrypt);
                spoil(&mut calls);
                assert_eq!(calls.run(imp, &ctx, 1), Err(Unfit(fault)));
            }
        }
    }

    /// Makes fewer calls than the number of messages, and then so many calls that each message is
    /// processed at least twice. The result for each message must equal that of a single call with
    /// the same IV.
    #[test]
    fn results_are_those_of_single_calls() {
        for imp in usable() {
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
        for imp in usable().filter(|i| i.kind() == Kind::Aead) {
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

    /// Encrypts several messages per call, and compares the results with those of single calls.
    /// Then decrypts the messages, and checks that wrong tags are counted.
    #[test]
    fn several_sealed_messages_are_those_of_single_calls() {
        let several = |i: &Impl| i.kind() == Kind::Aead && i.lanes().is_some();
        for imp in usable().filter(several) {
            for len in [0, 1, 16, 33, 160] {
                let ctx = context(imp);
                let (mut m, mut one) = (Memory::new(imp, len), Memory::new(imp, len));
                let run = |m: &mut Memory, op, calls| {
                    let mut all = Calls {
                        many: true,
                        ..m.calls(op)
                    };
                    all.run(imp, &ctx, calls).unwrap()
                };
                one.run(imp, &ctx, Op::Encrypt, false, COUNT as u64);
                // Process more messages than the queue in bench/calls.c holds, so that it is filled
                // twice, the second time only partly.
                assert_eq!(run(&mut m, Op::Encrypt, 70), 0);
                assert_eq!(m.dst, one.dst, "{imp:?}: {len}");
                let plain = std::mem::replace(&mut m.src, m.dst.clone());
                for i in 0..COUNT {
                    // The calls do not copy the associated data to the destination, so restore it
                    // here.
                    let prefix = i * m.stride..i * m.stride + m.prefix;
                    m.src[prefix.clone()].copy_from_slice(&plain[prefix]);
                }
                assert_eq!(run(&mut m, Op::Decrypt, 70), 0, "{imp:?}: {len}");
                for i in 0..COUNT {
                    let at = i * m.stride + m.prefix;
                    assert_eq!(m.dst[at..at + len], plain[at..at + len], "{imp:?}");
                }
                m.src[2 * m.stride + m.prefix + len + m.tag - 1] ^= 0x80;
                assert_eq!(run(&mut m, Op::Decrypt, 2 * COUNT as u64), 2, "{imp:?}");
            }
        }
    }

    #[test]
    fn chained_calls_take_the_last_result_as_iv() {
        for imp in usable().filter(|i| i.kind() == Kind::Skcipher && i.iv_size() > 0) {
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

    /// Encrypts a message in pieces, starting with the IV that `first()` computes, and compares
    /// the result with the ciphertext of the whole message.
    #[test]
    fn pieces_of_xts_are_the_whole() {
        for imp in usable().filter(|i| i.alg() == "xts(aes)") {
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

    /// Checks test vector 2 of IEEE 1619-2018, annex B.
    #[test]
    fn vector_2_of_ieee_1619() {
        let mut key = [0x11; 32];
        key[16..].fill(0x22);
        let mut iv = [0; BLOCK];
        iv[..5].fill(0x33);
        let plain = [0x44; 32];
        let want = [
            0xc4, 0x54, 0x18, 0x5e, 0x6a, 0x16, 0x93, 0x6e, 0x39, 0x33, 0x40, 0x38, 0xac, 0xef,
            0x83, 0x8b, 0xfb, 0x18, 0x6f, 0xff, 0x74, 0x80, 0xad, 0xc4, 0x28, 0x93, 0x82, 0xec,
            0xd6, 0xd3, 0x94, 0xf0,
        ];
        let all = Impl::find_all("xts(aes)");
        assert!(!all.is_empty());
        for imp in all.into_iter().filter(|i| i.tier().usable()) {
            let ctx = Context::new(imp, &key).unwrap();
            let (mut sealed, mut opened) = ([0; 32], [0; 32]);
            imp.crypt(Op::Encrypt, &ctx, &iv, &plain, &mut sealed);
            assert_eq!(sealed, want, "{imp:?}");
            imp.crypt(Op::Decrypt, &ctx, &iv, &sealed, &mut opened);
            assert_eq!(opened, plain, "{imp:?}");
        }
    }

    #[test]
    #[should_panic(expected = "shorter than the algorithm allows")]
    fn a_message_that_is_too_short_is_refused() {
        let imp = Impl::best("xts(aes)").unwrap();
        let ctx = Context::new(imp, &[1; 64]).unwrap();
        imp.crypt(Op::Encrypt, &ctx, &[0; BLOCK], &[0; 15], &mut [0; 15]);
    }
}
