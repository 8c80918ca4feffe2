//! One side of a comparison: its results by key, and the conditions under which they were measured.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use kiln_question::{table, Error};
use kiln_record::{family, read, row_type, row_types, type_of, Better, Field, Row, RowType};
use serde_json::Value;

use crate::speed;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Name of the field that contains the result.
    pub unit: &'static str,
    /// Whether a smaller number is better.
    pub less: bool,
    /// The result; NaN if the row has no value for it.
    pub value: f64,
    /// The interval of `value`; `None` if the row has no interval.
    pub interval: Option<(f64, f64)>,
    /// Whether the interval is a confidence interval over the rounds of one process. Otherwise, it
    /// predicts the result of a rerun.
    pub of_rounds: bool,
    /// Results of the individual turns. Each turn was measured directly before or after a turn of
    /// the other side.
    pub turns: Vec<f64>,
    /// The measured operation, or `None` if the row does not identify an implementation and a
    /// message length.
    pub subject: Option<Subject>,
    /// The same result in nanoseconds, if `value` is in cycles. `None` for all other units, and for
    /// rows without times, as in old records.
    pub time: Option<Box<Figure>>,
}

/// The measured operation of an implementation. Lists are sorted by these fields, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub alg: String,
    pub op: String,
    pub key_bits: u64,
    pub level: String,
    pub implementation: String,
    pub len: u64,
}

impl Subject {
    /// Reads the subject from a row. Returns `None` if the row lacks one of the fields.
    fn read(row: &Row) -> Option<Subject> {
        let text = |name: &str| Some(row.get(name)?.as_str()?.to_string());
        let number = |name: &str| row.get(name)?.as_u64();
        Some(Subject {
            alg: text("alg")?,
            op: text("op")?,
            key_bits: number("key_bits")?,
            level: text("level")?,
            implementation: match text("provider")? {
                tree if tree.starts_with("linux-") => text("impl")?,
                other => format!("{} ({})", text("impl")?, family(&other)),
            },
            len: number("len")?,
        })
    }
}

/// Where and how a side was measured. A set has several values if the side's records differ, and
/// none if the value is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origin {
    pub cpu: BTreeSet<String>,
    /// The compiler that built the measured code, and for a kernel tree also the configuration.
    pub compiler: BTreeSet<String>,
    /// Kiln's version and commit, and the kernel it ran on.
    pub program: BTreeSet<String>,
    pub command: BTreeSet<String>,
    /// Whether some of the results were measured with `--quick`.
    pub quick: bool,
}

impl Origin {
    /// Adds what a record states about how its results were measured.
    pub(super) fn add(&mut self, record: &Value) {
        let args = record["args"].as_array();
        let mut words = args.into_iter().flatten();
        self.quick |= words.any(|word| word == "--quick");
        self.command.insert(read::typed_command(record));
        let host = match read::host(record).kernel {
            Some(kernel) => format!(", in a process on Linux {kernel}"),
            None => String::new(),
        };
        self.program
            .insert(format!("Kiln {}{host}", read::build(record)));
        self.cpu.extend(describe_cpu(record));
        // Add the compiler only if some rows measure Kiln's own code: a record does not name the
        // compiler that built a kernel tree.
        let has_own_code =
            |row: &Row| read::word(row, "provider").is_none_or(|provider| provider == OWN);
        let compiler = read::fact(record, "kernel_cc").and_then(Value::as_str);
        if read::rows(record).any(has_own_code) {
            self.compiler
                .extend(compiler.map(|cc| table::compiler(cc).to_string()));
        }
    }
}

/// Describes the processor in a record, omitting trademark signs and repeated blanks.
fn describe_cpu(record: &Value) -> Option<String> {
    let fact = |name: &str| read::fact(record, name);
    let model = fact("model")?.as_str()?;
    let model = model.replace("(R)", "").replace("(TM)", "");
    let mut text = model.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((family, number)) = fact("family").zip(fact("model_number")) {
        text += &format!(" (family {family} model {number})");
    }
    if let Some(cores) = fact("cores") {
        text += &format!(", {cores} cores");
    }
    if let Some(vendor) = fact("hypervisor_vendor").and_then(Value::as_str) {
        text += &format!(", under {}", table::hypervisor(vendor));
    }
    Some(text)
}

/// The value of `provider` in rows that measure Kiln's own code.
const OWN: &str = "kiln";

/// Returns the title of a side in a commit message. It consists of `name`, the versions of the
/// measured kernel trees, and the dates of the records.
fn title(name: &str, records: &[Value]) -> String {
    let rows = records.iter().flat_map(read::rows);
    let providers = rows.filter_map(|row| read::word(row, "provider"));
    let trees = providers.filter_map(|provider| provider.strip_prefix("linux-"));
    let trees: BTreeSet<String> = trees.map(|version| format!("Linux {version}")).collect();
    let days = records.iter().filter_map(read::date);
    let days = days.filter_map(|date| Some(format!("of {}", date.split_once('T')?.0)));
    let days: BTreeSet<String> = days.collect();
    let words = trees.into_iter().chain(days);
    [name.to_string()]
        .into_iter()
        .chain(words)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Results by key, and the conditions under which they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Side {
    /// Name of the side in tables and notes.
    pub name: String,
    /// Name of the side in a commit message.
    pub title: String,
    /// Where and how the results were measured, for a commit message.
    pub origin: Origin,
    /// The results whose keys are unique.
    pub figures: BTreeMap<String, Figure>,
    /// Number of results whose key another row already uses. They are not compared, because it is
    /// not clear which row of the other side corresponds to them.
    pub ambiguous: usize,
    /// Conditions that should be equal on both sides, with the values that they have on this side.
    pub conditions: BTreeMap<String, BTreeSet<String>>,
}

impl Side {
    /// Creates a side from the rows of its records.
    pub(super) fn from_records(name: &str, records: &[Value]) -> Result<Side, Error> {
        let mut side = Side::from_rows(name, &typed_rows(records));
        if side.figures.is_empty() {
            let mut commands: Vec<&str> = Vec::new();
            let comparable = |of: &&RowType| compared(of).next().is_some();
            for of in row_types().iter().filter(comparable) {
                let name = of.commands.first().map_or("", String::as_str);
                if !commands.contains(&name) {
                    commands.push(name);
                }
            }
            let of = records.iter().find_map(|record| record["command"].as_str());
            return Err(Error::input(format!(
                "'{name}' has no result that can be compared{}: name a record of {}",
                of.map_or(String::new(), |of| format!("; it is a record of '{of}'")),
                commands.join(", ")
            )));
        }
        side.title = title(name, records);
        for record in records {
            side.measured_under(record);
            side.origin.add(record);
        }
        Ok(side)
    }

    /// Creates a side from the rows that a run of `speed` produced.
    pub(super) fn from_speed(name: &str, rows: &[speed::Row]) -> Side {
        let values: Vec<Value> = rows
            .iter()
            .map(|row| serde_json::to_value(row).expect("a row has string keys only"))
            .collect();
        let of = row_type("speed").expect("speed has a row type");
        let rows: Vec<_> = values.iter().filter_map(Value::as_object).collect();
        let typed: Vec<_> = rows.into_iter().map(|row| (of, row)).collect();
        Side::from_rows(name, &typed)
    }

    fn from_rows(name: &str, rows: &[TypedRow]) -> Side {
        // When matching rows, ignore the versions of kernel trees and libraries, unless a record
        // contains several versions of the same tree or library.
        let mut seen = HashSet::new();
        let plain = rows.iter().all(|(of, row)| seen.insert(of.key(row, true)));
        let mut side = Side {
            name: name.to_string(),
            title: name.to_string(),
            ..Side::default()
        };
        for (of, row) in rows {
            for (key, figure) in figures(of, row, &of.key(row, plain).join(", ")) {
                match side.figures.entry(key) {
                    Entry::Vacant(place) => {
                        place.insert(figure);
                    }
                    // A row that is identical in two records counts once.
                    Entry::Occupied(place) if *place.get() == figure => {}
                    Entry::Occupied(_) => side.ambiguous += 1,
                }
            }
        }
        side
    }

    /// Adds the conditions of a record: machine, program and arguments. Seeds are omitted because
    /// they are meant to differ. Output options are omitted because they do not affect results.
    pub(super) fn measured_under(&mut self, record: &Value) {
        let text = |v: &Value| match v {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let machine = &record["machine"];
        let cpu = match &machine["model"] {
            Value::Null => String::new(),
            model => format!(
                "{} (family {} model {}), {} cores",
                text(model),
                text(&machine["family"]),
                text(&machine["model_number"]),
                text(&machine["cores"])
            ),
        };
        let build = ["kiln", "commit"].map(|field| text(&record[field]));
        let command = text(&record["command"]);
        // The arguments of a survey need not be compared: they only determine the arguments of its
        // parts, and the records of the parts are compared.
        let arguments = (command != "survey").then(|| arguments(record)).flatten();
        for (what, value) in [
            ("CPU".to_string(), cpu),
            ("kernel".to_string(), text(&machine["kernel"])),
            ("Kiln".to_string(), build.join(" ").trim().to_string()),
            (
                "compiler of kernel/".to_string(),
                text(&machine["kernel_cc"]),
            ),
            (
                format!("arguments of {command}"),
                arguments.unwrap_or_default(),
            ),
        ] {
            if !value.is_empty() {
                self.conditions.entry(what).or_default().insert(value);
            }
        }
    }
}

/// Returns those arguments of a record's command that affect measurements, or `None` if the record
/// has no arguments.
fn arguments(record: &Value) -> Option<String> {
    let mut kept = Vec::new();
    let mut words = record["args"].as_array()?.iter().filter_map(Value::as_str);
    while let Some(word) = words.next() {
        match word {
            "--json" | "--no-report" => {}
            "--seed" | "--out" => {
                words.next();
            }
            word if word.starts_with("--seed=") || word.starts_with("--out=") => {}
            word => kept.push(word),
        }
    }
    Some(kept.join(" "))
}

type TypedRow<'a> = (&'static RowType, &'a Row);

/// Returns the rows of all records. Each row is paired with the row type of its record.
fn typed_rows(records: &[Value]) -> Vec<TypedRow<'_>> {
    let rows = |record| {
        let of = type_of(record);
        read::rows(record).map(move |row| (of, row))
    };
    records.iter().flat_map(rows).collect()
}

/// Returns the fields of a row type that `compare` compares.
fn compared(of: &RowType) -> impl Iterator<Item = &Field> {
    of.fields.iter().filter(|field| field.better.is_some())
}

/// Returns the results in a row, each with a key. The main result is the one in the first compared
/// field that is always present. It has the key of the row. The keys of all other results also
/// include the name of the field. Null results are left out. If all results of the row are null,
/// however, the main result is kept, because a lost result counts as a difference.
fn figures(of: &'static RowType, row: &Row, key: &str) -> Vec<(String, Figure)> {
    let mut found = Vec::new();
    let first = compared(of).find(|field| field.always);
    let is_first = |field: &&Field| first.is_some_and(|first| first.name == field.name);
    for field in compared(of).filter(|field| !is_first(field)) {
        let figure = figure(of, row, field);
        if !figure.value.is_nan() {
            found.push((format!("{key}, {}", field.name), figure));
        }
    }
    if let Some(field) = first.filter(|field| row.contains_key(&field.name)) {
        let figure = figure(of, row, field);
        // Leave out a null if the row has other results, because such a row does not measure this
        // field.
        if !figure.value.is_nan() || found.is_empty() {
            found.push((key.to_string(), figure));
        }
    }
    found
}

fn figure(of: &'static RowType, row: &Row, field: &'static Field) -> Figure {
    let number = |name: &str| read::number(row, name);
    let value = number(&field.name).unwrap_or(f64::NAN);
    let ends = field.interval.as_ref();
    let interval = ends.and_then(|(low, high)| number(low).zip(number(high)));
    let time = field.time.as_ref().and_then(|name| of.field(name));
    // A larger number is better only in fields marked `more`. All other fields, such as times, are
    // costs.
    let less = field.better != Some(Better::More);
    Figure {
        unit: &field.name,
        less,
        value,
        // An interval that does not contain the value belongs to another result, so ignore it.
        interval: interval.filter(|(low, high)| (*low..=*high).contains(&value)),
        of_rounds: !less,
        turns: Vec::new(),
        subject: Subject::read(row),
        time: time
            .map(|time| Box::new(figure(of, row, time)))
            .filter(|time| time.value.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn side(of: &str, rows: Value) -> Side {
        let records = [json!({"type": of, "rows": rows})];
        Side::from_rows("a", &typed_rows(&records))
    }

    #[test]
    fn a_key_is_what_a_row_is_of_and_not_what_it_says() {
        let side = side(
            "speed",
            json!([
                {"alg": "xts(aes)", "impl": "i", "provider": "linux-6.12.1", "level": "api", "op": "encrypt",
                 "key_bits": 256, "len": 16, "latency": false, "cycles_per_op": 50.0, "cycles_per_byte": 3.125,
                 "ci_low": 49.0, "ci_high": 51.0, "limit_cycles": 1.0},
            ]),
        );
        let keys: Vec<_> = side.figures.keys().map(String::as_str).collect();
        assert_eq!(keys, ["xts(aes), encrypt, 256 bit, 16 B, i, linux, api"]);
        let figure = &side.figures[keys[0]];
        assert_eq!((figure.unit, figure.value), ("cycles_per_op", 50.0));
        assert_eq!(figure.interval, Some((49.0, 51.0)));
        assert_eq!((side.figures.len(), side.ambiguous), (1, 0));
    }

    #[test]
    fn rows_of_several_threads_or_cold_caches_are_other_rows() {
        let row = |threads: Value| {
            let mut row = json!({"alg": "a", "cycles_per_op": 40.0});
            let all = row.as_object_mut().unwrap();
            all.extend(threads.as_object().unwrap().clone());
            row
        };
        let one = row(json!({}));
        let rows = json!([
            one,
            row(json!({"threads": 2})),
            row(json!({"threads": 4})),
            row(json!({"cold": true})),
        ]);
        let side = side("speed", rows);
        let keys: Vec<_> = side.figures.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a", "a, cold", "a, threads 2", "a, threads 4"]);
    }

    #[test]
    fn cycles_are_compared_with_their_time() {
        let row = |time: Value| {
            let mut row =
                json!({"alg": "a", "cycles_per_op": 40.0, "ci_low": 39.0, "ci_high": 41.0});
            let all = row.as_object_mut().unwrap();
            all.extend(time.as_object().unwrap().clone());
            side("speed", json!([row])).figures["a"].clone()
        };
        let time = row(json!({"ns_per_op": 10.0, "ns_low": 9.0, "ns_high": 11.0}));
        let time = time.time.unwrap();
        assert_eq!(
            (time.unit, time.value, time.interval),
            ("ns_per_op", 10.0, Some((9.0, 11.0)))
        );
        // Old records have no times, and rows without a result have no times either.
        assert_eq!(row(json!({})).time, None);
        assert_eq!(row(json!({"ns_per_op": null})).time, None);
        let compiled = json!([{"cc": "c", "cycles_per_byte": 4.0, "ns_per_byte": 1.0}]);
        let time = side("compilers", compiled).figures["c"].time.clone();
        assert_eq!(time.unwrap().unit, "ns_per_byte");
    }

    #[test]
    fn two_versions_in_one_record_are_kept_apart() {
        let row = |provider: &str| json!({"alg": "a", "provider": provider, "cycles_per_op": 1.0});
        let both = side("speed", json!([row("linux-6.12.1"), row("linux-6.13.0")]));
        assert_eq!(both.figures.len(), 2);
        assert_eq!(
            side("speed", json!([row("kiln"), row("linux-6.13.0")]))
                .figures
                .len(),
            2
        );
    }

    #[test]
    fn another_fields_interval_is_none() {
        let rows = json!([
            {"policy": "legacy", "cycles_per_op": 500.0, "ratio": 1.1, "ci_low": 1.0, "ci_high": 1.2},
            {"policy": "bh-off", "cycles_per_op": 500.0, "cycles_low": 1.0, "cycles_high": 1.2},
            {"policy": "nested", "cycles_per_op": null, "ci_low": null, "ci_high": null},
        ]);
        let side = side("fpu-overhead", rows);
        assert_eq!(side.figures["legacy"].interval, None);
        assert_eq!(side.figures["bh-off"].interval, None);
        assert!(side.figures["nested"].value.is_nan());
    }

    #[test]
    fn rates_have_their_own_intervals_and_packets_are_compared_beside_the_task() {
        let esp = |policy: &str, task: Value, packets: Value| {
            json!({"policy": policy, "load": "esp", "task_mb_per_s": task, "task_mb_per_s_low": 90.0, "task_mb_per_s_high": 110.0,
                   "esp_mb_per_s": packets, "esp_mb_per_s_low": 19.0, "esp_mb_per_s_high": 21.0})
        };
        let packets = json!([
            esp("legacy", json!(100.0), json!(20.0)),
            esp("control", json!(100.0), Value::Null),
            {"policy": "legacy", "scheduler": "eevdf-6.12", "knee_pps": 3e5, "knee_pps_low": 2e5, "knee_pps_high": 4e5},
        ]);
        let sessions = json!([
            {"mode": "poll", "session": "cipher", "pairs_per_s": 5.0, "pairs_per_s_low": 4.0, "pairs_per_s_high": 6.0,
             "ops_per_s": 10.0},
            {"mode": "poll", "session": "akcipher", "pairs_per_s": null, "ops_per_s": 10.0},
        ]);
        let records = [
            json!({"type": "fpu-esp", "rows": packets}),
            json!({"type": "ctrlq", "rows": sessions}),
        ];
        let side = Side::from_rows("a", &typed_rows(&records));
        let of = |key: &str| {
            let figure = &side.figures[key];
            (figure.unit, figure.interval)
        };
        assert_eq!(of("legacy, esp"), ("task_mb_per_s", Some((90.0, 110.0))));
        assert_eq!(
            of("legacy, esp, esp_mb_per_s"),
            ("esp_mb_per_s", Some((19.0, 21.0)))
        );
        assert_eq!(
            of("legacy, eevdf-6.12, knee_pps"),
            ("knee_pps", Some((2e5, 4e5)))
        );
        assert_eq!(of("poll, cipher"), ("pairs_per_s", Some((4.0, 6.0))));
        assert!(side.figures["poll, akcipher"].value.is_nan());
        // The first row gives two results, and each of the other four rows gives one. The null
        // `esp_mb_per_s` of the control is left out.
        assert_eq!(side.figures.len(), 6);
    }

    #[test]
    fn rows_that_cannot_be_told_apart_are_counted() {
        let row = |cycles: f64| json!({"alg": "a", "cycles_per_op": cycles});
        assert_eq!(side("speed", json!([row(1.0), row(2.0)])).ambiguous, 1);
        assert_eq!(side("speed", json!([row(1.0), row(1.0)])).ambiguous, 0);
    }

    #[test]
    fn conditions_are_what_should_be_the_same() {
        let record = json!({"command": "ipsec", "kiln": "0.1.0", "commit": "abc", "seed": 7,
                            "args": ["ipsec", "--load", "esp", "--seed", "7", "--out=x", "--json", "--slice-us", "200"],
                            "machine": {"model": "M", "family": 1, "model_number": 2, "cores": 2, "kernel": "6.1"},
                            "rows": [{"policy": "legacy", "task_mb_per_s": 1.0}]});
        let side = Side::from_records("r", &[record]).unwrap();
        let said: Vec<(&str, String)> = side
            .conditions
            .iter()
            .map(|(what, all)| (what.as_str(), all.iter().cloned().collect()))
            .collect();
        assert_eq!(
            said,
            [
                ("CPU", "M (family 1 model 2), 2 cores".to_string()),
                ("Kiln", "0.1.0 abc".to_string()),
                (
                    "arguments of ipsec",
                    "ipsec --load esp --slice-us 200".to_string()
                ),
                ("kernel", "6.1".to_string()),
            ]
        );
    }

    #[test]
    fn records_without_figures_are_refused_in_one_line() {
        let record = |of: &str, row: Value| json!({"command": "x", "type": of, "rows": [row]});
        let e = Side::from_records("r", &[record("x", json!({"a": 1}))]).unwrap_err();
        let line = e.to_string();
        let wanted = "it is a record of 'x': name a record of speed";
        assert!(line.contains(wanted), "{line}");
        assert_eq!(e.exit_code(), 2);
        let both = [
            record("speed", json!({"alg": "a", "cycles_per_op": 1.0})),
            record("ctrlq", json!({"mode": "poll", "pairs_per_s": 1.0})),
        ];
        assert_eq!(Side::from_records("r", &both).unwrap().figures.len(), 2);
    }
}
