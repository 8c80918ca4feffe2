//! Processes a message in pieces, like a caller that never has the whole message at once.

use kiln_kernel::call::Entry;
use kiln_kernel::cipher::{Impl, Kind, Op};

use super::{Bench, Replay};
use crate::test::arena::Role;
use crate::test::message::{Layout, Message};

impl Bench {
    /// Processes the message in several calls. Each call is in a separate section, and the state
    /// moves between two buffers.
    pub(super) fn pieces(
        &mut self,
        imp: Impl,
        op: Op,
        message: &Message,
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let cut = layout.cut.clone().unwrap_or_default();
        let mut state = (Role::State, Role::OtherState);
        self.arena.aligned(state.0, imp.state_size());
        self.arena.fill(state.0, 0xee);
        let ctx = self.arena.ptr(Role::Context);
        let dst = self.arena.ptr(Role::Destination);
        let src = match layout.in_place && imp.kind() != Kind::Hash {
            true => dst,
            false => self.arena.ptr(Role::Source),
        };
        let steps = 2 + cut.aad.len() + cut.text.len();
        let (mut aad_at, mut text_at) = (0, 0);
        for step in 0..steps {
            let who = cut.other.filter(|_| step % 2 == 1).unwrap_or(imp);
            let at = self.arena.ptr(state.0);
            let iv = self.arena.ptr(Role::Iv);
            let piece = step.wrapping_sub(1);
            let (entry, args) = match (imp.kind(), step) {
                (Kind::Skcipher, 0) => (Entry::First, vec![ctx, iv]),
                (Kind::Aead, 0) => (
                    Entry::Begin,
                    vec![
                        ctx,
                        at,
                        iv,
                        message.aad.len() as u64,
                        message.text.len() as u64,
                        message.tag_size as u64,
                    ],
                ),
                (Kind::Hash, 0) => (Entry::Init, vec![ctx, at]),
                (Kind::Skcipher, n) if n == steps - 1 => continue,
                (Kind::Aead, n) if n == steps - 1 => (
                    Entry::End,
                    vec![ctx, at, self.arena.ptr(Role::Tag), message.tag_size as u64],
                ),
                (Kind::Hash, n) if n == steps - 1 => {
                    (Entry::Final, vec![ctx, at, self.arena.ptr(Role::Tag)])
                }
                (kind, _) => {
                    if let Some(len) = cut.aad.get(piece) {
                        let args = vec![ctx, at, self.arena.ptr(Role::Aad) + aad_at, *len as u64];
                        aad_at += *len as u64;
                        (Entry::Aad, args)
                    } else {
                        let len = cut.text[piece - cut.aad.len()] as u64;
                        let from = (src + text_at, dst + text_at);
                        text_at += len;
                        match kind {
                            Kind::Skcipher => {
                                (skcipher_piece(who, op), vec![ctx, from.1, from.0, len, iv])
                            }
                            Kind::Aead => (
                                match op {
                                    Op::Encrypt => Entry::SealPiece,
                                    Op::Decrypt => Entry::OpenPiece,
                                },
                                vec![ctx, at, from.1, from.0, len],
                            ),
                            Kind::Hash => (Entry::Update, vec![ctx, at, from.0, len]),
                        }
                    }
                }
            };
            // Only some algorithms have a `first` function. It replaces the IV with the value that
            // the functions for pieces expect.
            if who.function(entry).is_some() {
                self.call_of(who, entry, &args, layout.context, replay)?;
            }
            if cut.moves >> (step % 64) & 1 == 1 && step < steps - 1 && imp.kind() != Kind::Skcipher
            {
                let exported = self.arena.bytes(state.0).to_vec();
                self.arena.fill(state.0, 0xdd);
                state = (state.1, state.0);
                self.arena.aligned(state.0, exported.len());
                self.arena.overwrite(state.0, &exported);
            }
        }
        if imp.kind() != Kind::Skcipher && imp.is_keyed() {
            if let Some(i) = self.arena.bytes(state.0).iter().position(|b| *b != 0) {
                return Err(format!(
                    "left the state unwiped: byte {i} is not zero at the end"
                ));
            }
        }
        Ok(())
    }
}

fn skcipher_piece(imp: Impl, op: Op) -> Entry {
    let (piece, whole) = match op {
        Op::Encrypt => (Entry::EncryptPiece, Entry::Encrypt),
        Op::Decrypt => (Entry::DecryptPiece, Entry::Decrypt),
    };
    match imp.function(piece) {
        Some(_) => piece,
        None => whole,
    }
}
