//! Checks that keys of valid lengths are accepted and keys of other lengths are rejected.

use kiln_kernel::call::Entry;
use kiln_kernel::cipher::Impl;

use super::{Bench, Replay};
use crate::test::arena::Role;
use crate::test::judge::same;
use crate::test::message::Layout;

/// The error number that Linux returns for a key of the wrong length.
const EINVAL: i32 = -22;

impl Bench {
    /// Sets a key. Returns an error if `setkey` rejects it. On success, the context is in the
    /// buffer for `Role::Context`.
    pub(super) fn set_key(
        &mut self,
        imp: Impl,
        key: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        self.arena.aligned(Role::Context, imp.context_size());
        let Some(function) = imp.function(Entry::SetKey) else {
            return Ok(());
        };
        self.arena.put(Role::Key, key, layout.key);
        let args = [
            self.arena.ptr(Role::Context),
            self.arena.ptr(Role::Key),
            key.len() as u64,
        ];
        let returned = self.call(function, None, &args, layout.context, replay)?;
        same("key", self.arena.bytes(Role::Key), key).map_err(|e| format!("changed the {e}"))?;
        match returned as i32 {
            0 => Ok(()),
            code => Err(format!("setkey of {} bytes returned {code}", key.len())),
        }
    }

    /// Checks that a key is accepted and that `setkey` expands it to `context`.
    pub fn takes_key(
        &mut self,
        imp: Impl,
        key: &[u8],
        context: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let result = self
            .set_key(imp, key, layout, replay)
            .and_then(|()| same("context", self.arena.bytes(Role::Context), context));
        self.clear(result.is_err());
        result
    }

    /// Checks that a key of an invalid length is rejected and that `setkey` writes nothing.
    pub(crate) fn refuses_key(
        &mut self,
        imp: Impl,
        key: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        let result = self.refusal(imp, key, layout, replay);
        self.clear(result.is_err());
        result
    }

    fn refusal(
        &mut self,
        imp: Impl,
        key: &[u8],
        layout: &Layout,
        replay: Replay<'_>,
    ) -> Result<(), String> {
        const BEFORE: u8 = 0x5a;
        let function = imp.function(Entry::SetKey).ok_or("has no setkey")?;
        self.arena.aligned(Role::Context, imp.context_size());
        self.arena.fill(Role::Context, BEFORE);
        self.arena.put(Role::Key, key, layout.key);
        let args = [
            self.arena.ptr(Role::Context),
            self.arena.ptr(Role::Key),
            key.len() as u64,
        ];
        let returned = self.call(function, None, &args, layout.context, replay)? as i32;
        if returned != EINVAL {
            return Err(format!(
                "setkey returned {returned} and not {EINVAL} (EINVAL)"
            ));
        }
        let untouched = |role| self.arena.bytes(role).iter().all(|b| *b == BEFORE);
        if !untouched(Role::Context) {
            return Err("setkey refused, but wrote the context".into());
        }
        same("key", self.arena.bytes(Role::Key), key).map_err(|e| format!("changed the {e}"))
    }
}
