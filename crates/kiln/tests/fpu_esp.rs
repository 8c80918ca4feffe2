//! `kiln fpu --load esp` and `pcap:FILE` as scripts see them.

mod common;

use std::fs;
use std::path::Path;

use common::{fault, kiln};

/// Status 2 with one line that contains `want`.
#[track_caller]
fn refuses(args: &[&str], want: &str) {
    fault(&kiln(&[&["fpu"], args].concat()), 2, want);
}

/// A classic capture of Ethernet frames: microseconds and lengths.
fn capture(path: &Path, frames: &[(u32, u32)]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1u32] {
        bytes.extend(word.to_le_bytes());
    }
    for &(us, len) in frames {
        for word in [us / 1_000_000, us % 1_000_000, 4, len, 0x0800_0000] {
            bytes.extend(word.to_le_bytes());
        }
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    refuses(&["--load", "esp-cbd"], "did you mean 'esp-cbc'");
    refuses(&["--load", "esp,xts-16"], "other loads");
    refuses(
        &["--load", "esp", "--fallback", "scalar"],
        "--fallback scalar",
    );
    refuses(&["--load", "esp", "--impl", "xts-aes-aesni"], "--impl");
    refuses(&["--load", "esp", "--usable"], "--usable");
    refuses(
        &["--load", "esp", "--inject", "breakpoint"],
        "--inject timer",
    );
    refuses(&["--load", "esp", "--irq-rate", "100"], "--irq-rate 100");
    refuses(&["--load", "esp", "--packet-rate", "5"], "two rates");
    refuses(
        &["--load", "esp", "--packet-rate", "9,5"],
        "the low one first",
    );
    refuses(&["--load", "esp", "--packet-rate", "-1,5"], "--packet-rate");
    refuses(&["--load", "esp", "--replay-window", "0"], "1 to 4096");
    refuses(&["--load", "esp", "--replay-window", "4097"], "1 to 4096");
    refuses(
        &["--load", "esp", "--policy", "tree:/no/such"],
        "own policies",
    );
    refuses(&["--replay-window", "64"], "--load esp");
    refuses(&["--packet-rate", "1,2"], "--load esp");
    refuses(&["--overhead", "--replay-window", "64"], "--overhead takes");
}

#[test]
fn captures_that_cannot_be_read_are_refused_with_the_offset() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcap");
    let name = format!("pcap:{}", file.display());
    refuses(&["--load", "pcap"], "name the capture file");
    refuses(&["--load", "pcap:/no/such"], "cannot read");
    refuses(
        &["--load", &format!("pcap:{}", dir.path().display())],
        "directory",
    );
    fs::write(&file, "").unwrap();
    refuses(&["--load", &name], "at offset 0");
    fs::write(&file, "no capture").unwrap();
    refuses(&["--load", &name], "neither a pcap nor a pcapng");
    capture(&file, &[]);
    refuses(
        &["--load", &name],
        "at offset 24: the file ends without a packet",
    );
    capture(&file, &[(0, 60), (10, 60)]);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    refuses(&["--load", &name], "at offset 60: a record has 4 bytes");
    fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    refuses(&["--load", &name], "at offset 52: the file ends in");
}

#[test]
fn a_load_of_packets_has_rows_controls_and_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let args = [
        "fpu",
        "--load",
        "esp",
        "--quick",
        "--json",
        "--policy",
        "legacy,bh-off,nested,none",
        "--out",
        out,
    ];
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        for field in "packets esp_mb_per_s replay_lost recovery_us async_punts reordered dropped ring_missed \
                      own_packets esp_ratio softirq_us_p99 task_mb_per_s fallback load"
            .split_whitespace()
        {
            assert!(row.get(field).is_some(), "{field}");
        }
        let n = |field: &str| row[field].as_u64().unwrap();
        let (policy, control) = (row["policy"].as_str().unwrap(), row["control"] == true);
        if control {
            assert_eq!((n("packets"), n("async_punts"), n("corrupted")), (0, 0, 0));
            assert!(row["esp_mb_per_s"].is_null() && row["recovery_us"].is_null());
            continue;
        }
        assert!(n("packets") > 1000, "{row}");
        assert!(row["esp_mb_per_s"].as_f64() > Some(0.0), "{row}");
        assert_eq!(
            n("corrupted") + n("user_corrupted") > 0,
            policy == "none",
            "{row}"
        );
        let simd = row["impl"] != "seqiv(rfc4106-gcm-aes-fixed-time)";
        assert_eq!(n("async_punts") > 0, policy == "legacy" && simd, "{row}");
        assert_eq!(row["fallback"] == "cryptd", policy == "legacy", "{row}");
    }
    let picture = fs::read_to_string(dir.path().join("fpu-esp.svg")).unwrap();
    assert!(picture.contains(">legacy, cryptd<") && picture.contains("<path d='M"));
    assert!(dir.path().join("fpu.json").exists());
}

#[test]
fn a_capture_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcap");
    let frames: Vec<(u32, u32)> = (0..500).map(|i| (40 * i, 54 + i % 3 * 700)).collect();
    capture(&file, &frames);
    let name = format!("pcap-cbc:{}", file.display());
    refuses(
        &["--load", &name, "--packet-rate", "1,2"],
        "times of its own",
    );
    let run = kiln(&[
        "fpu",
        "--load",
        &name,
        "--quick",
        "--json",
        "--policy",
        "legacy,bh-off",
        "--replay-window",
        "128",
    ]);
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    let notes = doc["notes"].to_string();
    assert!(
        notes.contains("500 packets") && notes.contains("128 numbers"),
        "{notes}"
    );
    for row in doc["rows"].as_array().unwrap() {
        assert_eq!(row["load"], name.as_str());
        assert_eq!(row["corrupted"], 0);
        if row["control"] == false {
            let n = |f: &str| row[f].as_u64().unwrap();
            // Whole rounds of the capture, and what the task sent.
            let arrived = n("packets") + n("dropped") + n("ring_missed") - n("own_packets");
            assert!(arrived > 0 && arrived % 500 == 0, "{row}");
        }
    }
}
