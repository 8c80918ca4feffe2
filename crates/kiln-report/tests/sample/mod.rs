//! Sample records of all commands, with made-up results, many series and long names, for testing
//! pages.

use kiln_report::Side;
use serde_json::{json, Map, Value};

/// Creates the records of one machine. The speed and overhead results are multiplied by `slower`.
pub(crate) fn side(name: &str, model: &str, slower: f64) -> Side {
    let of = |command: &str, rows: Vec<Value>| record(command, model, rows);
    let mut bundle = of("survey", survey());
    bundle["records"] = json!([
        of("speed", speed(slower)),
        of("fpu", ways(slower)),
        of("fpu", policies()),
        of("fpu", esp()),
        of("budget", budget()),
        of("compilers", compilers()),
        of("ctrlq", ctrlq()),
        of("new command", vec![json!({"what": "ever", "n": 1})]),
    ]);
    Side::new(name, bundle).unwrap()
}

fn record(command: &str, model: &str, rows: Vec<Value>) -> Value {
    json!({
        "kiln": "0.1.0", "schema": 1, "command": command, "args": [command, "--quick"], "seed": u64::MAX,
        "machine": {"model": model, "kernel": "6.12.1", "core_hz": 4e9, "cores": 2, "smt": false, "load": [0.1, 0.2, 0.3],
                    "tiers": ["generic", "aesni", "vaes-avx512"], "kernel_cc": "gcc (Debian 12.2.0-14) 12.2.0"},
        "rows": rows,
        "notes": ["warning: busy: load 3.0 on 2 cores: intervals are wider than on a quiet machine", "a note that is long enough to need more than one line on the screen of a telephone, as notes often are"],
    })
}

fn survey() -> Vec<Value> {
    let row = |question: &str, headline: &str| {
        json!({"question": question, "headline": headline, "value": 1.29, "unit": "times", "baseline": 1.27, "ratio": 1.016,
               "low": 1.27, "high": 1.31, "command": "kiln fpu overhead", "source": "softirq-fpu"})
    };
    vec![
        row(
            "softirq-simd",
            "Calling AES-XTS directly is 1.29 times as fast as through the simd helper at 16 bytes",
        ),
        row(
            "fpu-budget",
            "A section of 30 µs holds 68 KiB of AES-256-XTS",
        ),
        json!({"question": "ctrlq", "headline": null, "value": null, "unit": null, "baseline": null, "ratio": null,
               "low": null, "high": null, "command": "kiln ctrlq", "source": null}),
    ]
}

fn speed(slower: f64) -> Vec<Value> {
    let mut rows = Vec::new();
    for (a, alg) in ["xts(aes)", "rfc7539(chacha20,poly1305)", "sha256"]
        .into_iter()
        .enumerate()
    {
        for (i, (imp, provider)) in [
            ("xts-aes-vaes-avx512", "kiln"),
            ("xts-aes-aesni", "kiln"),
            ("xts-aes-vaes-avx512", "linux-6.12.1"),
            ("EVP_aes_256_xts", "openssl-3.0.17"),
            ("GCRY_CIPHER_AES256_WITH_A_LONG_NAME", "libgcrypt-1.10.1"),
            ("IMB_CIPHER_XTS_256", "ipsec-mb-1.3.0"),
            ("nettle_xts_aes256", "nettle-3.8.1"),
        ]
        .into_iter()
        .enumerate()
        {
            for len in [16, 64, 256, 512, 1024, 1420, 4096, 16384] {
                let each = 0.11 * 1.7f64.powi((i + a) as i32) * slower;
                let cycles = 30.0 * (i + 1) as f64 + each * len as f64;
                rows.push(json!({
                    "alg": alg, "impl": imp, "provider": provider, "tier": null, "level": "primitive",
                    "op": if a == 2 { "digest" } else { "encrypt" }, "key_bits": if a == 2 { 0 } else { 256 }, "len": len,
                    "latency": false, "cycles_per_op": cycles, "cycles_per_byte": cycles / len as f64, "mb_per_s": 4e3 * len as f64 / cycles,
                    "ci_low": 0.99 * cycles, "ci_high": 1.03 * cycles, "limit_cycles": 0.109 * len as f64,
                }));
            }
        }
    }
    rows
}

fn ways(slower: f64) -> Vec<Value> {
    let ways = [
        ("primitive", 24.6),
        ("library", 44.0),
        ("direct", 55.7),
        ("simd-helper", 81.7),
        ("cryptd", 13653.0),
        ("scalar", 2969.0),
        ("sync-user", 2974.0),
        ("checks", 4.58),
    ];
    let row = |(path, cycles): (&str, f64)| {
        json!({"alg": "xts(aes)", "impl": "xts-aes-vaes-avx512", "provider": "kiln", "len": 16, "policy": "legacy", "path": path,
               "cycles_per_op": cycles * slower, "cycles_low": 0.9 * cycles * slower, "cycles_high": 1.2 * cycles * slower,
               "mb_per_s": 1.0, "ratio": cycles / 55.7, "ci_low": 0.9 * cycles / 55.7, "ci_high": 1.1 * cycles / 55.7})
    };
    ways.map(row).to_vec()
}

const POLICIES: [&str; 7] = [
    "legacy",
    "bh-off",
    "nested",
    "nested-v1",
    "preemptible",
    "none",
    "tree:linux-6.12",
];

fn policies() -> Vec<Value> {
    let mut rows = Vec::new();
    for load in ["xts-16", "xts-4096"] {
        for (i, policy) in POLICIES.into_iter().enumerate() {
            let mb = 400.0 + 40.0 * i as f64;
            let mut row = json!({
                "policy": policy, "version": null, "fallback": if i == 0 { "cryptd" } else { "scalar" }, "load": load,
                "impl": "xts-aes-vaes-avx512", "inject": "timer", "control": false, "task_mb_per_s": mb,
                "task_mb_per_s_low": 0.9 * mb, "task_mb_per_s_high": 1.1 * mb, "of_control": 0.98, "of_control_low": 0.95,
                "of_control_high": 1.01, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "softirq_us_p50": 0.2,
                "softirq_us_p99": 2.0 + i as f64, "softirq_us_max": 155.0, "section_us_p50": 0.02, "section_us_p999": 0.09,
                "section_us_max": 34.0, "packets": null, "corrupted": 0, "user_corrupted": 0,
            });
            for k in 0..29u64 {
                let bound = 64u64 << (k / 2);
                let bound = bound + if k % 2 == 1 { bound / 2 } else { 0 };
                let n = 10_000u64 >> k.abs_diff(4 + i as u64).min(14);
                row[format!("softirq_hist_ns_le_{bound}")] = json!(n);
                row[format!("section_hist_ns_le_{bound}")] = json!(n / 2);
            }
            row["softirq_hist_ns_more"] = json!(0);
            rows.push(row);
        }
    }
    rows
}

fn esp() -> Vec<Value> {
    let row = |(i, policy): (usize, &str)| {
        let mut row: Map<String, Value> = json!({
            "policy": policy, "version": null, "fallback": if i == 0 { "cryptd" } else { "none" }, "load": "esp", "impl": "gcm",
            "inject": "timer", "control": false, "packets": 1000, "esp_mb_per_s": 200.0 + 80.0 * i as f64, "esp_mb_per_s_low": 180.0,
            "esp_mb_per_s_high": 800.0, "corrupted": 0, "user_corrupted": 0, "t_ms": 3.2, "t_high_from_ms": 60.0, "t_high_to_ms": 130.0,
        })
        .as_object()
        .unwrap()
        .clone();
        for step in 0..60 {
            let high = (19..41).contains(&step);
            row.insert(
                format!("t_mb_per_s_{step}"),
                json!(if high { 200.0 + 70.0 * i as f64 } else { 90.0 }),
            );
            row.insert(
                format!("t_queued_{step}"),
                json!(if high && i == 0 { 1000 } else { 0 }),
            );
        }
        Value::Object(row)
    };
    let rate = |(i, policy): (usize, &str), step: u32| {
        let offered = 32_000.0 * 2f64.powi(step as i32);
        json!({
            "policy": policy, "version": null, "fallback": "none", "load": "esp", "impl": "gcm", "inject": "timer",
            "control": false, "packets": 1000, "corrupted": 0, "user_corrupted": 0, "scheduler": "eevdf-6.12",
            "offered_pps": offered, "delivered_pps": offered.min(500_000.0 * (i + 1) as f64),
        })
    };
    let policies = || POLICIES.into_iter().take(6).enumerate();
    let curves = policies().flat_map(|p| (0..8).map(move |step| rate(p, step)));
    policies().map(row).chain(curves).collect()
}

fn budget() -> Vec<Value> {
    let modes = [
        "unbounded",
        "page",
        "fixed",
        "class",
        "calibrated",
        "clocked",
        "on-demand",
    ];
    let mut rows = Vec::new();
    for imp in [
        "xts-aes-vaes-avx512",
        "rfc4106-gcm-aes-vaes-avx512-a-long-name",
    ] {
        for (i, mode) in modes.into_iter().enumerate() {
            let p50 = [400.0, 1.2, 3.0, 20.0, 27.0, 28.0, 31.0][i];
            rows.push(json!({
                "alg": "xts(aes)", "impl": imp, "op": "encrypt", "mode": mode, "data": "warm", "target_us": 30.0, "bytes": 65536,
                "section_us_p50": p50, "section_us_p95": 1.1 * p50, "section_us_p999": 1.3 * p50, "section_us_max": 20.0 * p50,
                "null_us_p999": 33.0, "loss_pct": 1.5, "loss_low": 1.1, "loss_high": 2.2, "sections_per_op": 3.5,
            }));
        }
    }
    rows
}

fn compilers() -> Vec<Value> {
    let mut rows = Vec::new();
    for subject in ["aes-generic", "sha256-generic"] {
        for (c, cc) in [
            "gcc-11",
            "gcc-12",
            "clang-14",
            "clang-22",
            "/opt/cross/bin/x86_64-linux-gnu-gcc-13",
        ]
        .into_iter()
        .enumerate()
        {
            for opt in ["O2", "Os"] {
                for (v, variant) in [
                    "default",
                    "patched",
                    "ubsan",
                    "patched+ubsan",
                    "asan",
                    "-fno-something",
                ]
                .into_iter()
                .enumerate()
                {
                    let figure = if c == 3 && v == 1 {
                        None
                    } else {
                        Some(12.0 * (1 + v * v) as f64)
                    };
                    rows.push(json!({
                        "cc": cc, "cc_version": "1.2.3", "opt": opt, "variant": variant, "abi": "64", "subject": subject, "alg": "aes",
                        "key_bits": 256, "len": 4096, "cycles_per_byte": figure, "ci_low": figure.map(|f| 0.99 * f),
                        "ci_high": figure.map(|f| 1.01 * f), "text_bytes": 4000 + v, "stack_bytes": 300,
                        "status": if figure.is_some() { "ok" } else { "crashed" }, "row_ratio": 1.0, "outlier": v > 2,
                    }));
                }
            }
        }
    }
    rows
}

fn ctrlq() -> Vec<Value> {
    let mut rows = Vec::new();
    for workers in [1, 16] {
        for (m, mode) in ["poll", "wait", "async"].into_iter().enumerate() {
            let mut row = json!({
                "mode": mode, "workers": workers, "session": "cipher", "ctrl": "inline", "depth": 1, "cores": 2, "cores_needed": 3, "ops": 100000,
                "ops_per_s": 60000.0 / (m + 1) as f64, "pairs_per_s": 30000.0 / (m + 1) as f64,
                "pairs_per_s_low": 29000.0 / (m + 1) as f64, "pairs_per_s_high": 31000.0 / (m + 1) as f64, "cpu_pct": 180.0, "cpu_us_per_op": 30.0, "lat_us_p50": 12.0, "lat_us_p99": 30.0,
                "lat_us_p999": 190.0, "lat_us_p9999": 900.0, "lat_us_max": 9000.0,
            });
            for k in 0..15u64 {
                row[format!("hist_us_le_{}", 1u64 << k)] =
                    json!(100_000u64 >> (3 * k.abs_diff(4 + m as u64)).min(20));
            }
            row["hist_us_more"] = json!(0);
            rows.push(row);
        }
    }
    rows
}
