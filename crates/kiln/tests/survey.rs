//! Tests `kiln survey` as users and scripts run it. Every question must be answered, or left out
//! with a reason. The survey must not fail just because something is missing, crashes or cannot be
//! written.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{fault, interrupt, kiln, kiln_with};
use serde_json::Value;

const QUESTIONS: [&str; 6] = [
    "speed",
    "softirq-simd",
    "nested-fpu",
    "fpu-budget",
    "compilers",
    "ctrlq",
];
/// Maximum page size in bytes. Any mail server accepts a page of this size.
const MOST_BYTES: u64 = 2_000_000;

/// Checks that every question in `asked` has one of three things: a headline with a value, a
/// headline that gives the reason why this machine cannot provide a value, or a note that explains
/// why the question was left out.
#[track_caller]
fn answered(doc: &Value, asked: &[&str]) {
    let rows = doc["rows"].as_array().unwrap();
    let notes = doc["notes"].to_string();
    for question in asked {
        let of: Vec<&Value> = rows.iter().filter(|r| r["question"] == *question).collect();
        assert!(!of.is_empty(), "{question}: {doc}");
        for row in of {
            let headline = row["headline"].as_str().unwrap_or_default();
            let verdict = row["verdict"].as_str().unwrap_or_default();
            let has_value = !headline.is_empty() && !verdict.starts_with("Cannot tell on");
            assert_eq!(headline.is_empty(), verdict.is_empty(), "{row}");
            assert_eq!(row["value"].is_number(), has_value, "{row}");
            let told =
                row["headline"].is_string() || notes.contains(&format!("{question}: left out: "));
            assert!(told, "{question}: {notes}");
            assert!(row["command"].as_str().unwrap().starts_with("kiln "));
        }
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    let refuses = |args: &[&str], want: &str| fault(&kiln(&[&["survey"], args].concat()), 2, want);
    refuses(&["--minutes", "0"], "--minutes 0");
    refuses(&["--minutes", "-1"], "--minutes -1");
    refuses(&["--minutes", "1", "--quick"], "use only one");
    refuses(&["--question", "sped"], "did you mean 'speed'");
    refuses(&["--tree", "/proc"], "not a Linux source tree");
    refuses(&["--report", "x", "--no-report"], "--no-report");
    let dir = tempfile::tempdir().unwrap();
    let thesis = dir.path().join("thesis.html");
    fs::write(&thesis, "<p>years of work").unwrap();
    refuses(
        &["--report", thesis.to_str().unwrap()],
        "not a report of Kiln",
    );
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "<p>years of work");
}

#[test]
fn a_quick_survey_answers_all_questions_and_leaves_records_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let args = ["survey", "--quick", "--json", "--seed", "5", "--out", out];
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    answered(&doc, &QUESTIONS);
    // These questions must have a result on any machine that can build Kiln.
    for (question, unit) in [("speed", "GB/s"), ("ctrlq", "per second")] {
        let of = |r: &Value| {
            let says = |field: &str| r[field].as_str().is_some_and(|text| text.contains(unit));
            r["question"] == question && (says("verdict") || says("headline"))
        };
        assert!(doc["rows"].as_array().unwrap().iter().any(of), "{doc}");
    }
    let records = doc["records"].as_array().unwrap();
    assert!(records.len() >= 5, "{}", records.len());
    for record in records {
        assert_eq!(
            (&record["seed"], &record["schema"]),
            (&5.into(), &doc["schema"])
        );
        assert!(
            record["machine"]["model"].is_string()
                && !record["rows"].as_array().unwrap().is_empty()
        );
    }
    let read = |name: &str| -> Value {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(read("survey.json"), doc);
    assert_eq!(read("speed.json"), records[0]);
    assert_eq!(read("speed.json")["command"], "speed");
    let page = dir.path().join("report.html");
    let size = fs::metadata(&page).unwrap().len();
    assert!((1000..MOST_BYTES).contains(&size), "{size}");
    // A second survey must be able to overwrite the files of the first one.
    let again = [
        "survey",
        "--question",
        "ctrlq",
        "--minutes",
        "0.08",
        "--out",
        out,
    ];
    let run = kiln(&again);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(
        run.stdout().lines().all(|l| l.chars().count() <= 80),
        "{}",
        run.stdout()
    );
    assert!(run.stdout().contains("report: "), "{}", run.stdout());
}

/// The survey asks only one question and has enough time to run each part in five processes.
#[test]
fn five_processes_make_an_interval_that_contains_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let rest = ["--json", "--no-report", "--seed", "5", "--out", out];
    // Try longer surveys if necessary: on a busy machine, a short one may end before the fifth
    // process starts.
    let run = |minutes: &&str| {
        let args = ["survey", "--question", "speed", "--minutes", minutes];
        let run = kiln(&[&args[..], &rest].concat());
        assert_eq!(run.status, 0, "{run:?}");
        let doc = run.json();
        let values = doc["rows"][0]["values"].as_array().unwrap().iter();
        let values: Vec<f64> = values.filter_map(Value::as_f64).collect();
        (values.len() == 5 || *minutes == "3").then_some((doc, values))
    };
    let (doc, values) = ["0.15", "0.6", "3"].iter().find_map(run).unwrap();
    let row = &doc["rows"][0];
    assert_eq!(values.len(), 5, "{row}");
    let (low, high) = (row["low"].as_f64().unwrap(), row["high"].as_f64().unwrap());
    assert!(values.iter().all(|v| (low..=high).contains(v)), "{row}");
    // Each process must have its own record and seed. The bundle contains the record of the first
    // process.
    for pass in 2..=5 {
        let text =
            fs::read_to_string(dir.path().join(format!("reruns/speed-{pass}.json"))).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["seed"], 4 + pass);
    }
    assert_eq!(doc["records"][0]["seed"], 5);
}

#[test]
fn what_is_missing_is_left_out_with_what_would_add_it() {
    let nowhere = "/no/such/library.so";
    let env = [
        ("PATH", ""),
        ("KILN_OPENSSL", nowhere),
        ("KILN_LIBGCRYPT", nowhere),
        ("KILN_NETTLE", nowhere),
        ("KILN_IPSEC_MB", nowhere),
        ("KILN_AWS_LC", nowhere),
    ];
    let args = [
        "survey",
        "--question",
        "speed,compilers",
        "--minutes",
        "0.1",
    ];
    // Not even root can write to this path.
    let report = ["--report", "/proc/kiln.html", "--json"];
    let run = kiln_with(&[&args[..], &report].concat(), &env);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    answered(&doc, &QUESTIONS);
    let notes = doc["notes"].to_string();
    for want in [
        "compilers: left out: all compilers, because none is installed: apt-get install gcc clang",
        "left out: library openssl, not installed. To include it: check KILN_OPENSSL",
        "left out: a kernel tree, because none was named. To include it: kiln survey --minutes 3 --tree DIR",
        "ctrlq: left out: not asked",
        "no report: cannot write '/proc/kiln.html'",
    ] {
        assert!(notes.contains(want), "{want}: {notes}");
    }
}

/// Without SIMD tiers, the control does not lose state although it saves nothing. The results then
/// prove nothing about the policies, so the survey must fail.
#[test]
fn a_control_without_power_fails_the_survey() {
    // Run a longer survey if necessary: on a busy machine, the shorter one omits the policy table.
    let run = ["0.1", "1"]
        .into_iter()
        .map(|minutes| {
            let args =
                format!("survey --question nested-fpu --minutes {minutes} --no-report --json");
            let args: Vec<&str> = args.split(' ').collect();
            kiln_with(&args, &[("KILN_TIERS", "generic")])
        })
        .find(|run| run.status == 1)
        .expect("a survey that fails");
    let doc = run.json();
    let told = |r: &Value| {
        r["headline"]
            .as_str()
            .is_some_and(|h| h.starts_with("No power: the control"))
    };
    assert!(doc["rows"].as_array().unwrap().iter().any(told), "{doc}");
}

/// Writes a fake compiler to the directory. When this compiler is run, it kills its parent process.
fn deadly(dir: &Path) {
    let path = dir.join("gcc");
    fs::write(&path, "#!/bin/sh\nkill -ABRT $PPID\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_question_that_dies_is_a_note_and_the_others_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    deadly(dir.path());
    let path = dir.path().to_str().unwrap();
    let args = [
        "survey",
        "--question",
        "compilers,ctrlq",
        "--minutes",
        "0.3",
        "--json",
        "--no-report",
    ];
    let run = kiln_with(&args, &[("PATH", path)]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    answered(&doc, &QUESTIONS);
    let notes = doc["notes"].to_string();
    assert!(notes.contains("compilers: ended by signal 6"), "{notes}");
    let rows = doc["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r["question"] == "ctrlq").unwrap();
    // If the machine has fewer cores than threads, the row has rates but no verdict.
    let headline = row["headline"].as_str().unwrap_or_default();
    assert!(
        headline.contains("sessions per second if they sleep"),
        "{row}"
    );
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .args(["survey", "--out"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Interrupt while the second process is running, after the first one has written its record.
    let first = dir.path().join("speed.json");
    while !first.is_file() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    interrupt(child.id());
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|l| l.starts_with("How fast")), "{rest:?}");
    assert!(rest.last().unwrap().starts_with("report: "), "{rest:?}");
    let text = fs::read_to_string(dir.path().join("survey.json")).unwrap();
    let doc: Value = serde_json::from_str(&text).unwrap();
    answered(&doc, &QUESTIONS);
    assert_eq!(doc["records"][0]["command"], "speed");
    assert!(doc["notes"]
        .to_string()
        .contains("ctrlq: left out: interrupted"));
    assert!(dir.path().join("report.html").is_file());
}
