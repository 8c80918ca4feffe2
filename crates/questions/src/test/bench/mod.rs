//! Calls implementations with messages in the memory of one thread, and runs all checks after each
//! call.

mod keys;
mod pieces;

use std::io;

use kiln_kernel::call::{AeadMessage, Call, Entry, Function};
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::crypto::Api;
use kiln_kernel::fpu::Context;

use super::arena::{Arena, Role};
use super::fault::Watch;
use super::guard::Place;
use super::judge::{same, Judged};
use super::many::Many;
use super::message::{Answer, Layout, Message};
use super::registers::Registers;
use super::request::{Desk, Request};
use super::scatter::Piece;

/// The error number that Linux returns for a message that fails authentication.
const EBADMSG: i32 = -74;

/// Has the layout of `struct kiln_message` in C.
#[repr(C)]
struct RawMessage {
    dst: *mut u8,
    src: *const u8,
    len: usize,
    iv: *mut u8,
}

/// The command that repeats a case, and the case's number.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a>(pub &'a str, pub u64);

/// Everything that one thread needs to call tested code: guarded memory, the register check and the
/// crash handler.
pub struct Bench {
    arena: Arena,
    desk: Desk,
    registers: Box<Registers>,
    watch: Watch,
    /// The fallback for the contexts in `refused_in`, where no section may be opened.
    scalar: Option<Impl>,
    refused_in: Vec<Context>,
    /// Whether interrupts occur during the calls. The interrupt handlers use the FPU.
    interrupted: bool,
    step: bool,
}

/// The result of opening a sealed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The tag was accepted. The decrypted text was not checked.
    Accepted,
    /// The tag was rejected and the destination was wiped.
    Refused,
}

/// Checks what `open_many` returned: the number of wrong tags, and the verdicts. `verdicts` ends
/// with an extra element that `open_many` must not have written.
fn compare_verdicts(forged: &[bool], verdicts: &[i32], wrong: u64) -> Result<(), String> {
    for (i, (forged, verdict)) in forged.iter().zip(verdicts).enumerate() {
        match (forged, *verdict) {
            (false, 0) | (true, EBADMSG) => {}
            (true, 0) => return Err(format!("message {i}: accepted a wrong tag")),
            (true, code) => return Err(format!("message {i}: {code} for a wrong tag")),
            (false, code) => return Err(format!("message {i}: {code} for the right tag")),
        }
    }
    let wanted = forged.iter().filter(|f| **f).count() as u64;
    match (wrong == wanted, verdicts[forged.len()]) {
        (true, i32::MIN) => Ok(()),
        (true, _) => Err("wrote a verdict too many".into()),
        (false, _) => Err(format!("counted {wrong} wrong tags and not {wanted}")),
    }
}

impl Bench {
    /// Creates a bench for the calling thread.
    pub fn new() -> io::Result<Bench> {
        let arena = Arena::new()?;
        let desk = Desk::new()?;
        let mut buffers = arena.named();
        buffers.extend(desk.buffers());
        let watch = Watch::new(&buffers)?;
        Ok(Bench {
            arena,
            desk,
            registers: Registers::new(),
            watch,
            scalar: None,
            refused_in: Vec::new(),
            interrupted: false,
            step: false,
        })
    }

    /// Prepares for interrupts, which may occur from now on. In the contexts in
    /// `refused_in`, no section may be opened, so calls must fall back to `scalar`. In all other
    /// contexts, calls must not fall back.
    pub fn interrupted(&mut self, scalar: Impl, refused_in: Vec<Context>) {
        (self.scalar, self.refused_in) = (Some(scalar), refused_in);
        self.interrupted = true;
    }

    /// Sets whether every section is single-stepped from now on.
    pub(crate) fn set_step(&mut self, step: bool) {
        self.step = step;
    }

    /// Calls `imp` with `message` and compares the result with `judged`. Returns the first error
    /// found.
    pub fn check(
        &mut self,
        imp: Impl,
        op: Op,
        message: &Message,
        judged: &Judged,
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let result = self.message(imp, op, message, judged, layout, replay);
        self.clear(result.is_err());
        result
    }

    /// Sends a request to the driver of `imp` in a crypto API. Returns the first error found.
    pub fn request(
        &mut self,
        api: &'static Api,
        imp: Impl,
        request: &Request,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let _armed = self.watch.arm(replay.0, Some(replay.1));
        self.desk.check(api, imp, request)
    }

    /// Calls `imp` to process several messages in parallel. Returns the first error found.
    pub fn many(&mut self, imp: Impl, many: &Many, replay: Replay<'_>) -> Result<(), String> {
        let result = self.side_by_side(imp, many, replay);
        self.desk.clear();
        self.clear(result.is_err());
        result
    }

    fn side_by_side(&mut self, imp: Impl, many: &Many, replay: Replay<'_>) -> Result<(), String> {
        let layout = Layout {
            context: many.context,
            ..Layout::at(Place::End, many.in_place)
        };
        self.set_key(imp, &many.messages[0].key, &layout, replay)?;
        let ivs: Vec<u8> = many.messages.iter().flat_map(|m| m.iv.clone()).collect();
        self.arena.put(Role::Iv, &ivs, Place::End);
        let (src, dst) = self.desk.side_by_side(many);
        if imp.kind() == Kind::Aead {
            self.sealed_side_by_side(imp, many, &src, &dst, &layout, replay)?;
            return self.compare_many(many, &ivs);
        }
        let first = self.arena.ptr(Role::Iv);
        let all: Vec<RawMessage> = (0..src.len())
            .map(|i| RawMessage {
                dst: dst[i].0,
                src: src[i].0,
                len: src[i].1,
                iv: (first as usize + i * imp.iv_size()) as *mut u8,
            })
            .collect();
        let ctx = self.arena.ptr(Role::Context);
        let (list, count) = (all.as_ptr() as u64, all.len() as u64);
        if imp.kind() == Kind::Hash {
            let state = self.absorb(imp, &many.shared, &layout, replay)?;
            let before = self.arena.bytes(Role::State).to_vec();
            let args = [ctx, state, list, count];
            self.call_of(imp, Entry::FinishMany, &args, layout.context, replay)?;
            same("state", self.arena.bytes(Role::State), &before)
                .map_err(|e| format!("changed the {e}"))?;
        } else {
            let args = [ctx, list, count];
            self.call_of(imp, Entry::EncryptMany, &args, layout.context, replay)?;
        }
        let left = many.judged.iter().flat_map(|j| j.answer.iv.clone());
        self.compare_many(many, &left.collect::<Vec<u8>>())
    }

    /// Calls the AEAD `imp` to encrypt or decrypt several messages in parallel. Compares the tags
    /// after encryption, and the verdicts after decryption.
    fn sealed_side_by_side(
        &mut self,
        imp: Impl,
        many: &Many,
        src: &[Piece],
        dst: &[Piece],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let (tag_size, tags) = (many.messages[0].tag_size, many.tags());
        let aads = many.messages.iter().flat_map(|m| m.aad.clone());
        let aads: Vec<u8> = aads.collect();
        self.arena.put(Role::Aad, &aads, Place::End);
        match many.op {
            Op::Decrypt => self.arena.put(Role::Tag, &tags, Place::End),
            Op::Encrypt => {
                self.arena.room(Role::Tag, tags.len(), Place::End);
            }
        }
        let ptr = |role| self.arena.ptr(role) as usize;
        let mut aad = ptr(Role::Aad);
        let mut all = Vec::new();
        for (i, message) in many.messages.iter().enumerate() {
            all.push(AeadMessage {
                dst: dst[i].0,
                src: src[i].0,
                len: src[i].1,
                aad: aad as *const u8,
                aadlen: message.aad.len(),
                iv: (ptr(Role::Iv) + i * imp.iv_size()) as *const u8,
                tag: (ptr(Role::Tag) + i * tag_size) as *mut u8,
            });
            aad += message.aad.len();
        }
        let (list, count) = (all.as_ptr() as u64, all.len() as u64);
        let ctx = self.arena.ptr(Role::Context);
        if many.op == Op::Encrypt {
            let args = [ctx, list, count, tag_size as u64];
            self.call_of(imp, Entry::SealMany, &args, layout.context, replay)?;
            same("tags", self.arena.bytes(Role::Tag), &tags)?;
        } else {
            // Add an extra element, which `open_many` must not overwrite.
            let mut verdicts = vec![i32::MIN; all.len() + 1];
            let verdict = verdicts.as_mut_ptr() as u64;
            let args = [ctx, list, count, tag_size as u64, verdict];
            let wrong = self.call_of(imp, Entry::OpenMany, &args, layout.context, replay)?;
            compare_verdicts(&many.forged, &verdicts, wrong)?;
            same("tags", self.arena.bytes(Role::Tag), &tags)
                .map_err(|e| format!("changed the {e}"))?;
        }
        same("associated data", self.arena.bytes(Role::Aad), &aads)
            .map_err(|e| format!("changed the {e}"))
    }

    /// Compares the texts or digests, and checks that nothing else has changed. `ivs` are the
    /// expected IVs after the call.
    fn compare_many(&self, many: &Many, ivs: &[u8]) -> Result<(), String> {
        self.desk.compare(many)?;
        same("IVs afterwards", self.arena.bytes(Role::Iv), ivs)?;
        same(
            "context",
            self.arena.bytes(Role::Context),
            &many.judged[0].context,
        )
        .map_err(|e| format!("changed the {e}"))
    }

    /// Starts a hash and processes `text`. Returns the address of the state.
    fn absorb(
        &mut self,
        imp: Impl,
        text: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<u64, String> {
        self.arena.aligned(Role::State, imp.state_size());
        self.arena.put(Role::Source, text, layout.src);
        let ptr = |role| self.arena.ptr(role);
        let (ctx, state) = (ptr(Role::Context), ptr(Role::State));
        let args = [ctx, state, ptr(Role::Source), text.len() as u64];
        self.call_of(imp, Entry::Init, &args[..2], layout.context, replay)?;
        self.call_of(imp, Entry::Update, &args, layout.context, replay)?;
        Ok(state)
    }

    fn clear(&mut self, all: bool) {
        match all {
            true => self.arena.reset(),
            false => self.arena.clear(),
        }
    }

    fn message(
        &mut self,
        imp: Impl,
        op: Op,
        message: &Message,
        judged: &Judged,
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        self.set_key(imp, &message.key, layout, replay)?;
        same("context", self.arena.bytes(Role::Context), &judged.context)?;
        let want = &judged.answer;
        self.lay_out(imp, op, message, &want.tag, layout);
        match &layout.cut {
            None => self.whole(imp, op, message, layout, replay)?,
            Some(_) => self.pieces(imp, op, message, layout, replay)?,
        }
        self.compare(imp, op, message, want, layout)?;
        same("context", self.arena.bytes(Role::Context), &judged.context)
            .map_err(|e| format!("changed the {e}"))
    }

    /// Decrypts a message that may not be authentic, using the key in `message`.
    pub fn open(
        &mut self,
        imp: Impl,
        message: &Message,
        tag: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<Verdict, String> {
        let result = self.judge_tag(imp, message, tag, layout, replay);
        self.clear(result.is_err());
        result
    }

    fn judge_tag(
        &mut self,
        imp: Impl,
        message: &Message,
        tag: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<Verdict, String> {
        self.set_key(imp, &message.key, layout, replay)?;
        self.lay_out(imp, Op::Decrypt, message, tag, layout);
        let returned = self.call_entry(imp, Entry::Open, message, layout, replay)? as i32;
        self.unchanged(message, layout)?;
        same("tag", self.arena.bytes(Role::Tag), tag).map_err(|e| format!("changed the {e}"))?;
        match returned {
            0 => Ok(Verdict::Accepted),
            EBADMSG => match self.arena.bytes(Role::Destination).iter().all(|b| *b == 0) {
                true => Ok(Verdict::Refused),
                false => Err("refused the tag, but did not wipe the destination".into()),
            },
            other => Err(format!(
                "open returned {other}, neither 0 nor {EBADMSG} (EBADMSG)"
            )),
        }
    }

    fn lay_out(&mut self, imp: Impl, op: Op, message: &Message, tag: &[u8], layout: &Layout) {
        let arena = &mut self.arena;
        arena.put(Role::Iv, &message.iv, layout.iv);
        arena.put(Role::Aad, &message.aad, layout.aad);
        match (imp.kind(), layout.in_place) {
            (Kind::Hash, _) => arena.put(Role::Source, &message.text, layout.src),
            (_, true) => arena.put(Role::Destination, &message.text, layout.dst),
            (_, false) => {
                arena.put(Role::Source, &message.text, layout.src);
                arena.room(Role::Destination, message.text.len(), layout.dst);
            }
        }
        let opens = imp.kind() == Kind::Aead && op == Op::Decrypt && layout.cut.is_none();
        match (imp.kind(), opens) {
            (_, true) => arena.put(Role::Tag, tag, layout.tag),
            (Kind::Aead, false) => {
                arena.room(Role::Tag, message.tag_size, layout.tag);
            }
            (Kind::Hash, _) => {
                arena.room(Role::Tag, imp.digest_size(), layout.tag);
            }
            (Kind::Skcipher, _) => {}
        }
    }

    fn whole(
        &mut self,
        imp: Impl,
        op: Op,
        message: &Message,
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let entry = match (imp.kind(), op) {
            (Kind::Skcipher, Op::Encrypt) => Entry::Encrypt,
            (Kind::Skcipher, Op::Decrypt) => Entry::Decrypt,
            (Kind::Aead, Op::Encrypt) => Entry::Seal,
            (Kind::Aead, Op::Decrypt) => Entry::Open,
            (Kind::Hash, _) => Entry::Digest,
        };
        let returned = self.call_entry(imp, entry, message, layout, replay)?;
        match (entry, returned as i32) {
            (Entry::Open, 0)
            | (Entry::Encrypt | Entry::Decrypt | Entry::Seal | Entry::Digest, _) => Ok(()),
            (_, code) => Err(format!("open returned {code} for the right tag")),
        }
    }

    /// Calls `imp` to process a whole message in a single call.
    fn call_entry(
        &mut self,
        imp: Impl,
        entry: Entry,
        message: &Message,
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<u64, String> {
        let ptr = |role| self.arena.ptr(role);
        let dst = ptr(Role::Destination);
        let src = match layout.in_place && imp.kind() != Kind::Hash {
            true => dst,
            false => ptr(Role::Source),
        };
        let (ctx, len) = (ptr(Role::Context), message.text.len() as u64);
        let args = match imp.kind() {
            Kind::Skcipher => vec![ctx, dst, src, len, ptr(Role::Iv)],
            Kind::Aead => vec![
                ctx,
                dst,
                src,
                len,
                ptr(Role::Aad),
                message.aad.len() as u64,
                ptr(Role::Iv),
                ptr(Role::Tag),
                message.tag_size as u64,
            ],
            Kind::Hash => vec![ctx, src, len, ptr(Role::Tag)],
        };
        self.call_of(imp, entry, &args, layout.context, replay)
    }

    fn call_of(
        &mut self,
        imp: Impl,
        entry: Entry,
        args: &[u64],
        context: Context,
        replay: Replay<'_>,
    ) -> Result<u64, String> {
        let function = imp
            .function(entry)
            .ok_or_else(|| format!("{} has no {entry:?}", imp.driver()))?;
        let scalar = self.scalar.and_then(|s| s.function(entry));
        self.call(function, scalar, args, context, replay)
    }

    /// Calls tested code, and runs the checks that apply to every call.
    fn call(
        &mut self,
        function: Function,
        scalar: Option<Function>,
        args: &[u64],
        context: Context,
        replay: Replay<'_>,
    ) -> Result<u64, String> {
        let mut all = [0; 9];
        all[..args.len()].copy_from_slice(args);
        let falls_back = function.needs_section() && self.refused_in.contains(&context);
        let in_section = function.needs_section() && !falls_back;
        let call = Call {
            function,
            scalar,
            args: all,
            context,
            through: Some(
                self.registers
                    .through(function.needs_section() && !falls_back),
            ),
            step: self.step,
        };
        let armed = self.watch.arm(replay.0, Some(replay.1));
        // SAFETY: the pointers refer to buffers with the passed lengths. Guard pages surround the
        // buffers, so an access outside them causes a fault, which becomes a failed case.
        let returned = unsafe { call.make() };
        drop(armed);
        self.registers.verdict(in_section || !self.interrupted)?;
        self.arena.check()?;
        match returned {
            None => Err(format!("could not be called from {context:?}")),
            Some(r) if r.fell_back && !falls_back => {
                Err(format!("{context:?}: scalar code ran in its place"))
            }
            Some(r) if !r.fell_back && falls_back => {
                Err(format!("{context:?}: ran where no section may be opened"))
            }
            Some(r) => Ok(r.result),
        }
    }

    /// Checks that a call did not modify its read-only inputs.
    fn unchanged(&self, message: &Message, layout: &Layout) -> Result<(), String> {
        let changed = |e| format!("changed the {e}");
        same("associated data", self.arena.bytes(Role::Aad), &message.aad).map_err(changed)?;
        same("IV", self.arena.bytes(Role::Iv), &message.iv).map_err(changed)?;
        match layout.in_place {
            true => Ok(()),
            false => same("source", self.arena.bytes(Role::Source), &message.text).map_err(changed),
        }
    }

    fn compare(
        &self,
        imp: Impl,
        op: Op,
        message: &Message,
        want: &Answer,
        layout: &Layout,
    ) -> Result<(), String> {
        if imp.kind() != Kind::Hash {
            same("output", self.arena.bytes(Role::Destination), &want.text)?;
        }
        if imp.kind() != Kind::Skcipher {
            let what = match (imp.kind(), op, &layout.cut) {
                (Kind::Hash, _, _) => "digest",
                (_, Op::Decrypt, None) => "tag that was given",
                _ => "tag",
            };
            same(what, self.arena.bytes(Role::Tag), &want.tag)?;
        }
        let changed = |e| format!("changed the {e}");
        if !layout.in_place || imp.kind() == Kind::Hash {
            same("source", self.arena.bytes(Role::Source), &message.text).map_err(changed)?;
        }
        same("associated data", self.arena.bytes(Role::Aad), &message.aad).map_err(changed)?;
        match (imp.kind(), &layout.cut) {
            (Kind::Skcipher, None) => same("IV afterwards", self.arena.bytes(Role::Iv), &want.iv),
            (Kind::Skcipher, Some(_)) => Ok(()),
            _ => same("IV", self.arena.bytes(Role::Iv), &message.iv).map_err(changed),
        }
    }
}
