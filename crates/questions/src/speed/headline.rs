//! Headlines about the speed of the ciphers.

use kiln_question::survey::words::{figure, has, library, number, word};
use kiln_question::survey::{Against, Estimate, Row, Runs, Topic};
use serde_json::Value;

use super::best::SHORT;
use kiln_timing::peer::release;

pub(super) static TOPIC: Topic = Topic {
    name: "speed",
    title: "How fast are the ciphers?",
    command: "kiln speed",
    source: None,
};

/// A common sector size in bytes. Headlines quote the throughput at this length.
const USUAL: f64 = 4096.0;

/// Returns the usual length if it was measured, otherwise the longest measured length below it.
fn usual_length(rows: &[&Value]) -> Option<f64> {
    let lens = rows.iter().filter_map(|r| number(r, "len"));
    lens.filter(|len| *len <= USUAL).reduce(f64::max)
}

/// Returns the row of Kiln's fastest function at the length that headlines quote.
fn fastest<'a>(rows: &[&'a Value]) -> Option<&'a Value> {
    let len = usual_length(rows);
    let wanted = [
        ("provider", "kiln"),
        ("op", "encrypt"),
        ("level", "primitive"),
    ];
    let own = rows.iter().filter(|r| has(r, &wanted));
    let usual = own.filter(|r| number(r, "len") == len && r["together"] != true);
    let with = usual.filter_map(|r| Some((number(r, "ns_per_op")?, *r)));
    with.min_by(|a, b| a.0.total_cmp(&b.0)).map(|f| f.1)
}

/// Builds the headline that states one core's throughput, and the share of the time for which the
/// AES unit is busy.
pub(super) fn throughput(runs: &Runs) -> Option<Row> {
    let first = fastest(runs.first())?;
    let (imp, len) = (word(first, "impl"), number(first, "len")?);
    let of = |rows: &[&Value], number_of: &dyn Fn(&Value) -> Option<f64>| {
        let wanted = [
            ("provider", "kiln"),
            ("op", "encrypt"),
            ("level", "primitive"),
            ("impl", imp),
        ];
        let mut own = rows.iter().filter(|r| has(r, &wanted));
        number_of(own.find(|r| number(r, "len") == Some(len))?)
    };
    let mb = runs.estimate(|rows| of(rows, &|r| number(r, "mb_per_s")))?;
    let share = runs.estimate(|rows| {
        of(rows, &|r| {
            Some(number(r, "limit_cycles")? / number(r, "cycles_per_op")?)
        })
    });
    // The throughput at which the AES unit would be busy all the time.
    let most = |share: &Estimate| figure(mb.value / share.value / 1e3);
    let limit = share.as_ref().map_or(String::new(), |share| {
        let percent = 100.0 * share.value;
        format!(
            ". The CPU's AES unit is busy for {percent:.0} % of the time; if it were always busy, Kiln would encrypt {} GB/s",
            most(share)
        )
    });
    let text = format!(
        "This throughput was measured with messages of {len} bytes and Kiln's fastest implementation, {imp}{limit}"
    );
    let verdict = format!(
        "Kiln's AES-256-XTS encrypts {} GB/s{} on one core",
        figure(mb.value / 1e3),
        mb.interval(|x| figure(x / 1e3))
    );
    let busy = share.map_or(String::new(), |share| {
        let percent = 100.0 * share.value;
        format!(
            ". The AES unit is {percent:.0} % busy; 100 % would be {} GB/s",
            most(&share)
        )
    });
    let row = Row::estimate(&TOPIC, &mb, "mb_per_s", text).with_verdict(verdict);
    Some(row.with_detail(format!("{len}-byte messages{busy}")))
}

/// Names of the fields that together describe one comparison in a `speed` row.
struct Fields {
    /// Name of the field that contains the competitor's name and version.
    provider: &'static str,
    /// Names of the fields that contain the ratios of time and of cycles: Kiln's value divided by
    /// the competitor's.
    time: &'static str,
    cycles: &'static str,
    /// Name of the field that contains the verdict of a single process.
    verdict: &'static str,
}

const PEER: Fields = Fields {
    provider: "best_peer_provider",
    time: "best_peer_time_ratio",
    cycles: "best_peer_ratio",
    verdict: "best_peer_verdict",
};
const TREE: Fields = Fields {
    provider: "best_tree_provider",
    time: "best_tree_time_ratio",
    cycles: "best_tree_ratio",
    verdict: "best_tree_verdict",
};
/// The fields in a library's row that compare Kiln with the library's function for several
/// messages.
const MANY: Fields = Fields {
    provider: "provider",
    time: "kiln_time_ratio",
    cycles: "kiln_time_ratio",
    verdict: "kiln_verdict",
};

/// Whether Kiln is faster or slower than the competitor. `Disagree` means that cycles and time
/// contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Faster,
    Equal,
    Disagree,
    Slower,
}

/// A comparison for one algorithm, operation, key size and length, with a result from each process.
struct Cell<'a> {
    alg: &'a str,
    len: f64,
    time: Estimate,
    cycles: Estimate,
    /// The verdict that the first process reached from its own measurements alone.
    alone: &'a str,
}

impl Cell<'_> {
    /// Returns `Faster` if the intervals of time and cycles are both entirely below 1, and `Slower`
    /// if both are entirely above 1. If there are too few processes for an interval, returns the
    /// verdict of the first process.
    fn outcome(&self) -> Outcome {
        let (time, cycles) = (&self.time, &self.cycles);
        match (time.against(1.0), cycles.against(1.0)) {
            (Against::CannotTell, _) | (_, Against::CannotTell) => match self.alone {
                "faster" => Outcome::Faster,
                "slower" => Outcome::Slower,
                "disagree" => Outcome::Disagree,
                _ => Outcome::Equal,
            },
            (Against::Below, Against::Below) => Outcome::Faster,
            (Against::Above, Against::Above) => Outcome::Slower,
            _ if time.low > cycles.high || cycles.low > time.high => Outcome::Disagree,
            _ => Outcome::Equal,
        }
    }
}

/// Returns one cell for each row of the first process that contains the comparison in `fields`.
/// The estimates cover all processes.
fn cells<'a>(runs: &Runs<'a>, fields: &Fields) -> Vec<Cell<'a>> {
    let key = |r: &'a Value| {
        (
            word(r, "alg"),
            word(r, "op"),
            r["key_bits"].as_u64(),
            r["len"].as_u64(),
        )
    };
    let compared = |rows: &[&'a Value]| -> Vec<&'a Value> {
        let rows = rows.iter().copied();
        rows.filter(|r| number(r, fields.time).is_some()).collect()
    };
    let mut found = Vec::new();
    for row in compared(runs.first()) {
        let of = |field: &'static str| {
            runs.estimate(|rows| {
                let all = compared(rows).into_iter();
                number(all.into_iter().find(|r| key(r) == key(row))?, field)
            })
        };
        let cell = || {
            Some(Cell {
                alg: word(row, "alg"),
                len: number(row, "len")?,
                time: of(fields.time)?,
                cycles: of(fields.cycles)?,
                alone: word(row, fields.verdict),
            })
        };
        found.extend(cell());
    }
    found
}

/// Lists the competitors that were fastest in any row, with their release years.
fn names<'a>(rows: impl Iterator<Item = &'a Value>, fields: &Fields) -> String {
    let mut all: Vec<String> = Vec::new();
    for row in rows.filter(|r| number(r, fields.time).is_some()) {
        let name = release::describe(word(row, fields.provider));
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all.join(", ")
}

fn number_of(cells: &[Cell], outcome: Outcome) -> usize {
    cells.iter().filter(|c| c.outcome() == outcome).count()
}

/// Formats the counts, such as `faster in 56, equal in 6, slower in 0 of 62`.
fn count(cells: &[Cell]) -> String {
    let number = |wanted| number_of(cells, wanted);
    let disagree = number(Outcome::Disagree);
    let contradicted = match disagree {
        0 => String::new(),
        n => format!(" (in {n} of them cycles and time disagree)"),
    };
    format!(
        "faster in {}, equal in {}{contradicted}, slower in {} of {}",
        number(Outcome::Faster),
        number(Outcome::Equal) + disagree,
        number(Outcome::Slower),
        cells.len()
    )
}

/// Describes a speedup in words: `is 1.41 times (1.38 to 1.44) as fast` or `takes 1.25 times (1.20
/// to 1.30) as long`.
fn pace(times: &Estimate) -> String {
    match times.value >= 1.0 {
        _ if times.against(1.0) == Against::Equal => format!(
            "shows no measurable difference ({} times as fast{})",
            figure(times.value),
            times
                .interval(figure)
                .replace(" (", ", range ")
                .replace(')', "")
        ),
        true => format!(
            "is {} times{} as fast",
            figure(times.value),
            times.interval(figure)
        ),
        false => {
            let long = times.inverse();
            format!(
                "takes {} times{} as long",
                figure(long.value),
                long.interval(figure)
            )
        }
    }
}

/// Capitalizes text for the beginning of a sentence.
fn capitalized(text: &str) -> String {
    let first = text.chars().next().map_or(0, char::len_utf8);
    text[..first].to_uppercase() + &text[first..]
}

/// Formats the result in `cell` as a sentence. `what` describes what Kiln was measured with, and
/// `other` the competitor's counterpart.
fn versus(what: &str, cell: &Cell, other: &str) -> String {
    let times = cell.time.inverse();
    let once = match cell.time.low {
        Some(_) => "",
        None => ", measured once,",
    };
    match cell.outcome() {
        Outcome::Faster | Outcome::Slower => {
            let what = capitalized(what);
            format!("{what}{once} {} as {other}", pace(&times))
        }
        Outcome::Equal => {
            let includes = match times.interval(figure) {
                range if range.is_empty() => range,
                range => format!("; the range{range} includes 1.00"),
            };
            format!(
                "No difference found: {what}{once} was {} times as fast as {other}{includes}",
                figure(times.value)
            )
        }
        Outcome::Disagree => format!(
            "Cycles and time disagree on {what}{once} against {other}: Kiln takes {} times the cycles, {} times the time",
            figure(cell.cycles.value),
            figure(cell.time.value)
        ),
    }
}

/// Describes a comparison in a few words: `XTS, 4096 B: Kiln is 1.11 times (1.08 to 1.14) as fast as
/// libgcrypt 1.10.1`.
fn brief(what: &str, cell: &Cell, other: &str) -> String {
    let times = cell.time.inverse();
    let shown = format!("{} times{}", figure(times.value), times.interval(figure));
    match (cell.outcome(), cell.time.low) {
        (_, None) => format!("{what}, measured once: Kiln is {shown} as fast as {other}"),
        (Outcome::Faster | Outcome::Slower, _) => {
            format!("{what}: Kiln is {shown} as fast as {other}")
        }
        (Outcome::Equal, _) => {
            let range = times.interval(figure).replace(')', " times as fast)");
            format!("{what}: Kiln ties with {other}{range}")
        }
        (Outcome::Disagree, _) => {
            format!("{what}, Kiln against {other}: cycles and time disagree")
        }
    }
}

/// Returns the comparison at the usual length, if that length was measured.
fn usual<'a, 'b>(runs: &Runs<'a>, cells: &'b [Cell<'a>]) -> Option<&'b Cell<'a>> {
    let len = usual_length(runs.first())?;
    cells.iter().find(|c| c.len == len)
}

/// Returns the first row that contains a comparison at the usual length. `rows` are the rows of one
/// process.
fn compared_row<'a>(rows: &[&'a Value], fields: &Fields) -> Option<&'a Value> {
    let len = usual_length(rows);
    let compared = |r: &&Value| number(r, fields.time).is_some() && number(r, "len") == len;
    rows.iter().copied().find(compared)
}

/// Builds the headline that compares Kiln with the kernel's own functions, at the usual length and
/// at all lengths.
pub(super) fn against_tree(runs: &Runs) -> Option<Row> {
    let cells = cells(runs, &TREE);
    let cell = usual(runs, &cells)?;
    let row = compared_row(runs.first(), &TREE)?;
    let other = format!("{} of {}", word(row, "best_tree"), names(runs.all(), &TREE));
    let text = format!(
        "{} ({} bytes). Over all lengths measured, Kiln is {}",
        versus("Kiln's AES-256-XTS function", cell, &other),
        cell.len,
        count(&cells)
    );
    let other = library(word(row, TREE.provider));
    let verdict = brief(&format!("XTS, {} B", cell.len), cell, &other);
    let row = Row::estimate(&TOPIC, &cell.time.inverse(), "times", text).with_verdict(verdict);
    Some(row.with_detail("AES-256-XTS: Kiln's function is compared with the kernel's".to_string()))
}

/// Builds the headline that compares a call through Kiln's crypto API with a call to the fastest
/// library, at the usual length.
pub(super) fn against_peers(runs: &Runs) -> Option<Row> {
    let cells = cells(runs, &PEER);
    let cell = usual(runs, &cells)?;
    let usual_row = |rows: &[&Value]| {
        let compared = rows.iter().filter(|r| number(r, PEER.time).is_some());
        let mut usual = compared.filter(|r| number(r, "len") == Some(cell.len));
        number(usual.next()?, "best_peer_ymm_time_ratio")
    };
    let at_length = runs.all().filter(|r| number(r, "len") == Some(cell.len));
    let other = format!(
        "one to {}, the fastest installed library",
        names(at_length, &PEER)
    );
    let ymm = runs.estimate(usual_row).map_or(String::new(), |ymm| {
        format!(
            ". Compared with that library, Kiln with 256-bit vectors {}",
            pace(&ymm.inverse())
        )
    });
    let what = format!(
        "an AES-256-XTS request of {} bytes to Kiln's crypto API",
        cell.len
    );
    let text = format!("{}{ymm}", versus(&what, cell, &other));
    let row = compared_row(runs.first(), &PEER)?;
    let other = library(word(row, PEER.provider));
    let verdict = brief(&format!("XTS, {} B", cell.len), cell, &other);
    let row = Row::estimate(&TOPIC, &cell.time.inverse(), "times", text).with_verdict(verdict);
    Some(row.with_detail(
        "An AES-256-XTS request to Kiln's crypto API is compared with a library call".to_string(),
    ))
}

/// Estimates the geometric mean of Kiln's speedups over the fastest library at the lengths that
/// `wanted` selects. The estimate is based on one mean per process.
fn mean(runs: &Runs, wanted: impl Fn(f64) -> bool) -> Option<Estimate> {
    runs.estimate(|rows| {
        let compared = rows
            .iter()
            .filter(|r| number(r, "len").is_some_and(&wanted));
        let logs: Vec<f64> = compared
            .filter_map(|r| Some(-number(r, PEER.time)?.ln()))
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    })
}

/// Builds the headline that compares Kiln with the fastest library for each cipher and length.
pub(super) fn all_ciphers(runs: &Runs) -> Option<Row> {
    let cells = cells(runs, &PEER);
    let short = SHORT as f64;
    let long = mean(runs, |len| len >= short)?;
    let below = mean(runs, |len| len < short).map_or(String::new(), |mean| {
        format!(
            ". With messages of less than {SHORT} bytes, compared with the fastest libraries, Kiln {}",
            pace(&mean)
        )
    });
    let once = match long.low {
        Some(_) => "",
        None => ", measured once",
    };
    let text = format!(
        "A case is one algorithm with one message length: a request to Kiln's crypto API is compared with a call of the fastest \
         installed library{once}. Compared with the fastest installed library, Kiln is {} cases; equal means that no difference was found. Compared with the fastest library of each case, Kiln {} in \
         the geometric mean of all cases with {SHORT} bytes or more{below}. These libraries were the fastest in at least one case: {}",
        count(&cells),
        pace(&long),
        names(runs.all(), &PEER),
    );
    let verdict = format!(
        "Of {} cases, Kiln beats the fastest library in {}, ties in {}, loses in {}",
        cells.len(),
        number_of(&cells, Outcome::Faster),
        number_of(&cells, Outcome::Equal) + number_of(&cells, Outcome::Disagree),
        number_of(&cells, Outcome::Slower)
    );
    let row = Row::estimate(&TOPIC, &long, "times", text).with_verdict(verdict);
    Some(row.with_detail(
        "A case is an algorithm with a message length; tie: no difference found".to_string(),
    ))
}

/// Builds the headline about processing several messages at once, if a measured library can do
/// this.
pub(super) fn several_messages(runs: &Runs) -> Option<Row> {
    let cells = cells(runs, &MANY);
    let ahead: Vec<&Cell> = cells
        .iter()
        .filter(|c| c.outcome() == Outcome::Slower)
        .collect();
    let most = ahead
        .iter()
        .max_by(|a, b| a.time.value.total_cmp(&b.time.value));
    // Report the largest lead. `ahead` contains only leads that exceed the noise.
    let most = most.map_or(String::new(), |cell| {
        format!(
            ". Its largest lead is {} times{} the speed of Kiln ({}, {} bytes)",
            figure(cell.time.value),
            cell.time.interval(figure),
            cell.alg,
            cell.len
        )
    });
    if cells.is_empty() {
        return None;
    }
    let text = format!(
        "With several messages at a time, {} is faster than Kiln in {} of {} combinations of algorithm and length{most}",
        names(runs.all(), &MANY),
        ahead.len(),
        cells.len()
    );
    let verdict = format!(
        "Several messages at a time: a library beats Kiln in {} of {} cases",
        ahead.len(),
        cells.len()
    );
    let row = Row::new(&TOPIC, ahead.len() as f64, "combinations", text);
    Some(row.with_verdict(verdict))
}

#[cfg(test)]
mod tests {
    use super::super::survey::{MORE, SPEED, TREE};
    use super::*;
    use crate::testing::{answer, sentences, verdicts};
    use kiln_question::survey::Answer;
    use kiln_question::survey::Part;
    use serde_json::json;

    /// Factors by which the five processes' results differ.
    const JITTER: [f64; 5] = [1.0, 1.004, 0.998, 1.001, 0.997];

    fn function(imp: &str, len: u32, ns: f64) -> Value {
        json!({"alg": "xts(aes)", "provider": "kiln", "op": "encrypt", "level": "primitive", "impl": imp, "key_bits": 256,
               "len": len, "ns_per_op": ns, "cycles_per_op": 4.0 * ns, "mb_per_s": f64::from(len) / ns * 1e3,
               "limit_cycles": 2.0 * ns})
    }

    fn call(alg: &str, len: u32, cycles: f64, time: f64) -> Value {
        json!({"alg": alg, "provider": "kiln", "op": "encrypt", "level": "api", "impl": "i", "key_bits": 256, "len": len,
               "best_peer": "EVP", "best_peer_provider": "openssl-3.0.19", "best_peer_ratio": cycles,
               "best_peer_time_ratio": time, "best_peer_verdict": "same", "best_peer_ymm_time_ratio": 0.9 * time})
    }

    /// Creates the results of five simulated survey processes from these rows, with slightly
    /// different ratios and times.
    fn five(part: &'static Part, rows: &[Value]) -> Vec<Answer> {
        let moved = |by: f64| {
            let mut rows = rows.to_vec();
            for row in &mut rows {
                for (name, value) in row.as_object_mut().unwrap() {
                    let moves =
                        name.ends_with("ratio") || name.ends_with("per_op") || name == "mb_per_s";
                    if let Some(x) = value.as_f64().filter(|_| moves) {
                        *value = json!(x * by);
                    }
                }
            }
            answer(part, json!(rows))
        };
        JITTER.map(moved).to_vec()
    }

    fn sentence(part: &'static Part, rows: &[Value]) -> Vec<String> {
        sentences(&TOPIC, &five(part, rows))
    }

    #[test]
    fn throughput_is_of_the_usual_length_with_its_interval() {
        let rows = [
            function("slow", 1024, 300.0),
            function("fast", 1024, 200.0),
            function("fast", 16384, 3000.0),
        ];
        let told = sentence(&SPEED, &rows);
        assert_eq!(
            told.len(),
            1,
            "without a library there is no comparison: {told:?}"
        );
        assert!(
            told[0].ends_with(
                "of 1024 bytes and Kiln's fastest implementation, fast. The CPU's AES unit is busy for 50 % of the time; if it were always busy, Kiln would encrypt 10.2 GB/s"
            ),
            "{}",
            told[0]
        );
        let throughput = |rows: &[Value]| verdicts(&TOPIC, &five(&SPEED, rows)).remove(0);
        let usual = throughput(&rows);
        assert!(
            usual.starts_with("Kiln's AES-256-XTS encrypts 5.12 GB/s (5.0")
                && usual.ends_with(" on one core"),
            "{usual}"
        );
        // If a call takes twice as long, the throughput must be half as high.
        let half = throughput(&[function("fast", 1024, 400.0)]);
        assert!(half.contains("2.56 GB/s"), "{half}");
        // The headline of a single process has no interval.
        let once = verdicts(&TOPIC, &[answer(&SPEED, json!([rows[1]]))]);
        assert_eq!(once, ["Kiln's AES-256-XTS encrypts 5.12 GB/s on one core"]);
    }

    fn versus_library(cycles: f64, time: f64) -> String {
        let rows = [
            function("fast", 4096, 900.0),
            call("xts(aes)", 4096, cycles, time),
        ];
        sentence(&SPEED, &rows)[1].clone()
    }

    #[test]
    fn a_library_that_is_slower_equal_or_faster_reads_so() {
        let told = versus_library(0.5, 0.5);
        assert!(
            told.starts_with("An AES-256-XTS request of 4096 bytes to Kiln's crypto API is 2.00 times (1.98 to 2.02) as fast as one to openssl 3.0.19 (release series of 2021), the fastest installed library. Compared with that library, Kiln with 256-bit vectors is 2.22 times ("),
            "{told}"
        );
        let told = versus_library(1.25, 1.25);
        assert!(
            told.contains("crypto API takes 1.25 times (1.24 to 1.26) as long as one to"),
            "{told}"
        );
        assert!(!told.contains("0.80"), "{told}");
        let told = versus_library(1.0, 1.0);
        assert!(
            told.starts_with("No difference found: an AES-256-XTS request of 4096 bytes to Kiln's"),
            "{told}"
        );
        let told = versus_library(0.9, 1.1);
        assert!(told.starts_with("Cycles and time disagree on"), "{told}");
        assert!(
            told.contains("0.90 times the cycles, 1.10 times the time"),
            "{told}"
        );
        // Fewer cycles prove nothing if the time is uncertain.
        let told = versus_library(0.99, 1.0);
        assert!(told.starts_with("No difference"), "{told}");
    }

    #[test]
    fn a_library_of_unknown_age_has_no_year() {
        let mut row = call("xts(aes)", 4096, 0.5, 0.5);
        row["best_peer_provider"] = json!("openssl-9.9.9");
        let told = sentence(&SPEED, &[row]);
        assert!(
            told[0].contains("openssl 9.9.9, the fastest") && !told[0].contains("series"),
            "{told:?}"
        );
    }

    #[test]
    fn the_kernels_own_functions_come_before_libraries() {
        let tree = |time: f64| {
            let mut row = function("fast", 4096, 900.0);
            for (field, value) in [("best_tree_ratio", time), ("best_tree_time_ratio", time)] {
                row[field] = json!(value);
            }
            row["best_tree"] = json!("aes_xts_encrypt_vaes_avx512");
            row["best_tree_provider"] = json!("linux-6.12.117");
            row
        };
        let told = |time| {
            let mut answers = five(&SPEED, &[call("xts(aes)", 4096, 0.5, 0.5)]);
            answers.extend(five(&TREE, &[tree(time)]));
            sentences(&TOPIC, &answers)
        };
        let faster = told(0.9);
        assert!(
            faster[0].starts_with("Kiln's AES-256-XTS function is 1.11 times (")
                && faster[0].contains(
                    "as fast as aes_xts_encrypt_vaes_avx512 of linux 6.12.117 (4096 bytes)"
                )
                && faster[0].ends_with("faster in 1, equal in 0, slower in 0 of 1"),
            "{faster:?}"
        );
        assert!(
            faster[1].starts_with("An AES-256-XTS request of 4096 bytes to Kiln's crypto API"),
            "{faster:?}"
        );
        let slower = told(1.1);
        assert!(
            slower[0].contains("function takes 1.10 times (")
                && slower[0].contains("slower in 1 of 1"),
            "{slower:?}"
        );
        let equal = told(1.0);
        assert!(
            equal[0].starts_with("No difference found: Kiln's")
                && equal[0].contains("equal in 1, slower in 0"),
            "{equal:?}"
        );
    }

    fn all(rows: &[Value]) -> String {
        let told = sentence(&MORE, rows);
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    }

    #[test]
    fn ties_are_counted_as_ties() {
        let told = all(&[
            call("sha256", 64, 0.5, 0.5),
            call("sha256", 4096, 1.0, 1.0),
            call("cbc(aes)", 4096, 1.001, 1.001),
            call("ctr(aes)", 4096, 0.9, 1.1),
            call("ctr(aes)", 512, 0.25, 0.25),
        ]);
        assert!(
            told.contains("faster in 2, equal in 3 (in 1 of them cycles and time disagree), slower in 0 of 5 cases"),
            "{told}"
        );
        assert!(
            told.contains("openssl 3.0.19 (release series of 2021)"),
            "{told}"
        );
        assert!(
            told.contains(". With messages of less than 256 bytes, compared with the fastest libraries, Kiln is 2.00 times ("),
            "{told}"
        );
        let slower = all(&[
            call("sha256", 64, 2.0, 2.0),
            call("sha256", 512, 1.25, 1.25),
        ]);
        assert!(
            slower.contains("faster in 0, equal in 0, slower in 2 of 2")
                && slower.contains("Kiln takes 1.25 times (")
                && slower.contains(
                    " with 256 bytes or more. With messages of less than 256 bytes, compared with the fastest libraries, Kiln takes 2.00 times ("
                ),
            "{slower}"
        );
    }

    #[test]
    fn several_messages_at_a_time_have_a_sentence_whoever_is_ahead() {
        let many = |alg: &str, time: f64| {
            json!({"alg": alg, "provider": "ipsec-mb-1.3.0", "op": "encrypt", "key_bits": 256, "len": 4096, "together": true,
                   "impl": "jobs", "kiln_impl": "i", "kiln_time_ratio": time, "kiln_verdict": "same"})
        };
        let told = sentence(
            &MORE,
            &[
                many("cbc(aes)", 12.0),
                many("sha256", 2.0),
                many("sha512", 0.5),
                many("ctr(aes)", 1.0),
            ],
        );
        assert!(
            told[0].starts_with("With several messages at a time, ipsec-mb 1.3.0 (release series of 2022) is faster than Kiln in 2 of 4 combinations of algorithm and length. Its largest lead is 12.0 times (")
                && told[0].ends_with("the speed of Kiln (cbc(aes), 4096 bytes)"),
            "{told:?}"
        );
        // If Kiln is equally fast or faster in all rows, no library is reported as ahead.
        for time in [1.0, 0.5] {
            let told = sentence(&MORE, &[many("cbc(aes)", time), many("sha256", time)]);
            assert!(
                told[0]
                    .ends_with("faster than Kiln in 0 of 2 combinations of algorithm and length"),
                "{told:?}"
            );
        }
    }
}
