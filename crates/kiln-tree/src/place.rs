//! Manages Kiln's part of the user's cache: finds its path, chooses names for directories, locks
//! directories, and creates scratch directories.

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::{Builder, TempDir};

use crate::Error;

/// Name of the file whose modification time records when the last build ended.
pub(crate) const FINISHED: &str = "finished";

/// Returns the user's directory for files that can be regenerated: XDG_CACHE_HOME, or `~/.cache`.
pub fn root() -> Result<PathBuf, Error> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .ok_or(Error::NoCache)
}

/// Creates a directory in `parent` that has an unpredictable name and is accessible only to this
/// user. The directory is removed on drop. The programs that Kiln starts follow symbolic links when
/// they write files, so they write only to such directories, where other users cannot create links.
pub fn make_scratch(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
}

/// Creates a scratch directory as [`make_scratch`] does, and locks it until the returned file is
/// closed. `parent` must contain only directories that this function has created. Before creating
/// the new directory, removes unlocked directories, which killed processes have left behind.
///
/// # Errors
/// Fails if the directory cannot be created or locked.
pub fn make_locked_scratch(parent: &Path) -> io::Result<(TempDir, File)> {
    // Hold this lock until the new directory is locked. Therefore, a directory that is not locked
    // at this point was left behind by a process that has ended, and can be removed.
    let all = File::open(parent)?;
    lock(&all, Locking::Alone)?;
    for entry in fs::read_dir(parent)?.flatten() {
        let abandoned = File::open(entry.path())
            .is_ok_and(|dir| try_lock(&dir, Locking::Alone).unwrap_or(false));
        if abandoned {
            // Ignore errors: the next call tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    // Use no prefix, because a socket may be created in the directory, and the path of a socket is
    // limited to 107 bytes.
    let dir = make_scratch(parent, "")?;
    let owner = File::open(dir.path())?;
    lock(&owner, Locking::Alone)?;
    Ok((dir, owner))
}

/// Replaces characters that have a special meaning for make or a shell.
pub(crate) fn safe_name(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// Computes the FNV-1a hash of the parts. The length of each part is hashed before the part itself.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &b in bytes {
            h = (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for part in parts {
        add(&(part.len() as u64).to_le_bytes());
        add(part);
    }
    h
}

/// How to acquire a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// Exclusive: no other process can hold the lock at the same time.
    Alone,
    /// Shared: several processes can hold the lock at the same time if all of them use this mode.
    Shared,
}

/// Acquires the lock, waiting if necessary.
pub(crate) fn lock(lock: &File, how: Locking) -> io::Result<()> {
    while !try_lock(lock, how)? {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Tries to acquire the lock without waiting. Returns whether it was acquired.
pub(crate) fn try_lock(lock: &File, how: Locking) -> io::Result<bool> {
    let how = match how {
        Locking::Alone => libc::LOCK_EX,
        Locking::Shared => libc::LOCK_SH,
    };
    // SAFETY: the descriptor is open because `lock` is borrowed, and flock() does not access
    // memory.
    if unsafe { libc::flock(lock.as_raw_fd(), how | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn scratch_directories_are_new_and_private_and_go() {
        let parent = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| make_scratch(parent.path(), "kiln-").unwrap());
        assert_ne!(one.path(), other.path());
        for dir in [&one, &other] {
            let mode = dir.path().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
            // The part of the name after the prefix must be unpredictable.
            let name = dir.path().file_name().unwrap().to_str().unwrap();
            assert!(!name.contains(&std::process::id().to_string()), "{name}");
        }
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn a_scratch_directory_without_its_process_is_removed_and_no_other() {
        let parent = tempfile::tempdir().unwrap();
        let (used, lock) = make_locked_scratch(parent.path()).unwrap();
        let (killed, of_killed) = make_locked_scratch(parent.path()).unwrap();
        // The kernel releases a killed process's lock, but the directory remains.
        let left = killed.keep();
        drop(of_killed);
        fs::write(left.join("initramfs"), "x").unwrap();
        // A child that another test forks also holds the lock until it calls exec(), so retry for a
        // while.
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let (next, _lock) = make_locked_scratch(parent.path()).unwrap();
            assert!(used.path().exists() && next.path().exists());
            if !left.exists() {
                break;
            }
            assert!(Instant::now() < until, "the directory is not removed");
            thread::yield_now();
        }
        drop(lock);
    }
}
