//! Reads lists of known findings. Every entry in a list gives a reason. The built-in list is
//! `tree/oracles/known`; users can supply additional files in the same format.

use crate::pattern::matches;
use crate::Version;

const BUILT_IN: &str = include_str!("../../../tree/oracles/known");
const BUILT_IN_NAME: &str = "tree/oracles/known";

/// An entry in a list. Fields that are not set match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    oracle: String,
    rule: Option<String>,
    /// Pattern for the name of the function that violates the rule.
    place: Option<String>,
    driver: Option<String>,
    /// Pattern for the description of the case in which the rule is violated.
    case: Option<String>,
    /// First and last affected series. `None` leaves that end of the range open.
    versions: (Option<Series>, Option<Series>),
    reason: String,
    /// Whether the finding occurs only by chance. Such an entry is not reported as obsolete if a
    /// run does not reproduce the finding.
    by_chance: bool,
    /// Location of the entry: file and line.
    from: String,
}

/// A Linux version series: `VERSION` and `PATCHLEVEL`.
type Series = (u32, u32);

/// The entries that apply to one version of Linux.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known(Vec<Entry>);

impl Known {
    /// Returns those entries of the built-in list that apply to this version.
    pub fn built_in(version: &Version) -> Known {
        let mut known = Known::default();
        known
            .read(BUILT_IN, BUILT_IN_NAME, version)
            .expect("a test parses the built-in list");
        known
    }

    /// Adds those entries of a file that apply to this version.
    ///
    /// # Errors
    /// Fails if a line is malformed; the message contains the line number.
    pub fn read(&mut self, text: &str, name: &str, version: &Version) -> Result<(), String> {
        let version = (version.version, version.patchlevel);
        let entries = parse(text, name)?;
        let concerns = |e: &Entry| {
            let (first, last) = e.versions;
            first.is_none_or(|first| first <= version) && last.is_none_or(|last| version <= last)
        };
        self.0.extend(entries.into_iter().filter(concerns));
        Ok(())
    }

    /// Returns the index of the first entry that matches the finding.
    pub(crate) fn find(
        &self,
        oracle: &str,
        (rule, case): (&str, &str),
        driver: &str,
        place: &str,
    ) -> Option<usize> {
        let function = place.split('+').next().unwrap_or(place);
        let fits = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|p| matches(p, text))
        };
        self.0.iter().position(|e| {
            e.oracle == oracle
                && fits(&e.rule, rule)
                && fits(&e.driver, driver)
                && fits(&e.case, case)
                && fits(&e.place, function)
        })
    }

    /// Finds the first entry whose oracle is not in `oracles`. Returns the entry's location and the
    /// name of that oracle.
    pub fn of_no_oracle(&self, oracles: &[&str]) -> Option<(&str, &str)> {
        let entry = (self.0.iter()).find(|e| !oracles.contains(&e.oracle.as_str()))?;
        Some((&entry.from, &entry.oracle))
    }

    pub(crate) fn reason(&self, number: usize) -> &str {
        &self.0[number].reason
    }

    /// Describes the entries that belong to these oracles and are not in `seen`, a list of entry
    /// indices. Each description includes the entry's location. Entries for findings that occur
    /// only by chance are omitted.
    pub(crate) fn unseen(&self, oracles: &[&str], seen: &[usize]) -> Vec<String> {
        let unseen = self.0.iter().enumerate().filter(|(number, entry)| {
            oracles.contains(&entry.oracle.as_str()) && !seen.contains(number) && !entry.by_chance
        });
        unseen
            .map(|(_, e)| {
                let names = [&e.rule, &e.place, &e.driver];
                let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
                format!("{}: {} {}", e.from, e.oracle, names.join(" "))
            })
            .collect()
    }
}

/// Parses paragraphs of `key: value` lines. A line that begins with a space continues the previous
/// line.
fn parse(text: &str, name: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    let mut fields: Vec<(usize, String, String)> = Vec::new();
    for (number, line) in text.lines().chain([""]).enumerate() {
        let number = number + 1;
        let wrong = |why: &str| format!("{name}:{number}: {why}");
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            if let Some((first, ..)) = fields.first() {
                let from = format!("{name}:{first}");
                entries.push(entry(&fields, &from).map_err(|why| format!("{from}: {why}"))?);
                fields.clear();
            }
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let (_, _, value) = fields
                .last_mut()
                .ok_or_else(|| wrong("continues no line"))?;
            value.push(' ');
            value.push_str(line.trim());
            continue;
        }
        let (key, value) = line.split_once(':').ok_or_else(|| {
            wrong("expected a line such as 'driver: xts-aes-vaes-avx2' (docs/TREES.md)")
        })?;
        fields.push((number, key.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(entries)
}

fn entry(fields: &[(usize, String, String)], from: &str) -> Result<Entry, String> {
    let mut entry = Entry {
        from: from.to_owned(),
        ..Entry::default()
    };
    for (_, key, value) in fields {
        let value = value.clone();
        match key.as_str() {
            "oracle" => entry.oracle = value,
            "rule" => entry.rule = Some(value),
            "where" => entry.place = Some(value),
            "driver" => entry.driver = Some(value),
            "case" => entry.case = Some(value),
            "versions" => entry.versions = versions(&value)?,
            "reason" => entry.reason = value,
            "seen" if value == "by chance" => entry.by_chance = true,
            "seen" => return Err(format!("'{value}' is not 'by chance'")),
            _ => {
                return Err(format!(
                "'{key}' is not one of oracle, rule, where, driver, case, versions, seen, reason"
            ))
            }
        }
    }
    if entry.oracle.is_empty() {
        return Err("names no oracle".into());
    }
    if entry.place.is_none() && entry.driver.is_none() {
        return Err("names neither a function (where) nor a driver".into());
    }
    match entry.reason.is_empty() {
        true => Err("has no reason".into()),
        false => Ok(entry),
    }
}

/// Parses a version range such as `6.12`, `6.1-6.12`, `6.12-` or `-6.12`.
fn versions(text: &str) -> Result<(Option<Series>, Option<Series>), String> {
    let one = |text: &str| -> Result<Option<Series>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let numbers = text.split_once('.');
        let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers
            .map(Some)
            .ok_or_else(|| format!("'{text}' is not a version such as 6.12"))
    };
    match text.split_once('-') {
        Some((first, last)) => Ok((one(first.trim())?, one(last.trim())?)),
        None => Ok((one(text)?, one(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: u32, patchlevel: u32) -> Version {
        Version {
            version,
            patchlevel,
            sublevel: 1,
            extra: String::new(),
        }
    }

    #[test]
    fn the_list_that_is_compiled_in_is_well_formed() {
        assert!(!parse(BUILT_IN, BUILT_IN_NAME).unwrap().is_empty());
        let known = Known::built_in(&version(7, 3));
        assert_eq!(
            known.find("memory", ("answer", ""), "krb5enc(a,b)", "f+0x1"),
            Some(1)
        );
        assert_eq!(
            known.find("memory", ("answer", ""), "authenc(a,b)", "f+0x1"),
            None
        );
        // The entry must not apply to Linux 6.12, which lacks the template krb5enc.
        let old = Known::built_in(&version(6, 12));
        assert_eq!(
            old.find("memory", ("answer", ""), "krb5enc(a,b)", "f"),
            None
        );
    }

    #[test]
    fn a_finding_must_match_all_that_an_entry_names() {
        let text = "# a list\n\noracle: leaks\nwhere: lrw_*\ndriver: lrw(*\nversions: 6.1-6.12\nreason: one\n two\n";
        let mut known = Known::default();
        known.read(text, "list", &version(6, 6)).unwrap();
        assert_eq!(known.reason(0), "one two");
        assert_eq!(
            known.find("leaks", ("leak", ""), "lrw(ecb)", "lrw_init+0x10"),
            Some(0)
        );
        assert_eq!(
            known.find("leaks", ("leak", ""), "lrw(ecb)", "xlrw_init+0x1"),
            None
        );
        assert_eq!(
            known.find("leaks", ("leak", ""), "xts(ecb)", "lrw_init"),
            None
        );
        assert_eq!(
            known.find("fill", ("leak", ""), "lrw(ecb)", "lrw_init"),
            None
        );
        assert_eq!(known.unseen(&["leaks"], &[]), ["list:3: leaks lrw_* lrw(*"]);
        assert!(known.unseen(&["leaks"], &[0]).is_empty());
        assert!(known.unseen(&["fill"], &[]).is_empty());
        let mut chance = Known::default();
        let by_chance = text.replace("reason:", "seen: by chance\nreason:");
        chance.read(&by_chance, "list", &version(6, 6)).unwrap();
        assert!(chance.unseen(&["leaks"], &[]).is_empty());
        assert_eq!(known.of_no_oracle(&["fill"]), Some(("list:3", "leaks")));
        let mut other = Known::default();
        other.read(text, "list", &version(6, 15)).unwrap();
        assert_eq!(other, Known::default());
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said_with_the_line() {
        for (text, why) in [
            ("oracle leaks", "list:1: expected a line such as 'driver: xts-aes-vaes-avx2' (docs/TREES.md)"),
            (" x", "list:1: continues no line"),
            ("\nwhere: x\n", "list:2: names no oracle"),
            (
                "oracle: leaks\nreason: r",
                "list:1: names neither a function (where) nor a driver",
            ),
            ("oracle: leaks\nwhere: f", "list:1: has no reason"),
            (
                "oracle: leaks\nversions: 6",
                "list:1: '6' is not a version such as 6.12",
            ),
            (
                "oracle: leaks\ncolour: red",
                "list:1: 'colour' is not one of oracle, rule, where, driver, case, versions, seen, reason",
            ),
        ] {
            assert_eq!(parse(text, "list").unwrap_err(), why);
        }
    }
}
