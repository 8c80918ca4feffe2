//! Buffers for request data, in memory shared with the device.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::memory::{Memory, Span};

/// A block of shared memory. It is owned by the program, or by the queue while it is part of a
/// request in flight.
pub struct Buffer {
    memory: Arc<Memory>,
    span: Span,
}

impl Buffer {
    pub(crate) fn new(memory: &Arc<Memory>, len: usize) -> Result<Buffer, Error> {
        Ok(Buffer {
            span: memory.take(len, 64)?,
            memory: memory.clone(),
        })
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.span.len
    }

    pub fn is_empty(&self) -> bool {
        self.span.len == 0
    }

    /// Writes bytes starting at offset `at`.
    ///
    /// # Panics
    /// Panics if the bytes extend past the end of the buffer.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.memory.write(self.span.part(at, bytes.len()), bytes);
    }

    /// Reads bytes starting at offset `at`. The device may change them at any time, so read them
    /// only once.
    ///
    /// # Panics
    /// Panics if the bytes extend past the end of the buffer.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        self.memory.read(self.span.part(at, bytes.len()), bytes);
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Moves the buffer to `memory`, because a reconnected device cannot access the old memory.
    pub(crate) fn move_to(&mut self, memory: &Arc<Memory>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.memory, memory) {
            return Ok(());
        }
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes);
        let mut moved = Buffer::new(memory, self.len())?;
        moved.write(0, &bytes);
        *self = moved;
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.give_back(self.span);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omit the contents, because they may be secret.
        write!(f, "Buffer({} bytes)", self.len())
    }
}
