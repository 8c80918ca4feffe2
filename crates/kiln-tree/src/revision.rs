//! Checkouts of git revisions in Kiln's cache. A repository has a few slots there, each with the files of one revision and
//! what was built of them. A new slot begins as a copy of the one that differs least, so that only what differs is built.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::git::{format_files, parse_files, Commit, Files, Mode, Repository};
use crate::place::{hash, lock, root, safe_name, try_lock, Locking, FINISHED};
use crate::Error;

/// Slots of a repository. The one that was not used for longest is replaced, unless a process uses it.
const SLOTS: usize = 4;

/// A slot that was not used for so long is removed when another revision is checked out.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Directories that the build of a hosted tree reads, beside the files that every directory has for Kconfig and Kbuild.
const DIRECTORIES: [&str; 22] = [
    "arch/x86",
    "block",
    "certs",
    "crypto",
    "include",
    "init",
    "io_uring",
    "ipc",
    "kernel",
    "lib",
    "mm",
    "scripts",
    "security",
    "tools/arch",
    "tools/bpf/resolve_btfids",
    "tools/build",
    "tools/include",
    "tools/lib",
    "tools/objtool",
    "tools/scripts",
    "usr",
    "virt",
];

/// How names of files begin that Kconfig and Kbuild read in every directory.
const EVERYWHERE: [&str; 3] = ["Kconfig", "Makefile", "Kbuild"];

/// How much of a revision is checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What the build of a hosted tree reads: a sixth of the files and a tenth of the bytes.
    Hosted,
    /// Everything.
    Whole,
}

impl Extent {
    fn contains(self, path: &Path) -> bool {
        let named = || {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            EVERYWHERE.iter().any(|start| name.starts_with(start))
        };
        self == Extent::Whole
            || path.parent() == Some(Path::new(""))
            || DIRECTORIES.iter().any(|dir| path.starts_with(dir))
            || named()
    }
}

/// A revision's files. No other process changes them while this lives.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub commit: Commit,
    /// The repository that it is from.
    pub repository: Repository,
    /// Its slot.
    slot: PathBuf,
    _lock: File,
}

impl Checkout {
    /// The files.
    pub(crate) fn source(&self) -> PathBuf {
        source(&self.slot)
    }

    /// Where it is built.
    pub(crate) fn builds(&self) -> PathBuf {
        builds(&self.slot)
    }
}

fn source(slot: &Path) -> PathBuf {
    slot.join("source")
}

fn builds(slot: &Path) -> PathBuf {
    slot.join("builds")
}

/// What a slot contains: the tree's hash and its files. It is missing while the files change.
struct Manifest {
    tree: String,
    files: Files,
}

impl Manifest {
    fn read(slot: &Path) -> Option<Manifest> {
        let bytes = fs::read(slot.join("manifest")).ok()?;
        let end = bytes.iter().position(|b| *b == b'\n')?;
        Some(Manifest {
            tree: String::from_utf8(bytes[..end].to_vec()).ok()?,
            files: parse_files(&bytes[end + 1..]),
        })
    }

    fn write(&self, slot: &Path) -> Result<(), Error> {
        let (new, path) = (slot.join("manifest.new"), slot.join("manifest"));
        let text = [self.tree.as_bytes(), b"\n", &format_files(&self.files)].concat();
        fs::write(&new, text).map_err(|e| Error::cache(&new, e))?;
        fs::rename(&new, &path).map_err(|e| Error::cache(&path, e))
    }
}

/// Files of one manifest that the other does not have in the same form.
fn difference<'a>(of: &'a Files, from: &'a Files) -> impl Iterator<Item = &'a Path> {
    of.iter()
        .filter(|(path, file)| from.get(*path) != Some(*file))
        .map(|(path, _)| path.as_path())
}

/// A slot that is there.
struct Slot {
    dir: PathBuf,
    used: SystemTime,
    /// None if it is not complete.
    manifest: Option<Manifest>,
}

/// Checks a commit out, or finds the slot that has its files.
pub(crate) fn check_out(
    repository: Repository,
    commit: Commit,
    extent: Extent,
    progress: &dyn Fn(f64, &str),
) -> Result<Checkout, Error> {
    let all = root()?.join("kiln/revisions");
    let place = all.join(place_name(&repository, extent));
    fs::create_dir_all(&place).map_err(|e| Error::cache(&place, e))?;
    // Slots are chosen and changed by one process at a time.
    let _alone = wait_for(&place, Locking::Alone)?;
    remove_unused(&all, &place);
    let (slot, lock) = prepare(&place, &repository, &commit, extent, progress)?;
    Ok(Checkout {
        commit,
        repository,
        slot,
        _lock: lock,
    })
}

fn place_name(repository: &Repository, extent: Extent) -> String {
    let of = hash(&[
        repository.common.as_os_str().as_bytes(),
        format!("{extent:?} {DIRECTORIES:?}").as_bytes(),
    ]);
    format!("{}-{of:016x}", safe_name(&repository.name()))
}

/// Waits for the lock of a directory. The file's time is when a slot was used last: opening it changes nothing.
fn wait_for(dir: &Path, how: Locking) -> Result<File, Error> {
    let file = open_lock(dir)?;
    lock(&file, how).map_err(|e| Error::cache(dir, e))?;
    Ok(file)
}

/// The lock of a directory that no process uses; none if one does.
fn take(dir: &Path) -> Option<File> {
    let file = open_lock(dir).ok()?;
    let ours = try_lock(&file, Locking::Alone);
    ours.is_ok_and(|ours| ours).then_some(file)
}

fn open_lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    options.open(&path).map_err(|e| Error::cache(&path, e))
}

/// A slot with the files of this commit, and its lock, which other users of the same files share.
fn prepare(
    place: &Path,
    repository: &Repository,
    commit: &Commit,
    extent: Extent,
    progress: &dyn Fn(f64, &str),
) -> Result<(PathBuf, File), Error> {
    let slots = read_slots(place);
    let has = |slot: &&Slot| {
        slot.manifest
            .as_ref()
            .is_some_and(|m| m.tree == commit.tree)
    };
    if let Some(slot) = slots.iter().find(has) {
        let shared = share(&slot.dir)?;
        return Ok((slot.dir.clone(), shared));
    }
    progress(0.0, "checking the revision out");
    let mut files = repository.files(commit)?;
    files.retain(|path, _| extent.contains(path));
    check_paths(&files)?;
    let new = Manifest {
        tree: commit.tree.clone(),
        files,
    };
    let distance = |slot: &&Slot| {
        let old = slot.manifest.as_ref().map(|m| &m.files);
        old.map_or(usize::MAX, |old| difference(&new.files, old).count())
    };
    let complete = slots.iter().filter(|s| s.manifest.is_some());
    let nearest = complete.min_by_key(distance);

    let slot = match free_slot(place, &slots) {
        Some(slot) if nearest.is_some_and(|n| n.dir == slot) => slot,
        chosen => {
            let slot = chosen.unwrap_or_else(|| new_slot(place, &slots));
            if slot.exists() {
                fs::remove_dir_all(&slot).map_err(|e| Error::cache(&slot, e))?;
            }
            fs::create_dir_all(source(&slot)).map_err(|e| Error::cache(&slot, e))?;
            if let Some(from) = nearest {
                copy(from, &slot, &new.files)?;
            }
            slot
        }
    };
    let old = nearest.and_then(|n| n.manifest.as_ref());
    let _ = fs::remove_file(slot.join("manifest"));
    update(
        &source(&slot),
        old.map(|m| &m.files),
        &new.files,
        repository,
        progress,
    )?;
    new.write(&slot)?;
    let shared = share(&slot)?;
    Ok((slot, shared))
}

/// The lock of a slot, for use; it is also when it was used last.
fn share(slot: &Path) -> Result<File, Error> {
    let file = wait_for(slot, Locking::Shared)?;
    file.set_modified(SystemTime::now())
        .map_err(|e| Error::cache(slot, e))?;
    Ok(file)
}

fn read_slots(place: &Path) -> Vec<Slot> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut slots: Vec<Slot> = entries
        .filter(|e| e.path().is_dir())
        .map(|e| {
            let dir = e.path();
            let used = fs::metadata(dir.join("lock")).and_then(|m| m.modified());
            Slot {
                used: used.unwrap_or(SystemTime::UNIX_EPOCH),
                manifest: Manifest::read(&dir),
                dir,
            }
        })
        .collect();
    slots.sort_by(|a, b| a.dir.cmp(&b.dir));
    slots
}

/// A slot to be replaced, if there are enough: one that is not complete, or the one that was not used for longest.
fn free_slot(place: &Path, slots: &[Slot]) -> Option<PathBuf> {
    let free = || slots.iter().filter(|s| take(&s.dir).is_some());
    let broken = free().find(|s| s.manifest.is_none());
    let oldest = || free().min_by_key(|s| s.used);
    let found = match broken {
        Some(slot) => Some(slot),
        None if slots.len() >= SLOTS => oldest(),
        None => None,
    };
    debug_assert!(found.is_none_or(|s| s.dir.starts_with(place)));
    found.map(|s| s.dir.clone())
}

/// All names have the same length, so that one can replace the other in any file.
fn new_slot(place: &Path, slots: &[Slot]) -> PathBuf {
    let taken: BTreeSet<&Path> = slots.iter().map(|s| s.dir.as_path()).collect();
    (0..1000)
        .map(|n| place.join(format!("{n:03}")))
        .find(|dir| !taken.contains(dir.as_path()))
        .expect("fewer processes than names")
}

/// Removes slots that nobody has used for a long time, of all repositories.
fn remove_unused(all: &Path, own: &Path) {
    let old = |slot: &Slot| slot.used.elapsed().is_ok_and(|since| since > KEPT);
    for place in fs::read_dir(all).into_iter().flatten().flatten() {
        let place = place.path();
        // Another process may be choosing a slot there.
        let alone = match place == own {
            true => None,
            false => match take(&place) {
                Some(lock) => Some(lock),
                None => continue,
            },
        };
        for slot in read_slots(&place).iter().filter(|slot| old(slot)) {
            if take(&slot.dir).is_some() {
                let _ = fs::remove_file(slot.dir.join("manifest"));
                let _ = fs::remove_dir_all(&slot.dir);
            }
        }
        drop(alone);
    }
}

/// Refuses paths that lead out of the checkout, directly or through a symbolic link. Git makes no such commit, but a program
/// can.
fn check_paths(files: &Files) -> Result<(), Error> {
    for path in files.keys() {
        let plain = path.components().all(|c| match c {
            Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
            _ => false,
        });
        let below_file = path.ancestors().skip(1).any(|dir| files.contains_key(dir));
        if !plain || below_file {
            return Err(Error::Git {
                what: path.display().to_string(),
                why: "a path that git would not check out".to_owned(),
            });
        }
    }
    Ok(())
}

/// Fills a new slot with what it has in common with another: links to files, which are never written again, and copies of
/// the builds, in which the slot's own path replaces the other's. Times of change stay what they were.
fn copy(from: &Slot, to: &Path, files: &Files) -> Result<(), Error> {
    let old = from.manifest.as_ref().expect("it is complete");
    let mut parent = PathBuf::new();
    for (path, file) in &old.files {
        if files.get(path) != Some(file) {
            continue;
        }
        let (from, to) = (source(&from.dir).join(path), source(to).join(path));
        make_parent(&to, &mut parent)?;
        match file.mode {
            // A link to a symbolic link is not portable, and there are few.
            Mode::Link => {
                let target = fs::read_link(&from).map_err(|e| Error::cache(&from, e))?;
                symlink(target, &to)
            }
            _ => fs::hard_link(&from, &to),
        }
        .map_err(|e| Error::cache(&to, e))?;
    }
    for build in fs::read_dir(builds(&from.dir))
        .into_iter()
        .flatten()
        .flatten()
    {
        let place = builds(to).join(build.file_name());
        let before = finished(&build.path());
        let names = (from.dir.as_os_str().as_bytes(), to.as_os_str().as_bytes());
        let copied = before.is_some() && copy_build(&build.path(), &place, names).is_ok();
        // Another process may have begun to build there.
        if !copied || finished(&build.path()) != before {
            let _ = fs::remove_dir_all(&place);
        }
    }
    Ok(())
}

/// When a build ended; none if it did not, or is under way.
fn finished(build: &Path) -> Option<SystemTime> {
    let file = fs::metadata(build.join(FINISHED));
    file.and_then(|m| m.modified()).ok()
}

fn copy_build(from: &Path, to: &Path, names: (&[u8], &[u8])) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(|e| Error::cache(to, e))?;
    for entry in fs::read_dir(from)
        .map_err(|e| Error::cache(from, e))?
        .flatten()
    {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let io = |e| Error::cache(&from, e);
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() {
            copy_build(&from, &to, names)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(io)?;
            let mut target = target.into_os_string().into_encoded_bytes();
            replace(&mut target, names);
            symlink(std::ffi::OsStr::from_bytes(&target), &to).map_err(io)?;
        } else {
            let meta = entry.metadata().map_err(io)?;
            let mut bytes = fs::read(&from).map_err(io)?;
            replace(&mut bytes, names);
            fs::write(&to, bytes).map_err(io)?;
            let file = File::options().write(true).open(&to).map_err(io)?;
            file.set_permissions(meta.permissions()).map_err(io)?;
            let time = FileTimes::new().set_modified(meta.modified().map_err(io)?);
            file.set_times(time).map_err(io)?;
        }
    }
    Ok(())
}

/// Replaces a name by another of the same length, so that offsets in a binary file stay right.
fn replace(bytes: &mut [u8], (old, new): (&[u8], &[u8])) {
    assert_eq!(old.len(), new.len());
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|w| w == old) {
        let start = at + found;
        bytes[start..start + new.len()].copy_from_slice(new);
        at = start + new.len();
    }
}

/// Makes the directory of a file; `last` is the one that was made last.
fn make_parent(path: &Path, last: &mut PathBuf) -> Result<(), Error> {
    match path.parent() {
        Some(dir) if dir != last => {
            fs::create_dir_all(dir).map_err(|e| Error::cache(dir, e))?;
            dir.clone_into(last);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Makes the files those of `new`; `old` are those that are there or of which the unchanged ones are.
fn update(
    source: &Path,
    old: Option<&Files>,
    new: &Files,
    repository: &Repository,
    progress: &dyn Fn(f64, &str),
) -> Result<(), Error> {
    let none = Files::new();
    let old = old.unwrap_or(&none);
    for path in difference(old, new) {
        let file = source.join(path);
        // In a copy it is not there.
        if fs::remove_file(&file).is_ok() {
            let mut dir = file.parent();
            while let Some(empty) = dir.filter(|d| *d != source && fs::remove_dir(d).is_ok()) {
                dir = empty.parent();
            }
        }
    }
    let wanted: Vec<&Path> = difference(new, old).collect();
    let blobs: Vec<&str> = wanted.iter().map(|path| new[*path].blob.as_str()).collect();
    let mut parent = PathBuf::new();
    repository.read(&blobs, &mut |i, content| {
        if i % 512 == 0 {
            let share = i as f64 / wanted.len() as f64;
            progress(0.05 * share, "checking the revision out");
        }
        let to = source.join(wanted[i]);
        make_parent(&to, &mut parent)?;
        write(&to, new[wanted[i]].mode, content).map_err(|e| Error::cache(&to, e))
    })
}

/// Writes a file that is not there.
fn write(to: &Path, mode: Mode, content: &[u8]) -> std::io::Result<()> {
    let bits = match mode {
        Mode::Link => return symlink(std::ffi::OsStr::from_bytes(content), to),
        Mode::Program => 0o755,
        Mode::Plain => 0o644,
    };
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(bits).open(to)?;
    file.write_all(content)
}
