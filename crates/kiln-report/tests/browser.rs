//! Tests the report in a browser: it must render, be legible at any width in light and dark mode,
//! have sortable tables, and load no other resources.

mod sample;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kiln_report::{html, Options, Side};
use serde_json::{json, Value};

const CHECK: &str = include_str!("browser/check.js");
/// Maximum time a browser may run before it is killed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Held while a browser runs, because two browsers at once are too slow.
static BROWSER: Mutex<()> = Mutex::new(());

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let path = env::var_os("PATH")?;
    let found = env::split_paths(&path)
        .flat_map(|dir| names.map(|n| dir.join(n)))
        .find(|p| p.is_file());
    if found.is_none() {
        eprintln!(
            "\nSKIPPED: no browser here: the page was not looked at: apt-get install chromium fonts-dejavu-core\n"
        );
    }
    found
}

/// A page shown in a frame. The fields are the frame's name, the page, the frame's width, whether
/// dark mode is on, and whether to sort the tables.
struct Frame<'a> {
    name: &'a str,
    page: &'a str,
    width: u32,
    dark: bool,
    sort: bool,
}

/// Shows the frames in the browser. Returns the verdicts of the script that checks the frames, and
/// the browser's console messages.
fn look(browser: &Path, frames: &[Frame]) -> (Vec<Value>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut doc = String::from("<!DOCTYPE html><html><head><meta charset=utf-8></head><body>");
    for f in frames {
        let flag = |name: &str, on: bool| {
            if on {
                format!(" data-{name}=1")
            } else {
                String::new()
            }
        };
        let _ = write!(
            doc,
            "<iframe name=\"{}\" style=\"border:0;width:{}px;height:900px\"{}{} srcdoc=\"{}\"></iframe>",
            f.name,
            f.width,
            flag("dark", f.dark),
            flag("sort", f.sort),
            f.page.replace('&', "&amp;").replace('"', "&quot;")
        );
    }
    let _ = write!(doc, "<script>{CHECK}</script></body></html>");
    let file = dir.path().join("frames.html");
    fs::write(&file, doc).unwrap();
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    let _turn = BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--window-size=1400,1000",
        ])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the browser does not end");
        }
        sleep(Duration::from_millis(20));
    }
    let dom = fs::read_to_string(out).unwrap();
    let said = fs::read(err).unwrap();
    let complaints: Vec<String> = String::from_utf8_lossy(&said)
        .lines()
        .filter(|l| l.contains("CONSOLE"))
        .map(|l| l.chars().take(300).collect())
        .collect();
    let verdict = dom
        .split_once("<pre id=\"verdict\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((verdict, _)) = verdict else {
        panic!(
            "no verdict: {complaints:?}\n{}",
            dom.chars().take(500).collect::<String>()
        );
    };
    let verdict = verdict
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&nbsp;", "\u{a0}")
        .replace("&amp;", "&");
    (serde_json::from_str(&verdict).unwrap(), complaints)
}

fn faults(verdict: &Value) -> Vec<&str> {
    verdict["faults"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

fn one_side() -> Vec<Side> {
    vec![sample::side("one", "A processor", 1.0)]
}

#[test]
fn the_page_is_legible_and_alone() {
    let Some(browser) = browser() else { return };
    let one = html(&one_side(), &Options::default()).unwrap();
    let two = [
        sample::side("before", "A processor", 1.0),
        sample::side("after", "Another processor, of a long name", 1.4),
    ];
    let two = html(&two, &Options::default()).unwrap();
    let hostile = html(&[hostile()], &Options::default()).unwrap();
    let frame = |name, page, width, dark, sort| Frame {
        name,
        page,
        width,
        dark,
        sort,
    };
    let (verdicts, complaints) = look(
        &browser,
        &[
            frame("narrow", &one, 390, false, true),
            frame("wide, dark", &one, 1280, true, false),
            frame("two, narrow, dark", &two, 390, true, false),
            frame("two, wide", &two, 1280, false, true),
            frame("hostile", &hostile, 390, false, false),
        ],
    );
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_eq!(verdicts.len(), 5);
    for v in &verdicts {
        assert!(faults(v).is_empty(), "{}: {:#?}", v["name"], faults(v));
    }
    let titles: Vec<&str> = verdicts[0]["titles"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for title in [
        "xts(aes), encrypt, 256 bit",
        "rfc7539(chacha20,poly1305), encrypt, 256 bit",
        "sha256, digest",
        "xts(aes), 16 B, legacy, kiln",
        "xts-16: throughput of the task",
        "xts-4096: time from raising a softirq to its handler",
        "xts-4096: FPU sections",
        "esp: packets delivered",
        "esp: payload received",
        "esp: waiting for cryptd",
        "esp: payload of the high phase",
        "xts-aes-vaes-avx512, encrypt, warm, 30 µs",
        "aes-generic, aes",
        "sha256-generic, aes",
        "workers 1, cipher, inline, cores 2",
        "workers 16, cipher, inline, cores 2",
    ] {
        assert!(titles.contains(&title), "no '{title}' among {titles:#?}");
    }
    assert!(
        verdicts[0]["sorted"].as_u64().unwrap() > 20,
        "{}",
        verdicts[0]["sorted"]
    );
    // Each record has a button that saves the record with full precision.
    let saves = verdicts[0]["saves"].as_array().unwrap();
    let side = &one_side()[0];
    assert_eq!(saves.len(), side.records.len());
    for (save, record) in saves.iter().zip(&side.records) {
        let text: Value = serde_json::from_str(save["text"].as_str().unwrap()).unwrap();
        let given: Value = serde_json::from_str(&record.to_string()).unwrap();
        assert_eq!(text["seed"], u64::MAX);
        assert_eq!(
            text["rows"].as_array().map(Vec::len),
            given["rows"].as_array().map(Vec::len)
        );
        let name = given["command"].as_str().unwrap().replace(' ', "_");
        assert_eq!(save["name"], format!("{name}.json"));
    }
    // With two sides, each chart of `kiln speed` shows both sides together, and every other chart
    // appears once per side.
    assert_eq!(
        verdicts[3]["titles"].as_array().unwrap().len(),
        2 * titles.len() - 3
    );
}

/// Controls: the checks above must detect each of these planted faults.
#[test]
fn faults_of_a_page_are_found() {
    let Some(browser) = browser() else { return };
    let good = html(&one_side(), &Options::default()).unwrap();
    let free = {
        let (head, rest) = good.split_once("<meta http-equiv=").unwrap();
        format!("{head}{}", rest.split_once('>').unwrap().1)
    };
    let begin = |svg: &str| good.replacen("</desc>", &format!("</desc>{svg}"), 1);
    let end = |page: &str, more: &str| page.replacen("</body>", &format!("{more}</body>"), 1);
    let label = |x: u32, y: u32, size: u32, fill: &str, said: &str| {
        format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{fill}\">{said}</text>")
    };
    let overlap = begin(
        &(label(100, 120, 12, "#000", "one here") + &label(104, 122, 12, "#000", "one there")),
    );
    let small = begin(&label(100, 120, 5, "#000", "small"));
    let faint = begin(&label(100, 120, 12, "#eee", "faint"));
    let outside = begin(&label(340, 120, 12, "#000", "a word that leaves"));
    let wide = end(&good, "<table><tr><td><svg width=\"700\" height=\"9\"><title>w</title><desc>w</desc></svg></td></tr></table>");
    let image = "<img src=\"https://127.0.0.1:9/a.png\" alt=\"\">";
    let (blocked, loaded) = (end(&good, image), end(&free, image));
    let script = end(&good, "<script>throw new Error('thrown')</script>");
    let error = end(&free, "<script>throw new Error('thrown')</script>");
    let pages = [
        &overlap, &small, &faint, &outside, &wide, &blocked, &loaded, &script, &error,
    ];
    let names = [
        "overlap", "small", "faint", "outside", "wide", "blocked", "loaded", "script", "error",
    ];
    let frames: Vec<Frame> = names
        .iter()
        .zip(pages)
        .map(|(name, page)| Frame {
            name,
            page,
            width: 390,
            dark: false,
            sort: false,
        })
        .collect();
    let (verdicts, complaints) = look(&browser, &frames);
    for (n, what) in [
        (0, "'one here' and 'one there' overlap"),
        (1, "'small' is"),
        (2, "'faint' has a contrast"),
        (3, "'a word that leaves' leaves"),
        (4, "px in a window of"),
        (6, "asks for https://127.0.0.1:9/a.png"),
    ] {
        assert!(
            faults(&verdicts[n]).iter().any(|f| f.contains(what)),
            "{what}: {:?}",
            faults(&verdicts[n])
        );
    }
    let complained = |what: &str| complaints.iter().any(|c| c.contains(what));
    assert!(complained("a.png"), "{complaints:#?}");
    assert!(complained("Content Security Policy"), "{complaints:#?}");
    assert!(complained("thrown"), "{complaints:#?}");
}

#[test]
fn warnings_come_before_figures_and_each_once() {
    let page = html(&one_side(), &Options::default()).unwrap();
    let shown = page.split("<script").next().unwrap();
    let warning = shown.find("busy: load 3.0").unwrap();
    assert!(warning < shown.find("<svg").unwrap());
    let head = &shown[..shown.find("<main").unwrap()];
    assert_eq!(head.matches("busy: load 3.0").count(), 1);
}

/// Records from a malicious machine. Almost every string in them contains markup, and some rows
/// have values of unexpected types or extreme numbers.
fn hostile() -> Side {
    let evil =
        "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>'\"`${1}<!--";
    let mut side = sample::side(evil, evil, 1.0);
    fn spoil(value: &mut Value, evil: &str) {
        match value {
            Value::String(text) if text != "ok" => *text = format!("{text}{evil}"),
            Value::Array(all) => all.iter_mut().for_each(|v| spoil(v, evil)),
            Value::Object(all) => all.values_mut().for_each(|v| spoil(v, evil)),
            _ => {}
        }
    }
    for record in &mut side.records {
        let command = record["command"].clone();
        spoil(&mut record["rows"], evil);
        spoil(&mut record["notes"], evil);
        spoil(&mut record["args"], evil);
        spoil(&mut record["machine"], evil);
        record["command"] = command;
        let rows = record["rows"].as_array_mut().unwrap();
        rows.push(json!({"alg": [evil], "len": -1, "key_bits": {"a": evil}, "cycles_per_op": 1e308, "t_ms": -1}));
        rows.push(json!({evil: evil, "cycles_per_byte": 1e-300, "len": u64::MAX, "section_us_p50": -3, "section_us_p999": 0}));
    }
    side
}

#[test]
fn no_word_of_a_record_is_markup() {
    let page = html(&[hostile()], &Options::default()).unwrap();
    // Only the embedded records and the page's own script may use these tags.
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--"));
    assert!(!page.contains("NaN") && !page.contains(">inf"));
    let back = tempfile::tempdir().unwrap();
    let file = back.path().join("report.html");
    fs::write(&file, &page).unwrap();
    // Convert the records to JSON text and back, because the page stores them as text, and numbers
    // may lose precision in the conversion.
    let mut given = hostile();
    for record in &mut given.records {
        *record = serde_json::from_str(&record.to_string()).unwrap();
    }
    assert_eq!(Side::read(&file).unwrap(), [given]);
}

#[test]
fn a_page_has_a_limit_and_says_what_it_leaves_out() {
    let mut side = sample::side("s", "m", 1.0);
    let page = html(&[side.clone()], &Options::default()).unwrap();
    assert!(
        page.len() < 2 << 20 && !page.contains("too large for this page"),
        "{}",
        page.len()
    );
    let rows = side.records[1]["rows"].as_array_mut().unwrap();
    let row = rows[0].clone();
    rows.resize(8000, row);
    let page = html(&[side.clone()], &Options::default()).unwrap();
    assert!(page.len() < 2 << 20, "{}", page.len());
    assert_eq!(page.matches("too large for this page").count(), 1);
    // The page must omit the record that is too large and still contain the others.
    assert!(page.contains("\"command\":\"ctrlq\"") && !page.contains("\"command\":\"speed\""));
}
