//! Starts the first build of a tree from a copy of a similar tree's build, so that only what
//! differs has to be compiled.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::cache::{update, Cache, LOCK};
use crate::copy::{copy_build, finished};
use crate::place::{root, try_lock, Locking};
use crate::record::{read_records, Record};
use crate::replay::find_rules;
use crate::{Error, Plan};

/// Largest fraction of the sources that may differ between similar trees. If more sources differ, a
/// copy saves little, because most objects include some header that differs.
const MOST: f64 = 0.05;

/// The inputs of the build in a cache directory. They are stored in the file `origin`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    source: PathBuf,
    compiler: String,
    config: u64,
}

impl Origin {
    fn of(plan: &Plan, cache: &Cache) -> Origin {
        Origin {
            source: cache.source.clone(),
            compiler: plan.compiler_name(),
            config: plan.config.key(),
        }
    }

    fn read(dir: &Path) -> Option<Origin> {
        serde_json::from_slice(&fs::read(dir.join(ORIGIN)).ok()?).ok()
    }
}

const ORIGIN: &str = "origin";

/// A build of a tree that is similar enough for the build to be copied.
struct Candidate {
    dir: PathBuf,
    origin: Origin,
    finished: SystemTime,
    /// Products that `make` must rebuild in the copy, because their sources differ.
    stale: BTreeSet<String>,
    /// Number of sources that differ.
    differences: usize,
}

/// If nothing has been built in this cache directory, fills it with a copy of the most similar
/// tree's build. Does nothing if no tree is similar enough.
///
/// # Errors
/// Fails if the cache cannot be written, or if Ctrl-C was pressed.
pub(crate) fn start(plan: &Plan, cache: &Cache) -> Result<(), Error> {
    // Do nothing if earlier runs have left files in the build directory.
    if !is_empty(&cache.objects) {
        return Ok(());
    }
    let own = Origin::of(plan, cache);
    let text = serde_json::to_string(&own).expect("strings and numbers can be written as JSON");
    update(&cache.dir.join(ORIGIN), &text)?;
    let rules = find_rules(&cache.source);
    let mut candidates = Vec::new();
    for dir in list_builds() {
        if dir != cache.dir && shares_rules(&dir, &own, &rules) {
            wait_for_build(&dir, plan)?;
            candidates.extend(compare(dir, &own));
        }
    }
    let nearest = candidates.iter().min_by_key(|c| c.differences);
    let Some(nearest) = nearest else {
        return Ok(());
    };
    (plan.progress)(0.0, "copying the build of a similar tree");
    let Ok(copied) = copy(nearest, &own, cache) else {
        // Ignore errors: the original may just have been removed, and if the disk is full, the
        // build reports this.
        return Ok(());
    };
    // Do not use the copy if the original was changed in the meantime.
    if finished(&nearest.dir) == Some(nearest.finished) {
        // The rename succeeds although the target exists, because the target is empty.
        fs::rename(&copied, &cache.objects).map_err(|e| Error::cache(&copied, e))?;
    }
    Ok(())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Files next to the build directory. They hold the hash of the configuration and the list of
/// library objects.
const FILES: [&str; 2] = ["configured", "library"];

/// Lists the cache directories of all trees, including those of git revisions.
fn list_builds() -> Vec<PathBuf> {
    let Ok(root) = root() else { return Vec::new() };
    let list = |dir: PathBuf| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|e| e.path()).collect::<Vec<_>>()
    };
    let repositories = list(root.join("kiln/revisions")).into_iter();
    let slots = repositories.flat_map(list);
    let builds = slots.flat_map(|slot| list(slot.join("builds")));
    list(root.join("kiln/tree"))
        .into_iter()
        .chain(builds)
        .collect()
}

/// Returns whether a build has the same compiler, the same configuration, and the same Makefiles,
/// Kconfig files and scripts as the new tree.
fn shares_rules(dir: &Path, own: &Origin, rules: &BTreeSet<PathBuf>) -> bool {
    let Some(origin) = Origin::read(dir) else {
        return false;
    };
    (&origin.compiler, origin.config) == (&own.compiler, own.config)
        // In the copy, the old tree's path is replaced as text. If the old cache directory were
        // inside the old tree, its path would be changed as well.
        && !dir.starts_with(&origin.source)
        && find_rules(&origin.source) == *rules
        && rules.iter().all(|path| is_same(path, &origin, own))
}

/// Waits while another process builds in this directory. This cannot deadlock, because a process
/// waits for others only before it configures its own build, and others wait for it only after it
/// has done so.
fn wait_for_build(dir: &Path, plan: &Plan) -> Result<(), Error> {
    let path = dir.join(LOCK);
    let is_busy = || {
        let free = File::open(&path).and_then(|lock| try_lock(&lock, Locking::Shared));
        dir.join("build/.config").exists() && finished(dir).is_none() && matches!(free, Ok(false))
    };
    while is_busy() {
        if plan.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        (plan.progress)(0.0, "another kiln builds a similar tree: waiting for it");
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Compares the sources of a build with those of a new tree. Returns `None` if they are not similar
/// enough.
fn compare(dir: PathBuf, own: &Origin) -> Option<Candidate> {
    let finished = finished(&dir)?;
    let origin = Origin::read(&dir)?;
    let records = read_records(&dir.join("build"), &origin.source);
    let sources: BTreeSet<&PathBuf> = records.iter().flat_map(|r| &r.sources).collect();
    let mut different = sources.clone();
    different.retain(|path| !is_same(path, &origin, own));
    let similar = different.len() as f64 <= MOST * sources.len() as f64;
    let is_stale = |record: &&Record| record.sources.iter().any(|p| different.contains(p));
    let stale = records.iter().filter(is_stale);
    (similar && !sources.is_empty()).then(|| Candidate {
        stale: stale.map(|record| record.owner.clone()).collect(),
        differences: different.len(),
        dir,
        origin,
        finished,
    })
}

/// Returns whether a path has the same content in both trees. This is the case if it resolves to
/// the same file or to files with identical contents, is a directory in both trees, or exists in
/// neither.
fn is_same(path: &Path, one: &Origin, other: &Origin) -> bool {
    let [one, other] = [one, other].map(|origin| fs::canonicalize(origin.source.join(path)));
    let (Ok(one), Ok(other)) = (&one, &other) else {
        return one.is_err() && other.is_err();
    };
    if one == other || one.is_dir() && other.is_dir() {
        return true;
    }
    let bytes = |path: &Path| fs::metadata(path).map(|m| m.len()).ok();
    bytes(one) == bytes(other) && fs::read(one).ok() == fs::read(other).ok()
}

/// Copies a build to a directory next to the build directory, and returns the path of the copy.
/// Because this process may be killed at any time, the copy becomes the build directory only when
/// it is complete.
fn copy(from: &Candidate, own: &Origin, cache: &Cache) -> Result<PathBuf, Error> {
    let pairs = [
        (from.dir.as_os_str(), cache.dir.as_os_str()),
        (from.origin.source.as_os_str(), own.source.as_os_str()),
    ];
    let names = pairs.map(|(old, new)| (old.as_bytes(), new.as_bytes()));
    let copied = cache.dir.join("copied");
    if copied.exists() {
        fs::remove_dir_all(&copied).map_err(|e| Error::cache(&copied, e))?;
    }
    copy_build(&from.dir.join("build"), &copied, &names)?;
    for name in FILES {
        let (from, to) = (from.dir.join(name), cache.dir.join(name));
        if from.exists() {
            fs::copy(&from, &to).map_err(|e| Error::cache(&to, e))?;
        }
    }
    for owner in &from.stale {
        let path = copied.join(owner);
        if path.exists() {
            fs::remove_file(&path).map_err(|e| Error::cache(&path, e))?;
        }
    }
    // Unchanged files in the new tree may be newer than the copied build. Set the modification time
    // of all products to the current time. Make then considers every product newer than the tree's
    // files, and all products equally old.
    set_times(&copied, SystemTime::now())?;
    Ok(copied)
}

fn set_times(dir: &Path, time: SystemTime) -> Result<(), Error> {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type().map_err(|e| Error::cache(&path, e))? {
            kind if kind.is_dir() => set_times(&path, time)?,
            kind if kind.is_file() => File::open(&path)
                .and_then(|file| file.set_modified(time))
                .map_err(|e| Error::cache(&path, e))?,
            _ => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Source;

    /// A tree with two sources, and the cache directory for its builds.
    struct Tree {
        origin: Origin,
        cache: Cache,
    }

    impl Tree {
        fn new(root: &Path, name: &str) -> Tree {
            let dir = root.join(name);
            fs::create_dir_all(dir.join("arch/x86/crypto")).unwrap();
            fs::create_dir_all(dir.join("lib")).unwrap();
            fs::write(dir.join("Makefile"), "VERSION = 7\nPATCHLEVEL = 3\n").unwrap();
            for file in ["Kbuild", "lib/Kconfig"] {
                fs::write(dir.join(file), "").unwrap();
            }
            for n in 0..40 {
                fs::write(dir.join(format!("lib/{n}.c")), "").unwrap();
            }
            let source = Source::open(&dir).unwrap();
            let never = AtomicBool::new(false);
            let place = root.join("cache").join(name);
            let cache = Cache::open(place, &source, &never, &|_, _| ()).unwrap();
            let origin = Origin {
                source: cache.source.clone(),
                compiler: "gcc".to_owned(),
                config: 1,
            };
            Tree { origin, cache }
        }

        /// Writes the files that a build leaves in the cache directory.
        fn build(&self) {
            let lib = self.cache.objects.join("lib");
            fs::create_dir(&lib).unwrap();
            for n in 0..40 {
                let source = self.origin.source.join(format!("lib/{n}.c"));
                let record = format!("savedcmd_lib/{n}.o := gcc {}\n", source.display());
                fs::write(lib.join(format!(".{n}.o.cmd")), record).unwrap();
                fs::write(lib.join(format!("{n}.o")), "\0").unwrap();
            }
            fs::write(self.cache.dir.join("library"), "lib/0\n").unwrap();
            let origin = serde_json::to_string(&self.origin).unwrap();
            fs::write(self.cache.dir.join(ORIGIN), origin).unwrap();
            fs::write(self.cache.finished(), "").unwrap();
        }

        fn shares_rules_with(&self, other: &Tree) -> bool {
            let rules = find_rules(&self.cache.source);
            shares_rules(&other.cache.dir, &self.origin, &rules)
        }
    }

    #[test]
    fn a_copy_lacks_the_objects_whose_sources_differ_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "a-newer-one"].map(|name| Tree::new(root.path(), name));
        old.build();
        fs::write(new.origin.source.join("lib/7.c"), "changed").unwrap();
        assert!(new.shares_rules_with(&old));
        let candidate = compare(old.cache.dir.clone(), &new.origin).unwrap();
        assert_eq!(candidate.differences, 1);
        // A process that was killed may have left an incomplete copy.
        let left = new.cache.dir.join("copied/lib/x.o");
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, "").unwrap();
        let copied = copy(&candidate, &new.origin, &new.cache).unwrap();
        assert!(is_empty(&new.cache.objects) && !left.exists());
        let lib = copied.join("lib");
        for n in 0..40 {
            assert_eq!(lib.join(format!("{n}.o")).exists(), n != 7);
        }
        let record = fs::read_to_string(lib.join(".3.o.cmd")).unwrap();
        let source = new.origin.source.join("lib/3.c");
        assert!(
            record.ends_with(&format!(" {}\n", source.display())),
            "{record}"
        );
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&lib.join("3.o")), time(&lib.join(".3.o.cmd")));
        assert!(time(&lib.join("3.o")) > time(&source));
        assert!(new.cache.dir.join("library").exists());
    }

    #[test]
    fn a_build_is_not_copied_if_other_things_differ() {
        let root = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| Tree::new(root.path(), name));
        old.build();
        // Control: nothing differs yet.
        assert!(new.shares_rules_with(&old));
        assert!(compare(old.cache.dir.clone(), &new.origin).is_some());
        // Change three of the 40 sources, which is more than 5%.
        for n in 0..3 {
            fs::write(new.origin.source.join(format!("lib/{n}.c")), "changed").unwrap();
        }
        assert!(compare(old.cache.dir.clone(), &new.origin).is_none());
        for (file, text) in [
            ("lib/Kconfig", "config X"),
            ("lib/Makefile", "obj-y := 1.o"),
        ] {
            let path = new.origin.source.join(file);
            let before = fs::read(&path).ok();
            fs::write(&path, text).unwrap();
            assert!(!new.shares_rules_with(&old), "{file}");
            match before {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
        }
        let mut other = Tree::new(root.path(), "other");
        other.origin.config = 2;
        assert!(!other.shares_rules_with(&old));
        // Without this file, the build counts as unfinished.
        fs::remove_file(old.cache.finished()).unwrap();
        assert!(compare(old.cache.dir.clone(), &new.origin).is_none());
    }
}
