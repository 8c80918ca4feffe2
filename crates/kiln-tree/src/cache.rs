//! Manages the directories in which trees are built. The user's cache contains one directory per
//! combination of tree, compiler and configuration.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::place::{hash, safe_name, try_lock, Locking, FINISHED};
use crate::revision::Checkout;
use crate::{farm, Error, Source};

/// A cache directory, locked while this value exists.
pub struct Cache {
    pub dir: PathBuf,
    /// Directory with the sources to build: the tree itself, or a directory of links to its files.
    pub source: PathBuf,
    /// Output directory of the kernel's build.
    pub objects: PathBuf,
    /// Directory for the compiled services and the linked image.
    pub host: PathBuf,
    /// Log file for the builds.
    pub log: PathBuf,
    _lock: File,
    /// The checkout, if the tree is a git revision. While this value exists, other processes cannot
    /// change the checkout's files.
    _checkout: Option<Arc<Checkout>>,
}

/// Returns the name of a tree's directory in the cache. The name depends on the tree's path, the
/// compiler and the configuration.
pub fn key(dir: &Path, compiler: &str, config: u64) -> String {
    let safe = safe_name(&dir.file_name().unwrap_or_default().to_string_lossy());
    let parts: [&[u8]; 3] = [
        dir.as_os_str().as_bytes(),
        compiler.as_bytes(),
        &config.to_le_bytes(),
    ];
    format!("{safe}-{:016x}", hash(&parts))
}

/// Name of the lock file of a cache directory.
pub(crate) const LOCK: &str = "lock";

/// Progress message for the first step of a build.
pub const CONFIGURING: &str = "configuration";
/// Progress message shown while another process holds the lock of a cache directory.
pub const WAITING: &str = "another kiln uses this tree: waiting for it";

impl Cache {
    /// Creates and locks the directory. If another process holds the lock, reports this to the user
    /// and waits.
    ///
    /// # Errors
    /// Fails if the directory cannot be written, or the user presses Ctrl-C while this function
    /// waits.
    pub fn open(
        dir: PathBuf,
        source: &Source,
        stop: &AtomicBool,
        progress: &dyn Fn(f64, &str),
    ) -> Result<Cache, Error> {
        let (objects, host) = (dir.join("build"), dir.join("host"));
        for d in [&objects, &host] {
            fs::create_dir_all(d).map_err(|e| Error::cache(d, e))?;
        }
        let path = dir.join(LOCK);
        let lock = File::create(&path).map_err(|e| Error::cache(&path, e))?;
        let mut waiting = false;
        while !try_lock(&lock, Locking::Alone).map_err(|e| Error::cache(&path, e))? {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if !waiting {
                progress(0.0, WAITING);
                waiting = true;
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(Cache {
            source: farm::source(&source.dir, source.kind, &dir)?,
            objects,
            host,
            log: dir.join("log"),
            dir,
            _lock: lock,
            _checkout: source.checkout.clone(),
        })
    }

    /// Returns the path of a file whose modification time is the time when the last build ended.
    /// The file does not exist during a build.
    pub(crate) fn finished(&self) -> PathBuf {
        self.dir.join(FINISHED)
    }
}

/// Writes the file only if its content changes, because make rebuilds everything that depends on a
/// file with a new modification time. Returns whether the file was written.
pub fn update(path: &Path, content: &str) -> Result<bool, Error> {
    if fs::read(path).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(false);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|e| Error::cache(parent, e))?;
    }
    fs::write(path, content).map_err(|e| Error::cache(path, e))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_tree_compiler_and_configuration() {
        let one = key(Path::new("/src/linux 6"), "gcc 12", 1);
        assert!(one.starts_with("linux_6-"), "{one}");
        assert_eq!(one, key(Path::new("/src/linux 6"), "gcc 12", 1));
        for other in [
            key(Path::new("/else/linux 6"), "gcc 12", 1),
            key(Path::new("/src/linux 6"), "gcc 13", 1),
            key(Path::new("/src/linux 6"), "gcc 12", 2),
            key(Path::new("/src/linux 6"), "gcc 12\u{1}", 0),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn trees_of_two_versions_keep_their_builds() {
        let root = tempfile::tempdir().unwrap();
        let tree = |name: &str| {
            let dir = root.path().join(name);
            fs::create_dir_all(dir.join("arch/x86/crypto")).unwrap();
            fs::write(dir.join("Kbuild"), "").unwrap();
            fs::write(dir.join("Makefile"), "VERSION = 7\nPATCHLEVEL = 3\n").unwrap();
            Source::open(&dir).unwrap()
        };
        let never = AtomicBool::new(false);
        let open = |source: &Source| {
            let dir = root.path().join("cache").join(key(&source.dir, "gcc", 1));
            Cache::open(dir, source, &never, &|_, _| ()).unwrap()
        };
        let (old, new) = (tree("6.12"), tree("7.3"));
        // Hold both locks at the same time, to show that they are independent.
        let both = [open(&old), open(&new)];
        for cache in &both {
            fs::write(cache.host.join("image"), cache.dir.to_str().unwrap()).unwrap();
        }
        drop(both);
        for source in [&new, &old, &new] {
            let cache = open(source);
            let image = fs::read_to_string(cache.host.join("image")).unwrap();
            assert_eq!(image, cache.dir.to_str().unwrap());
        }
    }
}
