//! Keeps tests that fork from running at the same time. A forked child holds copies of all
//! descriptors, so a close() in another test would not be the last close of its file.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test holds the returned guard. The caller may fork until it drops it.
pub(crate) fn fork_alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
