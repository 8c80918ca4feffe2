//! Tests a page that shows a thousand records of a fleet.

use std::fs;

use kiln_report::{gather, html, Options, Side};
use serde_json::{json, Value};

const MACHINES: usize = 20;
const COMMITS: usize = 10;
const ALGS: [&str; 5] = ["xts(aes)", "gcm(aes)", "sha256", "sha512", "chacha20"];
const LENGTHS: usize = 40;
/// The planted change: a commit that slows down an algorithm on one machine. The numbers identify
/// the machine, the commit and the algorithm.
const PLANTED: (usize, usize, usize) = (13, 6, 2);

/// Creates a record for one algorithm, measured on one machine at one commit.
fn record(machine: usize, commit: usize, alg: usize) -> Value {
    let slow = match (machine, alg) == (PLANTED.0, PLANTED.2) && commit >= PLANTED.1 {
        true => 1.5,
        false => 1.0,
    };
    let rows = (1..=LENGTHS).map(|n| {
        // Add noise of up to 0.5%, which is within the intervals.
        let noise = 1.0 + ((machine * 7 + commit * 13 + alg * 5 + n * 3) % 11) as f64 / 2200.0;
        let cycles = slow * noise * (100 * n) as f64;
        json!({"alg": ALGS[alg], "impl": "i", "provider": "kiln", "tier": "aesni", "level": "primitive", "layout": "plain",
            "op": "encrypt", "key_bits": 256, "len": 16 * n, "latency": false, "cycles_per_op": cycles,
            "cycles_per_byte": cycles / (16 * n) as f64, "mb_per_s": 1e3, "ci_low": 0.99 * cycles, "ci_high": 1.01 * cycles,
            "ns_per_op": cycles / 4.0, "ns_low": cycles / 4.1, "ns_high": cycles / 3.9})
    });
    json!({"kiln": "0.1.0", "commit": format!("c{commit:02}"), "features": [],
        "date": format!("2026-11-{:02}T00:00:{machine:02}Z", commit + 1), "schema": 2, "command": "speed", "type": "speed",
        "args": ["speed", ALGS[alg]], "seed": 1,
        "machine": {"model": format!("processor {machine:02}"), "kernel": "6.12", "core_hz": 4e9, "cores": 8,
                    "kernel_cc": "gcc 12"},
        "rows": rows.collect::<Vec<_>>(), "notes": ["a note"]})
}

#[test]
fn a_thousand_records_are_one_small_page_that_finds_the_change() {
    let dir = tempfile::tempdir().unwrap();
    for machine in 0..MACHINES {
        for commit in 0..COMMITS {
            for (alg, _) in ALGS.iter().enumerate() {
                let path = dir.path().join(format!("{machine}-{commit}-{alg}.json"));
                fs::write(path, record(machine, commit, alg).to_string()).unwrap();
            }
        }
    }
    let sides = gather(Side::read(dir.path()).unwrap());
    assert_eq!(sides.len(), MACHINES * COMMITS);
    let records: Vec<&Value> = sides.iter().flat_map(|s| &s.records).collect();
    assert_eq!(records.len(), 1000);
    let rows: usize = records
        .iter()
        .map(|r| r["rows"].as_array().unwrap().len())
        .sum();
    assert_eq!(rows, 1000 * LENGTHS);
    let page = html(&sides, &Options::default()).unwrap();
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let machines = page
        .split_once("What differs between machines")
        .expect("a section")
        .1;
    let (machines, commits) = machines
        .split_once("What changed over commits")
        .expect("a section");
    // Every row of every machine is compared, and only the rows affected by the planted change
    // differ.
    let all = LENGTHS * ALGS.len();
    assert!(
        machines.contains(&format!("{LENGTHS} of {all} rows differ")),
        "{}",
        &machines[..3000]
    );
    assert_eq!(
        commits
            .matches(&format!("{LENGTHS} of {all} rows differ"))
            .count(),
        1
    );
    assert_eq!(
        commits
            .matches(&format!("better. 0 of {all} rows differ"))
            .count(),
        MACHINES - 1
    );
    let planted = commits.split_once("processor 13").expect("its machine").1;
    let step = format!("<td>0.1.0 (c{:02})</td>", PLANTED.1);
    assert_eq!(planted.matches(&step).count(), LENGTHS);
    assert!(planted.contains("sha256, encrypt, 256 bit, 16 B"));
}
