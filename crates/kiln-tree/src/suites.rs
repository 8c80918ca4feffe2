//! Finds the KUnit suites in a tree's sources, to leave out of a build those that a run does not
//! select. Half of the time of a cold build would be spent on them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{update, Cache};
use crate::pattern::matches;
use crate::Error;

/// Directories that contain only functions and their suites. A build can leave out such a directory
/// if none of its suites is selected. If other code needs a function from it, the search for
/// undefined symbols adds the directory again.
const SEPARATE: [&str; 2] = ["lib/crc", "lib/raid"];

/// The directories that contain suites.
const DIRS: [&str; 3] = ["lib/crypto", "lib/crc", "lib/raid"];

/// The parts of a tree that a build leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Directories of the library.
    pub dirs: Vec<&'static str>,
    /// Assignments for make that leave out suites.
    pub assignments: Vec<String>,
}

impl LeftOut {
    /// Returns whether `path`, a directory or an object, is in a directory that is left out.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.dirs.iter().any(|dir| Path::new(path).starts_with(dir))
    }
}

/// Objects that a Makefile builds if a configuration option is set.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    option: String,
    /// Source files.
    sources: Vec<PathBuf>,
}

/// Determines what a run of the suites that match `patterns` does not need. Parts that an earlier
/// build in this cache directory has built are not left out, so that alternating between suites
/// compiles nothing. Leaves out nothing if a pattern matches no suite, because the error message
/// then lists all suites.
pub(crate) fn leave_out(cache: &Cache, patterns: &[String]) -> Result<LeftOut, Error> {
    // A pattern is SUITE or SUITE.CASE. Without patterns, a run selects all suites.
    let suite = |pattern: &String| pattern.split('.').next().unwrap_or_default().to_owned();
    let mut wanted: Vec<String> = match patterns.is_empty() {
        true => vec!["*".to_owned()],
        false => patterns.iter().map(suite).collect(),
    };
    let path = cache.dir.join("suites");
    let earlier = fs::read_to_string(&path).unwrap_or_default();
    wanted.extend(earlier.lines().map(String::from));
    wanted.sort();
    wanted.dedup();
    let left_out = choose(&cache.source, &wanted);
    let text: String = wanted
        .iter()
        .map(|pattern| format!("{pattern}\n"))
        .collect();
    update(&path, &text)?;
    Ok(left_out)
}

fn choose(tree: &Path, wanted: &[String]) -> LeftOut {
    let mut rules = Vec::new();
    for dir in DIRS {
        find_rules(tree, Path::new(dir), &mut rules);
    }
    let mut left_out = LeftOut {
        dirs: SEPARATE.to_vec(),
        assignments: Vec::new(),
    };
    let mut matched = vec![false; wanted.len()];
    for rule in rules {
        let mut is_needed = false;
        for source in &rule.sources {
            let names = suites_in(&fs::read_to_string(tree.join(source)).unwrap_or_default());
            // A name that is not a string literal could match any pattern.
            is_needed |= names.is_empty();
            for (pattern, matched) in wanted.iter().zip(&mut matched) {
                let matches = names.iter().any(|name| matches(pattern, name));
                *matched |= matches;
                is_needed |= matches;
            }
        }
        match is_needed {
            true => {
                let holds = |dir: &&str| rule.sources.iter().any(|s| s.starts_with(dir));
                left_out.dirs.retain(|dir| !holds(dir));
            }
            false => left_out.assignments.push(format!("{}=", rule.option)),
        }
    }
    match matched.into_iter().all(|matched| matched) {
        true => left_out,
        false => LeftOut::default(),
    }
}

/// Finds the rules for KUnit suites in the Makefiles below a directory.
fn find_rules(tree: &Path, dir: &Path, rules: &mut Vec<Rule>) {
    let Ok(entries) = fs::read_dir(tree.join(dir)) else {
        return;
    };
    let mut names: Vec<_> = entries.flatten().map(|e| e.file_name()).collect();
    names.sort();
    for name in names {
        let path = dir.join(&name);
        if tree.join(&path).is_dir() {
            find_rules(tree, &path, rules);
        } else if name == "Makefile" {
            let text = fs::read_to_string(tree.join(&path)).unwrap_or_default();
            rules.extend(text.lines().filter_map(|line| parse_rule(line, dir)));
        }
    }
}

/// Parses a line such as `obj-$(CONFIG_CRYPTO_LIB_MD5_KUNIT_TEST) += md5_kunit.o`.
fn parse_rule(line: &str, dir: &Path) -> Option<Rule> {
    let (option, rest) = line.strip_prefix("obj-$(")?.split_once(')')?;
    let objects = rest.trim_start().strip_prefix("+=")?;
    let sources: Option<Vec<PathBuf>> = objects
        .split_whitespace()
        .map(|object| object.strip_suffix(".o"))
        .map(|stem| stem.filter(|s| s.ends_with("_kunit")))
        .map(|stem| Some(dir.join(format!("{}.c", stem?))))
        .collect();
    let sources = sources.filter(|sources| !sources.is_empty())?;
    Some(Rule {
        option: option.to_owned(),
        sources,
    })
}

/// Returns the names of the suites that a source file defines.
fn suites_in(text: &str) -> Vec<String> {
    let definitions = text.split("struct kunit_suite ").skip(1);
    let bodies = definitions.filter_map(|rest| {
        let (head, body) = rest.split_once('{')?;
        let is_definition = head.trim_end().ends_with('=') && !head.contains([';', '(']);
        is_definition.then(|| body.split("};").next().unwrap_or_default())
    });
    bodies
        .filter_map(|body| body.split_once(".name")?.1.trim_start().strip_prefix('='))
        .filter_map(|value| value.trim_start().strip_prefix('"')?.split_once('"'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let suite = |name: &str| {
            format!(
                "static int init(struct kunit_suite *suite)\n{{\n}}\n\
                 static struct kunit_suite test_suite = {{\n\t.name = {name},\n}};\n"
            )
        };
        put(
            "lib/crypto/tests/Makefile",
            "obj-$(CONFIG_A_KUNIT_TEST) += sha224_kunit.o sha256_kunit.o\n\
             obj-$(CONFIG_B_KUNIT_TEST) += md5_kunit.o\n\
             obj-$(CONFIG_C_KUNIT_TEST) += odd_kunit.o\n\
             obj-$(CONFIG_D) += helper.o\n",
        );
        put("lib/crypto/tests/sha224_kunit.c", &suite("\"sha224\""));
        put("lib/crypto/tests/sha256_kunit.c", &suite("\"sha256\""));
        put("lib/crypto/tests/md5_kunit.c", &suite("\"md5\""));
        put("lib/crypto/tests/odd_kunit.c", &suite("SUITE_NAME"));
        put(
            "lib/crc/tests/Makefile",
            "obj-$(CONFIG_CRC_KUNIT_TEST) += crc_kunit.o\n",
        );
        put("lib/crc/tests/crc_kunit.c", &suite("\"crc\""));
        tree
    }

    fn left_out(patterns: &[&str]) -> (Vec<&'static str>, Vec<String>) {
        let wanted: Vec<String> = patterns.iter().map(|p| p.to_string()).collect();
        let left_out = choose(tree().path(), &wanted);
        (left_out.dirs, left_out.assignments)
    }

    #[test]
    fn only_unselected_suites_are_left_out() {
        let (dirs, assignments) = left_out(&["sha256"]);
        assert_eq!(dirs, ["lib/crc", "lib/raid"]);
        // The option of sha224 and sha256 is the same, and the name of odd_kunit.c's suite is not
        // known.
        assert_eq!(
            assignments,
            ["CONFIG_B_KUNIT_TEST=", "CONFIG_CRC_KUNIT_TEST="]
        );
        let (dirs, assignments) = left_out(&["crc", "md*"]);
        assert_eq!(dirs, ["lib/raid"]);
        assert_eq!(assignments, ["CONFIG_A_KUNIT_TEST="]);
    }

    #[test]
    fn nothing_is_left_out_for_all_suites_or_an_unknown_one() {
        let (_, assignments) = left_out(&["*"]);
        assert!(assignments.is_empty());
        assert_eq!(left_out(&["sha256", "sha265"]), (vec![], vec![]));
    }

    #[test]
    fn a_suite_is_a_definition_and_no_parameter() {
        assert_eq!(
            suites_in("int init(struct kunit_suite *s) { .name = \"a\"; }"),
            [""; 0]
        );
        assert_eq!(
            suites_in("struct kunit_suite x = {\n .name=\"one\",\n};\nstruct kunit_suite y = { .name = \"two\" };"),
            ["one", "two"]
        );
    }

    #[test]
    fn an_object_in_a_directory_that_is_left_out_is_left_out() {
        let (dirs, assignments) = left_out(&["sha256"]);
        let left_out = LeftOut { dirs, assignments };
        assert!(left_out.contains("lib/crc/crc16") && left_out.contains("lib/crc"));
        assert!(!left_out.contains("lib/crc16") && !left_out.contains("lib/crypto"));
    }
}
