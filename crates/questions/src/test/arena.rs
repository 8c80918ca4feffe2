//! The guarded memory of one thread: a buffer for each argument of a call.

use std::io;

use super::guard::{Guarded, Place, Span, PAGE};

/// Maximum length in bytes of a message or of associated data.
pub(super) const LONGEST: usize = 70_000;

/// The purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Role {
    Key,
    Context,
    /// State of a message that is processed in pieces. There are two such buffers, because the
    /// state may be moved from one to the other.
    State,
    OtherState,
    Source,
    Destination,
    Iv,
    Aad,
    Tag,
}

const ROLES: [(Role, &str, usize); 9] = [
    (Role::Key, "key", 3 * PAGE),
    (Role::Context, "context", 4 * PAGE),
    (Role::State, "state", 2 * PAGE),
    (Role::OtherState, "state", 2 * PAGE),
    (Role::Source, "source", LONGEST + PAGE),
    (Role::Destination, "destination", LONGEST + PAGE),
    (Role::Iv, "IV", 2 * PAGE),
    (Role::Aad, "associated data", LONGEST + PAGE),
    (Role::Tag, "tag", 2 * PAGE),
];

/// One buffer for each role, and the position of the data in each buffer.
pub(crate) struct Arena {
    buffers: Vec<(&'static str, Guarded, Option<Span>)>,
}

impl Arena {
    pub(super) fn new() -> io::Result<Arena> {
        let mut buffers = Vec::new();
        for (i, (role, name, len)) in ROLES.into_iter().enumerate() {
            debug_assert_eq!(i, role as usize);
            buffers.push((name, Guarded::new(len)?, None));
        }
        Ok(Arena { buffers })
    }

    pub(super) fn named(&self) -> Vec<(&'static str, &Guarded)> {
        self.buffers.iter().map(|(n, b, _)| (*n, b)).collect()
    }

    /// Writes data to the buffer of a role.
    pub(super) fn put(&mut self, role: Role, data: &[u8], place: Place) {
        let span = self.room(role, data.len(), place);
        self.buffers[role as usize].1.write(span, data);
    }

    /// Reserves `len` bytes for data. The bytes contain poison until they are written.
    pub(super) fn room(&mut self, role: Role, len: usize, place: Place) -> Span {
        let (_, buffer, held) = &mut self.buffers[role as usize];
        if let Some(span) = held.take() {
            buffer.wipe(span);
        }
        let span = buffer.place(len, place);
        *held = Some(span);
        span
    }

    /// Reserves `len` zeroed bytes, aligned to 64 bytes and as near to the upper guard page as the
    /// alignment allows.
    pub(super) fn aligned(&mut self, role: Role, len: usize) {
        let buffer = &self.buffers[role as usize].1;
        let (low, high) = buffer.range();
        let at = ((high - len) & !63) - low;
        let span = self.room(role, len, Place::At(at));
        self.buffers[role as usize].1.fill(span, 0);
    }

    pub(super) fn ptr(&self, role: Role) -> u64 {
        let (_, buffer, held) = &self.buffers[role as usize];
        held.map_or(0, |span| buffer.ptr(span) as u64)
    }

    pub(super) fn bytes(&self, role: Role) -> &[u8] {
        let (_, buffer, held) = &self.buffers[role as usize];
        held.map_or(&[], |span| buffer.bytes(span))
    }

    /// Overwrites a role's data with copies of `byte`.
    pub(super) fn fill(&mut self, role: Role, byte: u8) {
        let (_, buffer, held) = &mut self.buffers[role as usize];
        if let Some(span) = *held {
            buffer.fill(span, byte);
        }
    }

    /// Replaces a role's data with data of the same length.
    pub(super) fn overwrite(&mut self, role: Role, data: &[u8]) {
        let (_, buffer, held) = &mut self.buffers[role as usize];
        if let Some(span) = *held {
            buffer.write(span, data);
        }
    }

    /// Checks that the poison in all buffers is intact.
    pub(super) fn check(&self) -> Result<(), String> {
        for (name, buffer, held) in &self.buffers {
            if let Some(span) = held {
                buffer
                    .check(*span)
                    .map_err(|stray| format!("{stray} of the {name}"))?;
            }
        }
        Ok(())
    }

    /// Refills all buffers with poison, which is necessary after stray writes.
    pub(super) fn reset(&mut self) {
        for (_, buffer, held) in &mut self.buffers {
            *held = None;
            buffer.reset();
        }
    }

    /// Refills only the used parts of the buffers with poison, which is enough if there were no
    /// stray writes.
    pub(super) fn clear(&mut self) {
        for (_, buffer, held) in &mut self.buffers {
            if let Some(span) = held.take() {
                buffer.wipe(span);
            }
        }
    }
}
