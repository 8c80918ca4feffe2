//! Determines which tests to rerun after a change to a tree. An object is affected if, according to
//! Kbuild's records (`.sha256.o.cmd`), it was built from a changed file, or if it uses an affected
//! object. The affected objects determine the KUnit suites and drivers to test.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind};

use crate::cache::Cache;
use crate::git::{Commit, Repository};
use crate::record::{read_records, Record};
use crate::row::Row;
use crate::symbols::read_tables;
use crate::{Error, Source};

/// Objects that every self-test uses: testmgr and the code that starts it. They are listed because
/// drivers do not refer to their symbols, so the symbol tables do not show that tests use them.
const TESTERS: [&str; 2] = ["crypto/testmgr.o", "crypto/algboss.o"];

/// Objects that contain names of drivers without implementing these drivers.
const NAMERS: [&str; 3] = [
    "crypto/testmgr.o",
    "crypto/tcrypt.o",
    "crypto/kiln_tcrypt.o",
];

/// Directories whose programs and files determine how all objects are built or configured.
const BUILDERS: [&str; 4] = ["scripts", "tools", "arch/x86/tools", "arch/x86/configs"];

/// Directories whose Kconfig files affect the stack's configuration.
const CONFIGURED: [&str; 8] = [
    "arch/Kconfig",
    "arch/x86",
    "crypto",
    "init",
    "kernel",
    "lib",
    "mm",
    "security",
];

/// Directories whose Makefiles set flags for all objects.
const FLAGS: [&str; 3] = ["", "arch", "arch/x86"];

/// The files in a tree that have changed since a commit.
#[derive(Debug, Clone)]
pub struct Change {
    since: Commit,
    files: Vec<PathBuf>,
}

impl Change {
    /// Finds the changes to a tree since a commit, including uncommitted changes.
    ///
    /// # Errors
    /// Fails if the tree is not in a git repository, or git cannot resolve the revision.
    pub fn find(source: &Source, revision: &OsStr) -> Result<Change, Error> {
        let not = |why: String| Error::Git {
            what: format!("--since {}", revision.to_string_lossy()),
            why,
        };
        let (repository, to) = match &source.checkout {
            Some(checkout) => (checkout.repository.clone(), Some(&checkout.commit)),
            None => {
                let found = Repository::find(&source.dir)?;
                let found = found.ok_or_else(|| {
                    not(format!(
                        "'{}' is not in a git repository: name a kernel's git clone, or leave --since out",
                        source.dir.display()
                    ))
                })?;
                (found, None)
            }
        };
        let since = repository.commit(revision)?;
        let since = since.ok_or_else(|| not("git knows no such revision".to_owned()))?;
        let files = repository.changed(&since, to)?;
        Ok(Change { since, files })
    }
}

/// The suites and drivers that a change affects, which must be tested again.
#[derive(Debug)]
pub struct Touched {
    /// A sentence that tells the user which files have changed and what they affect.
    pub note: String,
    /// Whether the change affects all suites and drivers.
    everything: bool,
    /// All KUnit suites in the objects, by name. The value is true if an affected object defines
    /// the suite.
    suites: HashMap<String, bool>,
    /// All words in the objects' data, including the names of drivers and templates. The value is
    /// true if an affected object contains the word, or if a changed file affects `TESTERS`.
    words: HashMap<String, bool>,
}

impl Touched {
    /// Determines which parts of a tree a change affects. The tree must have been built.
    ///
    /// # Errors
    /// Fails if the objects cannot be read.
    pub(crate) fn find(cache: &Cache, rows: &[Row], change: &Change) -> Result<Touched, Error> {
        let objects = &cache.objects;
        let linked: BTreeSet<&str> = (rows.iter())
            .filter(|row| row.kind == "object" && row.status == "built")
            .map(|row| row.name.as_str())
            .collect();
        let changed: BTreeSet<&Path> = change.files.iter().map(PathBuf::as_path).collect();
        let records = read_records(objects, &cache.source);
        let direct = touched_objects(&changed, &records, &linked);
        let paths: Vec<&str> = linked.iter().copied().collect();
        let affected = users(&direct.objects, objects, &paths)?;
        let mut touched = Touched {
            note: String::new(),
            everything: direct.everything.is_some(),
            suites: HashMap::new(),
            words: HashMap::new(),
        };
        let testers = TESTERS.iter().any(|t| direct.objects.contains(*t));
        for path in &paths {
            let is = affected.contains(*path);
            let bytes =
                fs::read(objects.join(path)).map_err(|e| Error::read(Path::new(path), e))?;
            for suite in read_suites(&bytes) {
                *touched.suites.entry(suite).or_default() |= is;
            }
            if !NAMERS.contains(path) {
                for word in read_words(&bytes) {
                    *touched.words.entry(word).or_default() |= is || testers;
                }
            }
        }
        // If all objects are affected, do not list them, because the list would not help the
        // reader.
        let widest = || {
            let all = linked.iter().filter(|o| !o.starts_with("lib/kiln_"));
            all.into_iter().all(|o| affected.contains(*o))
        };
        touched.everything |= !direct.objects.is_empty() && widest();
        touched.note = describe(change, &direct, &touched);
        Ok(touched)
    }

    /// Returns whether a KUnit suite must be run again.
    pub fn has_suite(&self, name: &str) -> bool {
        self.everything || self.suites.get(name).copied().unwrap_or(true)
    }

    /// Returns whether a driver must be tested again. Returns true if no object contains the
    /// driver's name, because any object may then implement it.
    pub fn has_driver(&self, name: &str) -> bool {
        let of = |word: &str| self.words.get(word).copied().unwrap_or(true);
        self.everything || words(name).any(of)
    }

    /// Returns whether any driver may need to be tested again.
    pub fn has_drivers(&self) -> bool {
        self.everything || self.words.values().any(|is| *is)
    }
}

/// Splits a driver's name into its parts, such as `xts`, `ecb` and `aes-generic` for
/// `xts(ecb(aes-generic))`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['(', ')', ',']).filter(|w| !w.is_empty())
}

fn describe(change: &Change, direct: &Direct, touched: &Touched) -> String {
    let files = |n: usize| match n {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    let since = format!(
        "since {} (\"{}\"): {} changed",
        change.since.short(),
        change.since.subject,
        files(change.files.len())
    );
    if let Some(why) = &direct.everything {
        return format!("{since}; {why} can change every object: everything is tested");
    }
    let mut named: Vec<String> = direct
        .files
        .iter()
        .map(|f| f.display().to_string())
        .collect();
    if named.len() > 4 {
        let rest = named.len() - 3;
        named.truncate(3);
        named.push(format!("{rest} more"));
    }
    let named = named.join(", ");
    match (direct.files.len(), touched.everything) {
        (0, _) => format!("{since}, none of which is part of an object that is built"),
        (_, true) => format!("{since}; every object uses {named}: everything is tested"),
        (n, false) => format!("{since}, {n} of which objects contain: {named}"),
    }
}

/// The objects that are directly affected by the changed files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Direct {
    objects: BTreeSet<String>,
    /// The changed files that affect at least one object.
    files: BTreeSet<PathBuf>,
    /// Path of a changed file that affects every object; `None` if no such file has changed.
    everything: Option<String>,
}

fn touched_objects(
    changed: &BTreeSet<&Path>,
    records: &[Record],
    linked: &BTreeSet<&str>,
) -> Direct {
    let mut direct = Direct::default();
    let under = |dir: &Path| -> Vec<&str> {
        let all = linked.iter().copied();
        all.filter(|o| Path::new(o).starts_with(dir)).collect()
    };
    // Generated files, each with the changed file from which it is generated. These files count as
    // changed too.
    let mut made: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in changed {
        let parent = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let builds = BUILDERS.iter().any(|dir| path.starts_with(dir));
        let configures = name.starts_with("Kconfig")
            && (parent == Path::new("") || CONFIGURED.iter().any(|dir| path.starts_with(dir)));
        let makefile = name.starts_with("Makefile") || name == "Kbuild";
        let flags = makefile && FLAGS.iter().any(|dir| parent == Path::new(dir));
        let known = || records.iter().any(|r| r.sources.contains(*path));
        if configures || flags || (builds && (makefile || name.ends_with(".sh") || known())) {
            direct.everything.get_or_insert(path.display().to_string());
            direct.files.insert(path.to_path_buf());
        } else if makefile {
            let touched = under(parent);
            direct
                .files
                .extend((!touched.is_empty()).then(|| path.to_path_buf()));
            direct
                .objects
                .extend(touched.into_iter().map(|o| o.to_string()));
        }
    }
    for record in records {
        let mut hits = changed
            .iter()
            .filter(|path| record.sources.contains(**path));
        let Some(path) = hits.next() else {
            continue;
        };
        let owner = Path::new(&record.owner);
        let kind = owner.extension().and_then(OsStr::to_str);
        match kind {
            Some("o") => {
                // Skip objects that are not linked, such as tcrypt.o, of which only a modified copy
                // is linked.
                if linked.contains(record.owner.as_str()) {
                    direct.objects.insert(record.owner.clone());
                    direct.files.insert(path.to_path_buf());
                    direct.files.extend(hits.map(|p| p.to_path_buf()));
                }
            }
            // The built file contains structure offsets, from which Kbuild generates a header.
            Some("s") => {
                let stem = owner.file_stem().unwrap_or_default().to_string_lossy();
                let header = format!("include/generated/{stem}.h");
                made.insert(header, path.to_path_buf());
            }
            Some(_) => {
                made.insert(record.owner.clone(), path.to_path_buf());
            }
            // The built file is a program that generates sources.
            None => {
                let dir = owner.parent().unwrap_or(Path::new(""));
                for object in under(dir) {
                    direct.objects.insert(object.to_string());
                    direct.files.insert(path.to_path_buf());
                }
            }
        }
    }
    // Kbuild does not record which script generates an assembly file, but the script and the
    // assembly file have the same stem.
    let stem = |path: &Path| path.with_extension("");
    let scripts: BTreeMap<PathBuf, &&Path> = changed.iter().map(|p| (stem(p), p)).collect();
    for record in records.iter().filter(|r| linked.contains(r.owner.as_str())) {
        for file in &record.made {
            let own = Path::new(file).extension() == Some(OsStr::new("o"));
            let script = scripts.get(&stem(Path::new(file))).filter(|_| !own);
            if let Some(path) = made.get(file).or(script.map(|p| p.to_path_buf()).as_ref()) {
                direct.objects.insert(record.owner.clone());
                direct.files.insert(path.clone());
            }
        }
    }
    direct
}

/// Returns these objects and all objects that use any of them, directly or indirectly.
fn users(
    touched: &BTreeSet<String>,
    dir: &Path,
    linked: &[&str],
) -> Result<BTreeSet<String>, Error> {
    if touched.is_empty() {
        return Ok(BTreeSet::new());
    }
    let tables = read_tables(dir, linked)?;
    let mut needs: HashMap<&str, Vec<&str>> = HashMap::new();
    for (path, table) in &tables {
        for symbol in &table.needed {
            needs.entry(symbol).or_default().push(path);
        }
    }
    let mut found = touched.clone();
    let mut open: Vec<String> = touched.iter().cloned().collect();
    while let Some(path) = open.pop() {
        let defined = tables.get(&path).map(|t| &t.defined);
        for symbol in defined.into_iter().flatten() {
            for user in needs.get(symbol.as_str()).into_iter().flatten() {
                if found.insert(user.to_string()) {
                    open.push(user.to_string());
                }
            }
        }
    }
    Ok(found)
}

/// Returns the names of the KUnit suites that an object defines. A suite structure begins with the
/// suite's name.
fn read_suites(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(bytes) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let lists = [".kunit_test_suites", ".kunit_init_test_suites"];
    let lists = lists.iter().filter_map(|name| file.section_by_name(name));
    for (_, relocation) in lists.flat_map(|list| list.relocations()) {
        let RelocationTarget::Symbol(index) = relocation.target() else {
            continue;
        };
        let Ok(symbol) = file.symbol_by_index(index) else {
            continue;
        };
        let section = symbol.section_index().map(|i| file.section_by_index(i));
        let Some(Ok(data)) = section.map(|s| s.and_then(|s| s.data())) else {
            continue;
        };
        let at = symbol.address().wrapping_add_signed(relocation.addend());
        let rest = usize::try_from(at).ok().and_then(|at| data.get(at..));
        let name = rest.and_then(|r| r.split(|b| *b == 0).next());
        names.extend(name.map(|n| String::from_utf8_lossy(n).into_owned()));
    }
    names
}

/// Returns the strings in an object's data sections.
fn read_words(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(bytes) else {
        return Vec::new();
    };
    let kinds = [
        SectionKind::Data,
        SectionKind::ReadOnlyData,
        SectionKind::ReadOnlyDataWithRel,
        SectionKind::ReadOnlyString,
    ];
    let sections = file.sections().filter(|s| kinds.contains(&s.kind()));
    let mut words = Vec::new();
    for data in sections.filter_map(|s| s.data().ok()) {
        let pieces = data.split(|b| *b == 0).filter(|p| p.len() > 1);
        let texts = pieces.filter(|p| p.iter().all(u8::is_ascii_graphic));
        words.extend(texts.filter_map(|p| String::from_utf8(p.to_vec()).ok()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::parse_record;

    fn records() -> Vec<Record> {
        let read = |owner: &str, text: &str| parse_record(owner, text, Path::new("/src"));
        vec![
            read(
                "lib/crypto/sha256.o",
                "savedcmd_lib/crypto/sha256.o := cc -Wp,-MMD,lib/crypto/.sha256.o.d -I/src/include -c\n\
                 source_lib/crypto/sha256.o := /src/lib/crypto/sha256.c\n\
                 deps_lib/crypto/sha256.o := \\\n    $(wildcard include/config/X) \\\n  \
                 /src/include/linux/types.h \\\n  /src/lib/crypto/x86/../x86/sha256.h \\\n  include/generated/bounds.h \\\n",
            ),
            read(
                "lib/crypto/x86/poly.o",
                "source_lib/crypto/x86/poly.o := lib/crypto/x86/poly.S\ndeps_ := \\\n /src/include/linux/types.h \\\n",
            ),
            read("lib/raid/int1.o", "source_ := lib/raid/int1.c\n"),
            read(
                "lib/raid/int1.c",
                "savedcmd_lib/raid/int1.c := awk -vN=1 -f/x < /src/lib/raid/int.uc > lib/raid/int1.c\n",
            ),
            read("lib/crc/gen", "source_ := /src/lib/crc/gen.c\n"),
            read("lib/crc/crc32.o", "source_ := /src/lib/crc/crc32.c\n"),
            read("kernel/bounds.s", "source_ := /src/kernel/bounds.c\n"),
            read("scripts/mod/modpost", "source_ := /src/scripts/mod/modpost.c\n"),
            read("lib/unused.o", "source_ := /src/lib/unused.c\n"),
        ]
    }

    fn touch(files: &[&str]) -> Direct {
        let linked = [
            "lib/crypto/sha256.o",
            "lib/crypto/x86/poly.o",
            "lib/raid/int1.o",
            "lib/crc/crc32.o",
        ];
        let changed = files.iter().map(Path::new).collect();
        touched_objects(&changed, &records(), &linked.into())
    }

    #[test]
    fn a_file_touches_the_objects_that_contain_it() {
        let sha256 = ["lib/crypto/sha256.o"].as_slice();
        let cases = [
            ("lib/crypto/sha256.c", sha256),
            ("lib/crypto/x86/sha256.h", sha256),
            (
                "include/linux/types.h",
                &["lib/crypto/sha256.o", "lib/crypto/x86/poly.o"],
            ),
            ("kernel/bounds.c", sha256),
            ("lib/crypto/x86/poly.pl", &["lib/crypto/x86/poly.o"]),
            ("lib/raid/int.uc", &["lib/raid/int1.o"]),
            ("lib/crc/gen.c", &["lib/crc/crc32.o"]),
            (
                "lib/crypto/Makefile",
                &["lib/crypto/sha256.o", "lib/crypto/x86/poly.o"],
            ),
            ("Documentation/x.rst", &[]),
            ("lib/unused.c", &[]),
            ("drivers/net/Kconfig", &[]),
            ("tools/testing/x.c", &[]),
            ("lib/crypto/sha256.rst", &[]),
        ];
        for (file, objects) in cases {
            let direct = touch(&[file]);
            let found: Vec<&str> = direct.objects.iter().map(String::as_str).collect();
            assert_eq!(found, objects, "{file}");
            assert_eq!(direct.everything, None, "{file}");
            assert_eq!(
                direct.files.len(),
                usize::from(!objects.is_empty()),
                "{file}"
            );
        }
    }

    #[test]
    fn what_configures_or_builds_touches_everything() {
        for file in [
            "Makefile",
            "arch/x86/Makefile",
            "crypto/Kconfig",
            "scripts/mod/modpost.c",
            "scripts/Makefile.build",
            "arch/x86/configs/Makefile",
        ] {
            assert_eq!(touch(&[file]).everything.as_deref(), Some(file));
        }
    }

    #[test]
    fn names_of_drivers_are_made_of_words() {
        let words: Vec<&str> = words("authenc(hmac(sha1-lib),cbc(aes-generic))").collect();
        assert_eq!(words, ["authenc", "hmac", "sha1-lib", "cbc", "aes-generic"]);
        let touched = Touched {
            note: String::new(),
            everything: false,
            suites: [("a".to_owned(), false), ("b".to_owned(), true)].into(),
            words: [("xts", false), ("aes-ni", true), ("ecb", false)]
                .map(|(w, is)| (w.to_owned(), is))
                .into(),
        };
        assert!(touched.has_driver("xts(ecb(aes-ni))"));
        assert!(!touched.has_driver("xts(ecb)"));
        // Unknown names are treated as affected.
        assert!(touched.has_driver("made_up"));
        assert!(touched.has_suite("b") && touched.has_suite("c") && !touched.has_suite("a"));
    }
}
