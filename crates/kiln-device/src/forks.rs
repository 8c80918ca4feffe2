//! For tests: keeps tests that fork from running at the same time. A child process has copies of all
//! descriptors of this process, so another test would not close the last one of a file.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test forks. The caller may fork until it drops the returned guard.
pub(crate) fn fork_alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
