//! Compares a cell with similar ones (at other levels, or of the default variant), and finds the
//! flag that causes the difference.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use kiln_measure::Series;
use kiln_question::Error;

use super::bench::{self, Effort, Entry, Messages, Place, Timed};
use super::build::{Builder, Built, Refused};
use super::catalogue::find_subject;
use super::cell::{Abi, Cell, Opt};
use super::checks::{find_checks, Check};
use super::code::{self, Code};
use super::culprit::{self, Culprit};
use super::kernel::GENERIC;
use super::object;
use super::row::Row;
use super::store::Store;
use super::toolchain::Toolchain;
use super::tree::Tree;
use super::variant::Variant;

/// Levels with which a cell is compared.
const LEVELS: [&str; 4] = ["O1", "O2", "O3", "Os"];
/// If the cycles of two builds differ by a smaller factor than this, the builds are considered
/// equally fast, and the cause of the difference is not determined.
pub(super) const ALIKE: f64 = 1.02;
/// Effort spent on each measurement. It is small because the search for a flag makes many
/// measurements.
const EFFORT: Effort = Effort {
    rounds: 8,
    round_ms: 12,
};

/// A cell that has been measured, with the result and the hot code.
pub(super) struct Seen {
    pub cell: Cell,
    /// The cell's executable, with its object files, sizes and build time.
    pub built: Built,
    /// Core cycles per byte.
    pub cycles_per_byte: f64,
    /// The cell's measurement rounds, which were interleaved with those of the other cells in the
    /// same call to `see`.
    pub series: Series,
    /// The cell's hottest code.
    pub code: Option<Code>,
}

/// A cell, compared with similar ones to explain its speed.
pub(super) struct Explained {
    /// The requested cell.
    pub own: Seen,
    /// The cell that `own` is compared with: the cell given by the user, another level, or the
    /// default variant of the same level.
    pub other: Seen,
    /// The other similar cells that were measured.
    pub more: Vec<Seen>,
    /// The flag that causes the difference; `None` unless the two cells differ only in the level.
    pub culprit: Option<Culprit>,
    /// Cycles per byte of the slower cell with the flag added.
    pub cured: Option<f64>,
    /// If `own` and `other` differ in a sanitizer: results for `other` with each of the checks
    /// alone, slowest first.
    pub checks: Vec<(Check, Seen)>,
    /// Cycles per byte of `own` without the slowest check.
    pub without: Option<f64>,
}

impl Cell {
    /// Parses `CC/LEVEL/SUBJECT/VARIANT`, optionally followed by `/32`. The compiler and the
    /// subject may be paths that contain slashes, so the first word that is a level is taken as
    /// `LEVEL`. If `subjects` contains `FILE:FUNCTION:CONVENTION` for a user's file, `SUBJECT` may
    /// be the file name alone, as in the tables.
    pub(super) fn parse(
        text: &str,
        tree: Option<&Tree>,
        include: &[PathBuf],
        subjects: &[String],
    ) -> Result<Cell, Error> {
        let fault = |why: &str| {
            Error::input(format!(
                "'{text}' is not a cell: {why}: use CC/LEVEL/SUBJECT/VARIANT, such as gcc-12/O2/aes-generic/ubsan"
            ))
        };
        let (text, abi) = match text.strip_suffix("/32") {
            Some(rest) => (rest, Abi::Bits32),
            None => (text, Abi::Bits64),
        };
        let words: Vec<&str> = text.split('/').collect();
        let level = words
            .iter()
            .position(|w| Opt::NAMES.contains(w))
            .ok_or_else(|| fault("it has no level"))?;
        if level == 0 || words.len() < level + 3 {
            return Err(fault("it has not all its parts"));
        }
        // Flags may contain slashes as well: the variant begins with the first word that contains a
        // flag.
        let has_flag = |w: &&str| w.starts_with('-') || w.contains("+-");
        let last = words.iter().skip(level + 2).position(has_flag);
        let last = last.map_or(words.len() - 1, |at| level + 2 + at);
        let name = words[level + 1..last].join("/");
        let described = subjects.iter().find(|s| file_name(s) == name);
        let is_meant = |s: &String| s == GENERIC || file_name(s) == file_name(&name);
        if !subjects.is_empty() && !subjects.iter().any(is_meant) {
            return Err(Error::input(format!(
                "the cell '{text}' has the subject '{name}', not '{}' of --subject: name the same one in both",
                subjects.join(",")
            )));
        }
        Ok(Cell {
            cc: Arc::new(Toolchain::find(&words[..level].join("/"))?),
            opt: Opt::parse(words[level])?,
            subject: Arc::new(find_subject(
                described.map_or(name.as_str(), String::as_str),
                tree,
                include,
            )?),
            variant: Variant::parse(&words[last..].join("/"))?,
            abi,
        })
    }
}

/// Returns the file name in `FILE:FUNCTION:CONVENTION`.
fn file_name(subject: &str) -> &str {
    let file = subject.split(':').next().unwrap_or_default();
    file.rsplit('/').next().unwrap_or_default()
}

impl Seen {
    /// Creates the row that this cell would have in the matrix.
    pub(super) fn row(&self, len: usize) -> Row {
        let mut row = Row::new(&self.cell, len, &self.built.facts);
        row.cycles_per_byte = Some(self.cycles_per_byte);
        row
    }

    /// Returns whether both cells have the same machine code. If so, their times differ only by
    /// chance.
    pub(super) fn has_code_of(&self, other: &Seen) -> bool {
        let (own, other) = (&self.built.objects, &other.built.objects);
        own.len() == other.len()
            && own
                .iter()
                .zip(other)
                .all(|(a, b)| object::have_same_code(a, b))
    }
}

/// Everything needed to measure cells side by side. `see` skips cells that cannot be built or run,
/// but fails if the first cell has no result.
struct Lens<'a> {
    store: &'a Store,
    builder: Builder<'a>,
    messages: Messages,
    seed: u64,
    stop: &'a AtomicBool,
}

impl Lens<'_> {
    fn see(&self, cells: Vec<Cell>) -> Result<Vec<Seen>, Error> {
        let built: Vec<Result<Built, Refused>> =
            self.builder.build_all(&cells, self.stop, &|_, _| ());
        let places: Vec<(usize, &Built)> = built
            .iter()
            .enumerate()
            .filter_map(|(i, b)| Some((i, b.as_ref().ok()?)))
            .collect();
        let entries: Vec<Entry> = places
            .iter()
            .map(|(i, b)| Entry {
                name: cells[*i].to_string(),
                executable: &b.executable,
                messages: self.messages,
                group: 0,
            })
            .collect();
        let scratch = self.store.scratch()?;
        let (timed, _) = bench::time(
            &entries,
            None,
            &EFFORT,
            self.seed,
            &Place {
                scratch: scratch.path(),
                stop: self.stop,
            },
            &mut |_, _| (),
        );
        let mut seen = Vec::new();
        for ((i, b), t) in places.iter().zip(&timed) {
            let Some(figure) = self.figure(t) else {
                continue;
            };
            let cell = cells[*i].clone();
            let object: Option<&PathBuf> = b.objects.first();
            seen.push(Seen {
                code: object.and_then(|o| code::read(o, &cell.subject.convention.function)),
                built: (*b).clone(),
                cycles_per_byte: figure,
                series: t.series.clone(),
                cell,
            });
        }
        // The first cell is the one that the user asked about, so report why it has no result.
        if seen
            .first()
            .is_none_or(|s| s.cell.to_string() != cells[0].to_string())
        {
            let why = match &built[0] {
                Err(refused) => refused.reason.clone(),
                Ok(_) => match timed.first().and_then(|t| t.fault.clone()) {
                    Some((_, why)) => why,
                    None => "it was not timed".to_string(),
                },
            };
            return Err(Error::input(format!(
                "'{}' has no result: {why}: name another cell",
                cells[0]
            )));
        }
        Ok(seen)
    }

    fn figure(&self, timed: &Timed) -> Option<f64> {
        let working = timed.fault.is_none();
        let best = timed.series.estimate().filter(|_| working)?.best;
        Some(best / self.messages.len.max(1) as f64)
    }
}

/// Explains a cell's speed by comparing the cell with another one. If `against` is `None`, one of
/// the similar cells is chosen.
pub(super) fn explain(
    own: &Cell,
    against: Option<&Cell>,
    len: usize,
    seed: u64,
    stop: &AtomicBool,
    progress: &dyn Fn(f64, &str),
) -> Result<Explained, Error> {
    let store = Store::open()?;
    let lens = Lens {
        store: &store,
        builder: Builder::new(&store, std::slice::from_ref(&own.cc))?,
        messages: Messages::new(seed, len),
        seed,
        stop,
    };
    progress(0.1, "the cell and its neighbours");
    let mut cells = vec![own.clone()];
    match against {
        Some(other) => cells.push(other.clone()),
        None => cells.extend(neighbours(own)),
    }
    let mut seen = lens.see(cells)?;
    let first = seen.remove(0);
    let other = choose(&first, &seen).ok_or_else(|| {
        Error::input(format!(
            "'{own}': none of its neighbours can be built and timed: name a cell with --against"
        ))
    })?;
    let other = seen.remove(other);
    let mut done = Explained {
        own: first,
        other,
        more: seen,
        culprit: None,
        cured: None,
        checks: Vec::new(),
        without: None,
    };
    look_for_culprit(&lens, &mut done, progress)?;
    try_checks(&lens, &mut done, progress)?;
    Ok(done)
}

/// Times the faster build with each of the slower build's sanitizer checks alone, and the slower
/// build without its slowest check. Does nothing if the two cells differ in more than the variant.
fn try_checks(
    lens: &Lens,
    done: &mut Explained,
    progress: &dyn Fn(f64, &str),
) -> Result<(), Error> {
    let (own, other) = (&done.own, &done.other);
    let comparable = own.cell.cc.identity() == other.cell.cc.identity()
        && own.cell.opt == other.cell.opt
        && own.cell.abi == other.cell.abi;
    let slower = own.cycles_per_byte >= other.cycles_per_byte * ALIKE && !own.has_code_of(other);
    if !comparable || !slower {
        return Ok(());
    }
    let flags = |cell: &Cell| cell.variant.flags(&cell.cc).map_err(Error::input);
    let checks = find_checks(&own.cell.cc, &flags(&own.cell)?, &flags(&other.cell)?);
    if checks.is_empty() {
        return Ok(());
    }
    progress(0.5, &format!("{} checks, one at a time", checks.len()));
    let with = |cell: &Cell, flags: &[String]| Cell {
        variant: cell.variant.with(flags),
        ..cell.clone()
    };
    // A check that cannot be built alone has no result. The first cell, which has no check added,
    // always has a result.
    let mut cells = vec![other.cell.clone()];
    cells.extend(checks.iter().map(|c| with(&other.cell, &c.alone)));
    let names: Vec<String> = cells[1..].iter().map(Cell::to_string).collect();
    let mut tried: Vec<(Check, Seen)> = Vec::new();
    for seen in lens.see(cells)?.into_iter().skip(1) {
        let name = seen.cell.to_string();
        let check = names.iter().position(|n| *n == name);
        tried.extend(check.map(|at| (checks[at].clone(), seen)));
    }
    tried.sort_by(|a, b| b.1.cycles_per_byte.total_cmp(&a.1.cycles_per_byte));
    if let Some((worst, _)) = tried.first() {
        progress(0.9, &format!("all but {}", worst.name));
        let rest = vec![own.cell.clone(), with(&own.cell, &worst.off)];
        done.without = lens.see(rest)?.get(1).map(|seen| seen.cycles_per_byte);
    }
    done.checks = tried;
    Ok(())
}

fn neighbours(own: &Cell) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for level in LEVELS.iter().filter(|l| **l != own.opt.name()) {
        cells.push(Cell {
            opt: Opt::parse(level).expect("a level"),
            ..own.clone()
        });
    }
    if own.variant.name() != "default" {
        cells.push(Cell {
            variant: Variant::parse("default").expect("a variant"),
            ..own.clone()
        });
    }
    cells
}

/// Chooses the cell to compare with: the default variant at the same level if it is faster than
/// `own`; otherwise the fastest other level if it is faster than `own`; otherwise the slowest
/// level. Cells with the same machine code as `own` are considered only if no other cell qualifies.
fn choose(own: &Seen, others: &[Seen]) -> Option<usize> {
    let ratio = |i: &usize| own.cycles_per_byte / others[*i].cycles_per_byte;
    let by_ratio = |a: &usize, b: &usize| ratio(a).total_cmp(&ratio(b));
    let different = (0..others.len()).filter(|i| !own.has_code_of(&others[*i]));
    let (plain, levels): (Vec<usize>, Vec<usize>) =
        different.partition(|i| others[*i].cell.opt == own.cell.opt);
    let levels = || levels.iter().copied();
    (plain.iter().copied().find(|i| ratio(i) > ALIKE))
        .or_else(|| levels().max_by(by_ratio).filter(|i| ratio(i) > ALIKE))
        .or_else(|| levels().min_by(by_ratio))
        .or_else(|| (!others.is_empty()).then_some(0))
}

/// Searches the flags that differ between two levels for the one that causes the speed difference.
/// Does nothing if the two cells differ in more than the level.
fn look_for_culprit(
    lens: &Lens,
    done: &mut Explained,
    progress: &dyn Fn(f64, &str),
) -> Result<(), Error> {
    let (own, other) = (&done.own, &done.other);
    let one_compiler = own.cell.cc.identity() == other.cell.cc.identity()
        && own.cell.variant == other.cell.variant
        && own.cell.abi == other.cell.abi;
    if !one_compiler || own.cell.opt == other.cell.opt {
        return Ok(());
    }
    let (slow, fast) = match own.cycles_per_byte >= other.cycles_per_byte {
        true => (own, other),
        false => (other, own),
    };
    if slow.cycles_per_byte < fast.cycles_per_byte * ALIKE || slow.has_code_of(fast) {
        return Ok(());
    }
    let switches = culprit::switches(&slow.cell.cc, &slow.cell.opt.flag(), &fast.cell.opt.flag());
    // A set of flags is enough if it closes three quarters of the gap.
    let enough = fast.cycles_per_byte + (slow.cycles_per_byte - fast.cycles_per_byte) / 4.0;
    let with = |set: &[String]| Cell {
        variant: slow.cell.variant.with(set),
        ..slow.cell.clone()
    };
    let mut asked = 0.0;
    let mut last = None;
    let found = culprit::search(&switches, &mut |set| {
        asked += 1.0;
        progress(0.3 + 0.07 * asked, &format!("{} switches", set.len()));
        let seen = lens.see(vec![with(set)])?;
        let figure = seen[0].cycles_per_byte;
        last = Some(figure);
        // Flags that leave the code unchanged are not the cause, regardless of the measured time.
        Ok::<bool, Error>(figure <= enough && !seen[0].has_code_of(slow))
    })?;
    done.cured = match &found {
        Culprit::Alone(_) => last,
        _ => None,
    };
    done.culprit = Some(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_are_written() {
        if Toolchain::find("gcc").is_err() {
            eprintln!("SKIPPED: no gcc here");
            return;
        }
        for text in [
            "gcc/O2/aes-generic/patched+ubsan",
            "gcc/Os/sha256-generic/default",
            "gcc/O2/aes-generic/asan/32",
            "gcc/O2/aes-generic/ubsan+-fno-tree-pre",
            "gcc/O2/aes-generic/patched+-I/usr/include",
            "gcc/O2/aes-generic/-I/usr/include -fno-tree-pre",
        ] {
            let cell = Cell::parse(text, None, &[], &[]).unwrap();
            assert_eq!(cell.to_string(), text);
        }
        for (text, want) in [
            ("gcc/aes-generic/default", "no level"),
            ("gcc/O2", "all its parts"),
            ("gcc/O2/aes-generic/ubsna", "unknown variant"),
        ] {
            let e = Cell::parse(text, None, &[], &[]).unwrap_err();
            assert!(e.to_string().contains(want), "{e}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("my.c");
        std::fs::write(&file, "int f;\n").unwrap();
        let subjects = [format!("{}:crc:checksum32", file.display())];
        let text = "gcc/O2/my.c/default";
        let cell = Cell::parse(text, None, &[], &subjects).unwrap();
        assert_eq!(cell.to_string(), text);
        assert_eq!(cell.subject.convention.function, "crc");
        assert!(Cell::parse(text, None, &[], &[]).is_err());
        let e = Cell::parse("gcc/O2/aes-asm/default", None, &[], &subjects).unwrap_err();
        assert!(e.to_string().contains("of --subject"), "{e}");
    }
}
