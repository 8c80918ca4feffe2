//! Checks out git revisions into Kiln's cache. Each repository has a few slots. A slot holds the
//! files of one revision, and the builds made from these files. A new slot starts as a copy of the
//! most similar slot, so that only the differences have to be rebuilt.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::copy::{copy_build, finished};
use crate::git::{format_files, parse_files, Commit, Files, Mode, Repository};
use crate::place::{hash, lock, root, safe_name, try_lock, Locking};
use crate::Error;

/// Maximum number of slots per repository. When the limit is reached, a new revision replaces the
/// least recently used slot, ignoring slots that are currently in use.
const SLOTS: usize = 4;

/// Time after which an unused slot is removed. Slots are removed when another revision is checked
/// out.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Directories that the build of a hosted tree reads. The build also reads the Kconfig and Kbuild
/// files in every other directory.
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

/// Name prefixes of the files that Kconfig and Kbuild read in every directory.
const EVERYWHERE: [&str; 3] = ["Kconfig", "Makefile", "Kbuild"];

/// The part of a revision to check out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Only the files that the build of a hosted tree reads. These are about a sixth of all files
    /// and a tenth of the total size.
    Hosted,
    /// All files in the revision.
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

/// A checked-out revision. While this value exists, other processes do not change its files.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub commit: Commit,
    /// The repository that contains the revision.
    pub repository: Repository,
    slot: PathBuf,
    _lock: File,
}

impl Checkout {
    /// Returns the directory that contains the revision's files.
    pub(crate) fn source(&self) -> PathBuf {
        source(&self.slot)
    }

    /// Returns the directory that contains the revision's builds.
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

/// The contents of a slot: the hash of the tree object, and the list of files. A slot has no
/// manifest while its files are being changed.
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

/// Returns the paths of the files in `of` that `from` lacks or lists with different contents or
/// modes.
fn difference<'a>(of: &'a Files, from: &'a Files) -> impl Iterator<Item = &'a Path> {
    of.iter()
        .filter(|(path, file)| from.get(*path) != Some(*file))
        .map(|(path, _)| path.as_path())
}

/// A slot that exists in the cache.
struct Slot {
    dir: PathBuf,
    used: SystemTime,
    /// The slot's manifest; `None` if the slot is incomplete.
    manifest: Option<Manifest>,
}

/// Finds the slot that contains a commit's files, or checks out the commit into a slot.
pub(crate) fn check_out(
    repository: Repository,
    commit: Commit,
    extent: Extent,
    progress: &dyn Fn(f64, &str),
) -> Result<Checkout, Error> {
    let all = root()?.join("kiln/revisions");
    check_out_in(&all, repository, commit, extent, progress)
}

fn check_out_in(
    all: &Path,
    repository: Repository,
    commit: Commit,
    extent: Extent,
    progress: &dyn Fn(f64, &str),
) -> Result<Checkout, Error> {
    let place = all.join(place_name(&repository, extent));
    fs::create_dir_all(&place).map_err(|e| Error::cache(&place, e))?;
    // Lock the repository's directory, because only one process at a time may choose and modify
    // slots.
    let _alone = wait_for(&place, Locking::Alone)?;
    remove_unused(all, &place);
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

/// Locks a directory, waiting if necessary. The lock file's modification time records when the slot
/// was last used, so opening the file must not change it.
fn wait_for(dir: &Path, how: Locking) -> Result<File, Error> {
    let file = open_lock(dir)?;
    lock(&file, how).map_err(|e| Error::cache(dir, e))?;
    Ok(file)
}

/// Tries to lock a directory. Returns `None` if another process is using it.
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

/// Finds or creates a slot that contains this commit's files. Returns the slot and its lock, which
/// all users of the slot share.
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
    // Search the slots a second time, now comparing files: two commits may differ only in files
    // that are not checked out, such as documentation.
    let has = |slot: &&Slot| {
        let old = slot.manifest.as_ref();
        old.is_some_and(|m| m.files == new.files)
    };
    if let Some(slot) = slots.iter().find(has) {
        let shared = share(&slot.dir)?;
        return Ok((slot.dir.clone(), shared));
    }
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

/// Locks a slot for shared use, and records the current time as the time of last use.
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

/// Chooses a slot to replace. Incomplete slots are preferred. If all slots are complete and the
/// limit is reached, the least recently used slot is chosen.
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

/// Returns the path of a new slot. All slot paths have the same length, so that one slot's path can
/// be replaced with another's inside any file.
fn new_slot(place: &Path, slots: &[Slot]) -> PathBuf {
    let taken: BTreeSet<&Path> = slots.iter().map(|s| s.dir.as_path()).collect();
    (0..1000)
        .map(|n| place.join(format!("{n:03}")))
        .find(|dir| !taken.contains(dir.as_path()))
        .expect("fewer processes than slot names")
}

/// Removes slots that have not been used for a long time, in all repositories.
fn remove_unused(all: &Path, own: &Path) {
    let old = |slot: &Slot| slot.used.elapsed().is_ok_and(|since| since > KEPT);
    for place in fs::read_dir(all).into_iter().flatten().flatten() {
        let place = place.path();
        // Lock the directories of other repositories, because another process may be choosing a
        // slot there.
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

/// Rejects paths that lead out of the checkout, either directly or through a symbolic link. Git
/// does not create commits with such paths, but other programs can.
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

/// Fills a new slot with the files and builds of another slot. Files that are the same in both are
/// hard-linked, because they are never modified in place. Builds are copied, and the old slot's
/// path is replaced in the copies. Modification times are preserved.
fn copy(from: &Slot, to: &Path, files: &Files) -> Result<(), Error> {
    let old = from.manifest.as_ref().expect("the slot is complete");
    let mut parent = PathBuf::new();
    for (path, file) in &old.files {
        if files.get(path) != Some(file) {
            continue;
        }
        let (from, to) = (source(&from.dir).join(path), source(to).join(path));
        make_parent(&to, &mut parent)?;
        match file.mode {
            // Create a new symbolic link, because hard links to symbolic links are not portable.
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
        let copied = before.is_some() && copy_build(&build.path(), &place, &[names]).is_ok();
        // Discard the copy if another process has meanwhile started a build in the original
        // directory.
        if !copied || finished(&build.path()) != before {
            let _ = fs::remove_dir_all(&place);
        }
    }
    Ok(())
}

/// Creates a file's parent directory, unless it is `last`, the directory that was created most
/// recently.
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

/// Updates a checkout so that it contains the files in `new`. `old` lists the files before the
/// update. If the slot was created as a copy, `old` lists the files of the original slot, of which
/// the copy contains only those that are the same in `new`.
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
        // Ignore errors: in a slot that was copied, the files that differ were not linked and do
        // not exist.
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

/// Creates a new file or symbolic link.
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::place::FINISHED;
    use crate::tiny::Tiny;

    struct Bench {
        tiny: Tiny,
        cache: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Bench {
            let (tiny, cache) = (Tiny::new(), tempfile::tempdir().unwrap());
            Bench { tiny, cache }
        }

        fn check_out(&self, revision: &str) -> Checkout {
            let repository = Repository::find(self.tiny.path()).unwrap().unwrap();
            let commit = repository.commit(revision.as_ref()).unwrap().unwrap();
            let extent = Extent::Hosted;
            check_out_in(self.cache.path(), repository, commit, extent, &|_, _| ()).unwrap()
        }
    }

    fn read(checkout: &Checkout, path: &str) -> Option<String> {
        fs::read_to_string(checkout.source().join(path)).ok()
    }

    #[test]
    fn a_revision_is_checked_out_as_far_as_it_is_built_and_the_repository_stays_as_it_is() {
        let bench = Bench::new();
        let tiny = &bench.tiny;
        symlink("lib/a.c", tiny.path().join("scripts")).unwrap();
        tiny.write("lib/a.c", "second\n");
        fs::set_permissions(tiny.path().join("Kbuild"), PermissionsExt::from_mode(0o755)).unwrap();
        tiny.commit("second");
        // Uncommitted edits are not checked out.
        tiny.write("lib/a.c", "edited\n");
        let before = tiny.everything();
        let first = bench.check_out("HEAD~1");
        let second = bench.check_out("HEAD");
        assert_eq!(tiny.everything(), before);
        assert_eq!(first.commit.subject, "first");
        assert_eq!(read(&first, "lib/a.c").unwrap(), "a\n");
        assert_eq!(read(&second, "lib/a.c").unwrap(), "second\n");
        assert_eq!(read(&first, "drivers/net/big.c"), None);
        assert!(read(&first, "drivers/net/Kconfig").is_some());
        assert_eq!(read(&first, "scripts"), None);
        let link = second.source().join("scripts");
        assert_eq!(fs::read_link(link).unwrap(), Path::new("lib/a.c"));
        let mode = |checkout: &Checkout| {
            let file = checkout.source().join("Kbuild");
            fs::metadata(file).unwrap().mode() & 0o777
        };
        assert_eq!((mode(&first), mode(&second)), (0o644, 0o755));
    }

    #[test]
    fn a_new_revision_takes_over_what_the_nearest_one_has_built() {
        let bench = Bench::new();
        bench.tiny.write("lib/b.c", "b\n");
        bench.tiny.git(&["rm", "-q", "lib/a.c"]);
        bench.tiny.commit("second");
        let first = bench.check_out("HEAD~1");
        let build = first.builds().join("x");
        fs::create_dir_all(&build).unwrap();
        let slot = first.slot.clone();
        let text = |slot: &Path| format!("\0{}/source\0{0}/builds", slot.display());
        fs::write(build.join("b.o"), text(&slot)).unwrap();
        symlink(slot.join("source"), build.join("source")).unwrap();
        let old = SystemTime::now() - Duration::from_secs(1000);
        let object = File::options().write(true).open(build.join("b.o")).unwrap();
        object.set_modified(old).unwrap();
        // This build is unfinished, so it must not be copied.
        fs::create_dir_all(first.builds().join("y")).unwrap();
        fs::write(build.join(FINISHED), "").unwrap();

        let second = bench.check_out("HEAD");
        assert_ne!(second.slot, slot);
        let build = second.builds().join("x");
        assert_eq!(
            fs::read_to_string(build.join("b.o")).unwrap(),
            text(&second.slot)
        );
        assert_eq!(
            fs::metadata(build.join("b.o")).unwrap().modified().unwrap(),
            old
        );
        assert_eq!(
            fs::read_link(build.join("source")).unwrap(),
            second.source()
        );
        assert!(!second.builds().join("y").exists());
        // Identical files have the same inode; different files do not.
        let inode = |checkout: &Checkout, path: &str| {
            let file = fs::metadata(checkout.source().join(path));
            file.map(|m| m.ino()).ok()
        };
        let same = "arch/x86/crypto/aes.S";
        assert_eq!(inode(&first, same), inode(&second, same));
        assert_eq!(
            (inode(&second, "lib/a.c"), inode(&first, "lib/b.c")),
            (None, None)
        );
        assert_eq!(read(&second, "lib/b.c").unwrap(), "b\n");
    }

    #[test]
    fn slots_are_few_and_those_in_use_stay() {
        let bench = Bench::new();
        for i in 0..6 {
            bench.tiny.write("lib/a.c", &format!("{i}\n"));
            bench.tiny.commit("more");
        }
        let slots = || {
            fs::read_dir(bench.check_out("HEAD").slot.parent().unwrap())
                .unwrap()
                .count()
                - 1
        };
        drop(bench.check_out("HEAD"));
        let again = bench.check_out("HEAD");
        assert_eq!(slots(), 1);
        drop(again);
        for i in 1..6 {
            let checkout = bench.check_out(&format!("HEAD~{i}"));
            assert_eq!(read(&checkout, "lib/a.c").unwrap(), format!("{}\n", 5 - i));
        }
        assert_eq!(slots(), SLOTS);
        // Each of the six checkouts must have its own slot while all of them exist, although that
        // exceeds the limit.
        let all: Vec<Checkout> = (0..6)
            .map(|i| bench.check_out(&format!("HEAD~{i}")))
            .collect();
        for (i, checkout) in all.iter().enumerate() {
            assert_eq!(read(checkout, "lib/a.c").unwrap(), format!("{}\n", 5 - i));
        }
        assert_eq!(slots(), 6);
        // Commits that differ only in files that are not built share a slot.
        bench.tiny.write("drivers/net/big.c", "changed\n");
        bench.tiny.commit("elsewhere");
        assert_eq!(bench.check_out("HEAD").slot, all[0].slot);
        assert_eq!(bench.check_out("HEAD").commit.subject, "elsewhere");
    }

    #[test]
    fn a_checkout_that_was_cut_short_is_made_again_and_an_old_one_is_removed() {
        let bench = Bench::new();
        let slot = bench.check_out("HEAD").slot.clone();
        fs::remove_file(slot.join("manifest")).unwrap();
        fs::write(slot.join("source/lib/a.c"), "half").unwrap();
        assert_eq!(read(&bench.check_out("HEAD"), "lib/a.c").unwrap(), "a\n");

        let old = SystemTime::now() - KEPT - Duration::from_secs(100);
        open_lock(&slot).unwrap().set_modified(old).unwrap();
        bench.tiny.write("lib/a.c", "b\n");
        bench.tiny.commit("second");
        let second = bench.check_out("HEAD");
        let left: Vec<_> = read_slots(second.slot.parent().unwrap());
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].dir, second.slot);
    }

    #[test]
    fn programs_that_a_repository_names_are_not_started() {
        let bench = Bench::new();
        let tiny = &bench.tiny;
        let flag = bench.cache.path().join("started");
        let program = bench.cache.path().join("program");
        fs::write(
            &program,
            format!("#!/bin/sh\necho x >> {}\ncat\n", flag.display()),
        )
        .unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let program = program.to_str().unwrap();
        tiny.write(".gitattributes", "*.c filter=evil diff=evil\n");
        tiny.write("lib/a.c", "second\n");
        tiny.commit("second");
        for key in [
            "filter.evil.smudge",
            "filter.evil.clean",
            "diff.evil.command",
            "diff.evil.textconv",
            "core.fsmonitor",
        ] {
            tiny.git(&["config", key, program]);
        }
        let hooks = bench.cache.path().join("hooks");
        fs::create_dir(&hooks).unwrap();
        fs::copy(program, hooks.join("post-checkout")).unwrap();
        tiny.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
        tiny.write("lib/a.c", "edited\n");
        let first = bench.check_out("HEAD~1");
        let changed = first.repository.changed(&first.commit, None).unwrap();
        assert_eq!(changed, [".gitattributes", "lib/a.c"].map(PathBuf::from));
        assert!(!flag.exists());
        // As a control, check that git itself does run the programs.
        tiny.git(&["checkout", "-q", "-f", "HEAD~1"]);
        assert!(flag.exists());
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let paths = |paths: &[&str]| {
            let file = || crate::git::File {
                mode: Mode::Link,
                blob: String::new(),
            };
            let files = paths.iter().map(|p| (PathBuf::from(p), file()));
            check_paths(&files.collect())
        };
        assert!(paths(&["a", "b/c", "b/d", ".github/x"]).is_ok());
        for wrong in [
            &["../a"][..],
            &["/a"],
            &["a/../../b"],
            &[".git/config"],
            &["x/.GIT/hooks"],
            &["a", "a/b"],
        ] {
            assert!(paths(wrong).is_err(), "{wrong:?}");
        }
    }
}
