//! Tests `kiln ipsec` from a script's point of view.

use std::fs;
use std::path::Path;

use crate::common::{fault, kiln, kiln_with};

/// Expects status 2 and a single error line that contains `want`.
#[track_caller]
fn refuses(args: &[&str], want: &str) {
    fault(&kiln(&[&["ipsec"], args].concat()), 2, want);
}

/// Writes a capture in the classic pcap format. Each Ethernet frame is given as its time in
/// microseconds and its length.
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
    refuses(&["--load", "esp,xts-16"], "unknown load 'xts-16'");
    refuses(&["--fallback", "scalar"], "--fallback");
    refuses(&["--impl", "xts-aes-aesni"], "--impl");
    refuses(&["--inject", "breakpoint"], "timer, poisson, signal");
    refuses(&["--inject", "replay:x"], "timer, poisson, signal");
    refuses(&["--interrupts", "1k"], "--interrupts");
    refuses(&["--irq-rate", "100"], "--irq-rate 100");
    refuses(&["--packet-rate", "0.5"], "one rate, or two");
    refuses(&["--packet-rate", "1,2,3"], "one rate, or two");
    refuses(&["--packet-rate", "9,5"], "the low one first");
    refuses(&["--packet-rate", "-1,5"], "--packet-rate");
    refuses(&["--scheduler", "eevdf-6.13"], "did you mean 'eevdf-6.1");
    refuses(&["--scheduler-cpus", "0"], "1 to 8192");
    refuses(&["--tick-us", "0"], "--tick-us 0");
    refuses(&["--stack-ns", "100001"], "--stack-ns");
    refuses(&["--replay-window", "0"], "1 to 4096");
    refuses(&["--replay-window", "4097"], "1 to 4096");
    refuses(&["--policy", "tree:/no/such"], "own policies");
    refuses(&["--cc", "gcc"], "--cc");
}

/// The command must be found by searching the help for common IPsec terms.
#[test]
fn the_help_has_the_words_that_people_search_for() {
    let help = kiln(&["ipsec", "--help"]).stdout();
    for word in ["IPsec", "ESP", "xfrm", "cryptd", "WireGuard"] {
        assert!(help.contains(word), "{word}: {help}");
    }
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
    capture(&file, &[(0, 60)]);
    refuses(&["--load", &name], "after one packet, which has no rate");
    capture(&file, &[(0, 60), (10, 60)]);
    let bytes = fs::read(&file).unwrap();
    // Truncate the file within the second record: first in the packet data, then in the header.
    for cut in [3, 9] {
        fs::write(&file, &bytes[..bytes.len() - cut]).unwrap();
        refuses(
            &["--load", &name],
            "at offset 44: the file ends in a record",
        );
    }
}

#[test]
fn phases_of_load_have_rows_controls_and_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let args = [
        "ipsec",
        "--quick",
        "--json",
        "--policy",
        "legacy,bh-off,nested,none",
        "--packet-rate",
        "20000,300000",
        "--seconds",
        "4",
        "--out",
        out,
    ];
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    assert_eq!(doc["command"], "ipsec");
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
        assert!(row.get("offered_pps").is_none(), "{row}");
        let simd = row["impl"] != "seqiv(rfc4106-gcm-aes-fixed-time)";
        assert_eq!(n("async_punts") > 0, policy == "legacy" && simd, "{row}");
        assert_eq!(row["fallback"] == "cryptd", policy == "legacy", "{row}");
    }
    let picture = fs::read_to_string(dir.path().join("ipsec-esp.svg")).unwrap();
    assert!(picture.contains(">legacy, cryptd<") && picture.contains("<path d=\"M"));
    assert!(dir.path().join("ipsec.json").exists());
}

#[test]
fn a_search_has_rates_a_knee_and_a_control_for_each_policy() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let args = "ipsec --quick --json --policy legacy,bh-off --seconds 1 --scheduler cfs-6.1 --scheduler-cpus 2 --out";
    let args: Vec<&str> = args.split_whitespace().chain([out]).collect();
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    for policy in ["legacy", "bh-off"] {
        let of = |wanted: &dyn Fn(&serde_json::Value) -> bool| {
            let rows = doc["rows"].as_array().unwrap().iter();
            rows.filter(|r| r["policy"] == policy && wanted(r)).count()
        };
        assert_eq!(
            of(&|r| r["control"] == true && r["offered_pps"].is_null()),
            1
        );
        let ends =
            |r: &serde_json::Value| r["knee_pps_low"].is_number() || r["knee_pps_high"].is_number();
        assert_eq!(of(&|r| ends(r) && r["offered_pps"].is_null()), 1);
        assert!(of(&|r| r["offered_pps"].is_number()) > 2);
    }
    for row in doc["rows"].as_array().unwrap() {
        let n = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        assert_eq!((n("corrupted"), n("user_corrupted")), (0.0, 0.0), "{row}");
        assert_eq!((n("slice_us"), n("tick_us")), (1500.0, 4000.0), "{row}");
        assert!(row["softirq_mb_per_s"].is_null(), "{row}");
        if row["offered_pps"].is_number() {
            let lost = n("dropped") + n("ring_missed") + n("replay_lost");
            assert_eq!(n("lost_share") > 0.0, lost > 0.0, "{row}");
            let delivered = n("offered_pps") * (1.0 - n("lost_share"));
            assert!((delivered - n("delivered_pps")).abs() < 1.0, "{row}");
        }
        if row["knee_pps"].is_number() {
            assert!(n("knee_pps_low") < n("knee_pps") && n("knee_pps") < n("knee_pps_high"));
        }
    }
    let notes = doc["notes"].to_string();
    assert!(
        notes.contains("with the time slices of a machine with 2 CPUs, latency 12000"),
        "{notes}"
    );
    let picture = fs::read_to_string(dir.path().join("ipsec-esp.svg")).unwrap();
    assert!(picture.contains("packets/s offered") && picture.contains(">legacy, cryptd<"));
}

/// Measures the knee of `bh-off`. Returns the lower end of the knee's interval, the knee itself,
/// and the upper end. An end outside the tested rates is given as 0 or as infinity.
fn knee(tiers: &str, args: &[&str]) -> [f64; 3] {
    let all = "ipsec --quick --json --policy bh-off --seconds 2";
    let all: Vec<&str> = all.split(' ').chain(args.iter().copied()).collect();
    let run = match tiers {
        "" => kiln(&all),
        _ => kiln_with(&all, &[("KILN_TIERS", tiers)]),
    };
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap().clone();
    let ends =
        |r: &serde_json::Value| r["knee_pps_low"].is_number() || r["knee_pps_high"].is_number();
    let row = rows.into_iter().find(ends).expect("a knee");
    let n = |field: &str| row[field].as_f64();
    let low = n("knee_pps_low").unwrap_or(0.0);
    let high = n("knee_pps_high").unwrap_or(f64::INFINITY);
    [low, n("knee_pps").unwrap_or(low), high]
}

/// Knees measured by several processes. Other load on the host can only reduce the packet rate, so
/// the highest knee is the one that was disturbed least.
#[derive(Debug, Default)]
struct Knees(Vec<[f64; 3]>);

impl Knees {
    fn measure(&mut self, tiers: &str, seed: &str) {
        self.0.push(knee(tiers, &["--seed", seed]));
    }

    fn highest(&self) -> [f64; 3] {
        self.0
            .iter()
            .copied()
            .max_by(|a, b| a[1].total_cmp(&b[1]))
            .expect("a process at least")
    }

    /// Returns whether the interval of the highest knee in `self` overlaps that of the highest knee
    /// in `other`, as expected if the true knees are equal.
    fn overlaps(&self, other: &Knees) -> bool {
        let ([a_low, _, a_high], [b_low, _, b_high]) = (self.highest(), other.highest());
        a_low <= b_high && b_low <= a_high
    }
}

/// The knee must depend on the speed of AES, but not on the seed. Scalar AES is about eight times
/// slower than AES-NI. The configurations alternate, so that a minute of high load affects all of
/// them, and the test continues until each has had a quiet run. If the knee depended on the seed,
/// it would differ even in quiet runs.
#[test]
fn a_slower_cipher_moves_the_knee_and_another_seed_does_not() {
    if !(is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq")) {
        return println!("SKIPPED: this CPU has one tier of AES only");
    }
    let (mut slow, mut fast, mut reseeded) = (Knees::default(), Knees::default(), Knees::default());
    let is_shown = |slow: &Knees, fast: &Knees, reseeded: &Knees| {
        reseeded.overlaps(fast) && slow.highest()[2] < fast.highest()[0]
    };
    for process in 0..40 {
        slow.measure("generic", "1");
        fast.measure("generic,aesni", "1");
        reseeded.measure("generic,aesni", "2");
        if process >= 2 && is_shown(&slow, &fast, &reseeded) {
            break;
        }
    }
    println!("generic {slow:.0?}\nAES-NI {fast:.0?}\nAES-NI, another seed {reseeded:.0?}");
    assert!(slow.highest()[2] < fast.highest()[0]);
    assert!(reseeded.overlaps(&fast));
}

/// The time that the stack needs per packet limits the packet rate of a core, independently of
/// other limits.
#[test]
fn the_knee_is_not_above_what_the_stack_leaves_time_for() {
    // With 40 µs per packet, a core processes at most 25,000 packets per second. The search begins
    // above this rate, so it cannot find the lower end of the knee's interval.
    let [low, _, high] = knee("", &["--stack-ns", "40000"]);
    assert_eq!((low, high), (0.0, 32_000.0));
    // With 10 µs per packet, the limit is 100,000 packets per second. The bound is higher, because
    // 10 ms of idle time can absorb a backlog, and because the upper end of the interval may be one
    // step of 9 % above the knee.
    assert!(knee("", &["--stack-ns", "10000"])[2] <= 153_000.0);
}

#[test]
fn a_capture_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.pcap");
    let frames: Vec<(u32, u32)> = (0..500).map(|i| (40 * i, 54 + i % 3 * 700)).collect();
    capture(&file, &frames);
    let name = format!("pcap-cbc:{}", file.display());
    refuses(&["--load", &name, "--packet-rate", "1,2"], "its own times");
    let run = kiln(&[
        "ipsec",
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
        notes.contains("500 packets") && notes.contains("128 sequence numbers"),
        "{notes}"
    );
    for row in doc["rows"].as_array().unwrap() {
        assert_eq!(row["load"], name.as_str());
        assert_eq!(row["corrupted"], 0);
        if row["control"] == false {
            let n = |f: &str| row[f].as_u64().unwrap();
            // Without the packets that the task itself sent, the number of arrivals must be a
            // multiple of the number of packets in the capture.
            let arrived = n("packets") + n("dropped") + n("ring_missed") - n("own_packets");
            assert!(arrived > 0 && arrived % 500 == 0, "{row}");
        }
    }
}
