//! What a record's rows are of: which fields name a row, and which are its figures.

use crate::record::{word, Row};

/// A figure of a row: its field, the fields of its interval's ends, and what people call it.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Where its value is.
    pub field: &'static str,
    /// Where its interval's ends are.
    pub ends: Option<(&'static str, &'static str)>,
    /// What stands over its column.
    pub head: &'static str,
}

const fn plain(field: &'static str, head: &'static str) -> Figure {
    Figure {
        field,
        ends: None,
        head,
    }
}

const fn within(
    field: &'static str,
    low: &'static str,
    high: &'static str,
    head: &'static str,
) -> Figure {
    Figure {
        field,
        ends: Some((low, high)),
        head,
    }
}

/// Rows of one kind: those of a command, or one of a command's ways.
#[derive(Debug)]
pub struct Kind {
    /// Its name, which is an anchor of the page, too.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// Fields that say what a row is of.
    pub keys: &'static [&'static str],
    /// Its figures, the first of them those that machines are compared by.
    pub figures: &'static [Figure],
    /// So many of them are compared side by side.
    pub main: usize,
}

impl Kind {
    /// The kind of a record's rows, of which this is one.
    pub fn of(command: &str, row: &Row) -> &'static Kind {
        let has = |field: &str| row.contains_key(field);
        let name = match base_command(command) {
            "speed" if has("queues") => "speed-via",
            "speed" if has("driver") => "tcrypt",
            "linux-tcrypt" => "tcrypt",
            "fpu" => match () {
                _ if has("path") => "fpu-overhead",
                _ if has("instructions") => "fpu-step",
                _ if has("in_section") => "fpu-answers",
                _ if row.get("packets").is_some_and(|v| !v.is_null()) => "fpu-esp",
                _ => "fpu",
            },
            "test" if has("finding") => "constant-time",
            other => other,
        };
        let found = KINDS.iter().find(|k| k.name == name);
        found.unwrap_or(&KINDS[KINDS.len() - 1])
    }

    /// What two records must share to be of one question: rows of these fields.
    pub fn shape(row: &Row) -> Vec<String> {
        let shaping = ["path", "instructions", "in_section", "finding", "queues"];
        let has = shaping.into_iter().filter(|f| row.contains_key(*f));
        let packets = row.get("packets").is_some_and(|v| !v.is_null());
        has.map(str::to_string)
            .chain(packets.then(|| "packets".to_string()))
            .collect()
    }

    /// The words that name a row; of providers without versions if `plain`.
    pub fn key(&self, row: &Row, plain: bool) -> Vec<String> {
        let words = self.keys.iter().filter_map(|field| match row.get(*field) {
            Some(serde_json::Value::String(text)) if *field == "provider" && plain => {
                Some(family(text).to_string())
            }
            Some(serde_json::Value::String(text)) => Some(text.clone()),
            Some(serde_json::Value::Number(n)) => Some(match *field {
                "key_bits" => format!("{n} bit"),
                "len" => format!("{n} B"),
                "abi" => n.to_string(),
                "target_us" => format!("{n} µs"),
                other => format!("{other} {n}"),
            }),
            Some(serde_json::Value::Bool(true)) => Some(field.to_string()),
            _ => None,
        });
        words.collect()
    }
}

/// The command that wrote such records in Kiln 0.1, where one `kiln fpu` answered all questions about FPU policies.
pub fn base_command(command: &str) -> &str {
    match command {
        "ipsec" => "fpu",
        c if c.starts_with("fpu-") => "fpu",
        other => other,
    }
}

/// A provider without its version.
pub fn family(provider: &str) -> &str {
    let digit = |i: usize| provider[i + 1..].starts_with(|c: char| c.is_ascii_digit());
    let end = provider.match_indices('-').find(|(i, _)| digit(*i));
    end.map_or(provider, |(i, _)| &provider[..i])
}

/// Whether a row is Kiln's own.
pub fn own(row: &Row) -> bool {
    word(row, "provider") == Some("kiln")
}

/// Whether a row is of a kernel tree that the user named.
pub fn of_tree(row: &Row) -> bool {
    word(row, "provider").is_some_and(|p| family(p) == "linux")
}

/// In the order of the page; the last is for all that has no kind.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "survey",
        title: "Survey",
        question: "The five questions in a line each.",
        keys: &["question", "headline"],
        figures: &[
            within("value", "low", "high", "value"),
            plain("unit", "unit"),
            plain("baseline", "published"),
            plain("ratio", "ratio"),
            plain("source", "source"),
            plain("command", "digs deeper"),
        ],
        main: 1,
    },
    Kind {
        name: "speed",
        title: "Speed",
        question: "How fast is each implementation, and how near to what the AES unit can do?",
        keys: &[
            "alg", "op", "key_bits", "len", "impl", "provider", "config", "level", "layout",
            "latency",
        ],
        figures: &[
            within("cycles_per_op", "ci_low", "ci_high", "cycles per message"),
            within("ns_per_op", "ns_low", "ns_high", "ns per message"),
            plain("cycles_per_byte", "cycles per byte"),
            plain("mb_per_s", "MB/s"),
            plain("limit_cycles", "AES rounds alone, cycles"),
            within("ratio", "ratio_low", "ratio_high", "to the baseline"),
            plain("verdict", "verdict"),
        ],
        main: 1,
    },
    Kind {
        name: "speed-via",
        title: "Speed by way of a virtio-crypto device",
        question: "What does the way through a device cost?",
        keys: &[
            "alg", "op", "key_bits", "len", "impl", "provider", "level", "queues", "depth", "cores",
        ],
        figures: &[
            plain("mb_per_s", "MB/s"),
            plain("ops_per_s", "messages a second"),
            plain("lat_us_p50", "latency µs p50"),
            plain("lat_us_p99", "p99"),
            plain("lat_us_p999", "p99.9"),
            plain("lat_us_max", "max"),
            plain("direct_mb_per_s", "direct MB/s"),
            plain("ratio_to_direct", "share of direct"),
        ],
        main: 2,
    },
    Kind {
        name: "tcrypt",
        title: "tcrypt",
        question: "What does the tree's own benchmark say?",
        keys: &[
            "alg", "driver", "op", "key_bits", "len", "update_len", "config",
        ],
        figures: &[
            plain("cycles", "cycles"),
            plain("mb_per_s", "MB/s"),
            plain("ops", "operations"),
            plain("seconds", "seconds"),
        ],
        main: 2,
    },
    Kind {
        name: "fpu-overhead",
        title: "Methods to reach a cipher",
        question: "How can SIMD crypto be used from softirqs, and what does each method cost?",
        keys: &["alg", "len", "policy", "path", "impl", "provider", "config"],
        figures: &[
            within("cycles_per_op", "cycles_low", "cycles_high", "cycles per message"),
            within("speedup", "speedup_low", "speedup_high", "speed, to legacy with the simd helper"),
            within("ratio", "ci_low", "ci_high", "cycles, to direct"),
            within("ns_per_op", "ns_low", "ns_high", "ns per message"),
            plain("mb_per_s", "MB/s"),
        ],
        main: 2,
    },
    Kind {
        name: "fpu",
        title: "FPU policies under softirq load",
        question: "What does each FPU policy cost the task and the softirqs that interrupt it?",
        keys: &[
            "policy", "version", "fallback", "load", "impl", "inject", "control",
        ],
        figures: &[
            within("task_mb_per_s", "task_mb_per_s_low", "task_mb_per_s_high", "task MB/s"),
            within("of_control", "of_control_low", "of_control_high", "of its control"),
            within("ratio", "ratio_low", "ratio_high", "to the first"),
            plain("softirq_us_p50", "softirq µs p50"),
            plain("softirq_us_p99", "p99"),
            plain("softirq_us_max", "max"),
            plain("section_us_p50", "section µs p50"),
            plain("section_us_p999", "p99.9"),
            plain("section_us_max", "max"),
            plain("softirq_mb_per_s", "softirq MB/s"),
            plain("nested_saves", "nested saves"),
            plain("scalar_fallbacks", "scalar"),
            plain("async_punts", "to cryptd"),
            plain("reordered", "reordered"),
            plain("dropped", "dropped"),
            plain("corrupted", "wrong"),
            plain("user_corrupted", "user wrong"),
            plain("expected_wrong", "wrong if as bad as the control"),
        ],
        main: 6,
    },
    Kind {
        name: "fpu-esp",
        title: "IPsec under each FPU policy",
        question: "Is nested use of the FPU safe and worth it? From which rate does the asynchronous fallback lose IPsec packets?",
        keys: &[
            "policy", "version", "fallback", "load", "impl", "inject", "control", "scheduler", "offered_pps",
        ],
        figures: &[
            within("knee_pps", "knee_pps_low", "knee_pps_high", "loses from packets/s"),
            plain("knee_gbit_s", "Gbit/s"),
            plain("knee_core_share", "of the core"),
            plain("delivered_pps", "delivered packets/s"),
            plain("lost_share", "lost"),
            plain("core_share", "of the core, at this rate"),
            within("esp_mb_per_s", "esp_mb_per_s_low", "esp_mb_per_s_high", "ESP MB/s"),
            within("esp_ratio", "esp_ratio_low", "esp_ratio_high", "to the first"),
            plain("recovery_us", "recovery µs"),
            within("of_control", "of_control_low", "of_control_high", "task, of its control"),
            plain("softirq_us_p99", "softirq µs p99"),
            plain("packets", "packets"),
            plain("async_punts", "to cryptd"),
            plain("dropped", "dropped"),
            plain("reordered", "reordered"),
            plain("replay_lost", "replay lost"),
            plain("nested_saves", "nested saves"),
            plain("corrupted", "wrong"),
            plain("user_corrupted", "user wrong"),
        ],
        main: 3,
    },
    Kind {
        name: "fpu-step",
        title: "An interrupt before each instruction",
        question: "Does a policy lose state, wherever it is interrupted?",
        keys: &["policy", "impl", "op", "len"],
        figures: &[
            plain("instructions", "instructions"),
            plain("points", "points"),
            plain("singles", "singles"),
            plain("injected", "injected"),
            plain("pairs", "pairs"),
            plain("corrupted", "wrong"),
            plain("user_corrupted", "user wrong"),
            plain("expected_wrong", "wrong if as bad as the control"),
            plain("warnings", "warnings"),
            plain("replay", "replay"),
        ],
        main: 3,
    },
    Kind {
        name: "fpu-answers",
        title: "Is the FPU usable?",
        question: "What does each policy answer in each context?",
        keys: &["policy", "version", "context", "in_section"],
        figures: &[
            plain("usable", "usable"),
            plain("over_section", "over the section"),
            plain("warnings", "warnings"),
        ],
        main: 1,
    },
    Kind {
        name: "budget",
        title: "Bytes for an FPU section",
        question: "How many bytes may one FPU section process before it hurts latency?",
        keys: &["alg", "impl", "op", "mode", "data", "target_us"],
        figures: &[
            plain("bytes", "bytes"),
            plain("holds_bytes", "target holds, bytes"),
            plain("budget_bytes", "budget with margin, bytes"),
            plain("section_us_p50", "section µs p50"),
            plain("section_us_p95", "p95"),
            plain("section_us_p999", "p99.9"),
            plain("section_us_max", "max"),
            plain("null_us_p999", "null p99.9"),
            within("loss_pct", "loss_low", "loss_high", "loss %"),
            plain("softirq_us_p999", "softirq µs p99.9"),
            plain("wake_us_p999", "wake µs p99.9"),
            plain("sections_per_op", "sections a message"),
            plain("min_bytes", "SIMD from, bytes"),
            plain("stalls", "stalls"),
        ],
        main: 9,
    },
    Kind {
        name: "compilers",
        title: "Compilers",
        question: "Which compiler, at which flags, ruins which cipher?",
        keys: &[
            "subject", "alg", "cc", "cc_version", "opt", "variant", "abi", "len",
        ],
        figures: &[
            within("cycles_per_byte", "ci_low", "ci_high", "cycles a byte"),
            within("ns_per_byte", "ns_low", "ns_high", "ns a byte"),
            plain("row_ratio", "to the best of its row"),
            within("ratio", "ratio_low", "ratio_high", "cycles, to the baseline"),
            within("time_ratio", "time_ratio_low", "time_ratio_high", "time, to the baseline"),
            plain("text_bytes", "code, bytes"),
            plain("stack_bytes", "stack, bytes"),
            plain("status", "status"),
            plain("verdict", "verdict"),
            plain("reason", "reason"),
        ],
        main: 1,
    },
    Kind {
        name: "ctrlq",
        title: "A virtio-crypto control queue",
        question: "How should a control queue wait, and how fast can it get?",
        keys: &["mode", "workers", "session", "ctrl", "depth", "cores"],
        figures: &[
            within(
                "pairs_per_s",
                "pairs_per_s_low",
                "pairs_per_s_high",
                "pairs per second",
            ),
            plain("cores_needed", "cores needed"),
            plain("cpu_pct", "CPU %"),
            plain("cpu_us_per_op", "CPU µs per operation"),
            plain("lat_us_p50", "latency µs p50"),
            plain("lat_us_p99", "p99"),
            plain("lat_us_p999", "p99.9"),
            plain("lat_us_p9999", "p99.99"),
            plain("lat_us_max", "max"),
            plain("hold_us_p50", "lock held µs p50"),
            plain("hold_us_p99", "p99"),
            within(
                "ops_ratio_to_wait",
                "ops_ratio_to_wait_low",
                "ops_ratio_to_wait_high",
                "pairs, to wait",
            ),
            plain("cpu_ratio_to_wait", "CPU, to wait"),
        ],
        main: 6,
    },
    Kind {
        name: "linux-fidelity",
        title: "Beside real Linux",
        question: "Does the emulated CPU answer and cost what real Linux does?",
        keys: &["kind", "kernel", "policy", "question"],
        figures: &[
            plain("real", "real"),
            plain("emulated", "emulated"),
            plain("agree", "agree"),
            plain("cycles", "real, cycles"),
            plain("kiln_cycles", "emulated, cycles"),
            plain("ratio", "real, ratio"),
            plain("kiln_ratio", "emulated, ratio"),
        ],
        main: 4,
    },
    Kind {
        name: "linux-nested",
        title: "Nested sections in real Linux",
        question: "Does saving a live section hold in a real kernel?",
        keys: &["kernel", "accel", "mode", "who", "driver"],
        figures: &[
            plain("done", "messages"),
            plain("wrong", "wrong"),
            plain("refused", "refused"),
            plain("late", "late"),
            plain("over", "over a section"),
            plain("nested_saves", "nested saves"),
        ],
        main: 2,
    },
    Kind {
        name: "linux-virtio",
        title: "Linux guests on the device",
        question: "Does real Linux accept the device, and how fast is it there?",
        keys: &["front_end", "kernel", "accel", "kind", "alg", "driver", "workers", "len"],
        figures: &[
            plain("selftest", "self-test"),
            plain("ops_per_s", "operations a second"),
            plain("mb_per_s", "MB/s"),
            plain("us_max", "µs max"),
            plain("errors", "errors"),
            plain("wrong", "wrong"),
        ],
        main: 3,
    },
    Kind {
        name: "linux-selftest",
        title: "Linux's own self-tests",
        question: "Does real Linux's testmgr accept the implementations?",
        keys: &["driver", "alg", "tier"],
        figures: &[plain("selftest", "self-test"), plain("reason", "reason")],
        main: 1,
    },
    Kind {
        name: "linux-build",
        title: "Linux, built",
        question: "What was built, and how long did it take?",
        keys: &["what", "version", "cc"],
        figures: &[
            plain("seconds", "seconds"),
            plain("warnings", "warnings"),
            plain("path", "path"),
        ],
        main: 1,
    },
    Kind {
        name: "test",
        title: "Tests",
        question: "Is every implementation right, in every context?",
        keys: &["alg", "impl", "suite", "context", "tiers", "config"],
        figures: &[
            plain("cases", "cases"),
            plain("failed", "failed"),
            plain("skipped", "skipped"),
            plain("reason", "reason"),
        ],
        main: 2,
    },
    Kind {
        name: "constant-time",
        title: "Constant time",
        question: "Does time depend on keys and texts?",
        keys: &["alg", "impl", "op", "key_bits", "len"],
        figures: &[
            plain("finding", "finding"),
            plain("t", "t"),
            plain("difference_cycles", "difference, cycles"),
            plain("detectable_cycles", "detectable, cycles"),
            plain("samples", "samples"),
            plain("failed", "failed"),
        ],
        main: 2,
    },
    Kind {
        name: "virtio-check",
        title: "The device's checks",
        question: "Is a virtio-crypto device right, and safe?",
        keys: &["case"],
        figures: &[plain("status", "status"), plain("note", "note")],
        main: 1,
    },
    Kind {
        name: "self-check",
        title: "How far figures can be trusted here",
        question: "What can this machine resolve?",
        keys: &["check"],
        figures: &[
            plain("value", "value"),
            plain("unit", "unit"),
            plain("verdict", "verdict"),
            plain("meaning", "meaning"),
        ],
        main: 1,
    },
    Kind {
        name: "tree",
        title: "The kernel tree",
        question: "What does the tree hold?",
        keys: &["kind", "name", "alg", "type", "config"],
        figures: &[
            plain("status", "status"),
            plain("priority", "priority"),
            plain("test_us", "self-test µs"),
            plain("reason", "reason"),
        ],
        main: 1,
    },
    Kind {
        name: "list",
        title: "What is here",
        question: "Tiers, implementations, libraries, compilers, and the hardware's limits.",
        keys: &["kind", "name", "alg", "tier"],
        figures: &[
            plain("available", "available"),
            plain("priority", "priority"),
            plain("chosen", "chosen"),
            plain("cycles_per_byte", "cycles a byte"),
            plain("min_bytes", "SIMD from, bytes"),
            plain("value", "value"),
            plain("unit", "unit"),
            plain("reason", "reason"),
        ],
        main: 1,
    },
    Kind {
        name: "compare",
        title: "Compared",
        question: "What changed between two sides, beyond the noise?",
        keys: &["key", "unit"],
        figures: &[
            plain("a", "A"),
            plain("b", "B"),
            within("ratio", "ci_low", "ci_high", "how much more B takes"),
            within("time_ratio", "time_ratio_low", "time_ratio_high", "the same of time"),
            plain("verdict", "verdict"),
        ],
        main: 3,
    },
    Kind {
        name: "other",
        title: "More",
        question: "Rows of other commands.",
        keys: &[
            "question", "kind", "name", "alg", "impl", "provider", "op", "key_bits", "len", "function", "text",
        ],
        figures: &[],
        main: 0,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn row(value: Value) -> Row {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn ways_of_one_command_are_told_apart() {
        let of = |command: &str, value: Value| Kind::of(command, &row(value)).name;
        assert_eq!(of("fpu", json!({"path": "direct"})), "fpu-overhead");
        assert_eq!(
            of("fpu", json!({"policy": "legacy", "packets": null})),
            "fpu"
        );
        assert_eq!(
            of("fpu", json!({"policy": "legacy", "packets": 3})),
            "fpu-esp"
        );
        assert_eq!(of("fpu", json!({"instructions": 3})), "fpu-step");
        assert_eq!(of("fpu", json!({"in_section": true})), "fpu-answers");
        // Each of them is a command of its own now.
        assert_eq!(
            of("fpu-overhead", json!({"path": "direct"})),
            "fpu-overhead"
        );
        assert_eq!(of("fpu-prove", json!({"instructions": 3})), "fpu-step");
        assert_eq!(of("fpu-prove", json!({"policy": "legacy"})), "fpu");
        assert_eq!(of("fpu-usable", json!({"in_section": true})), "fpu-answers");
        assert_eq!(
            of("ipsec", json!({"policy": "legacy", "packets": 3})),
            "fpu-esp"
        );
        assert_eq!(of("speed", json!({"alg": "a"})), "speed");
        assert_eq!(of("speed", json!({"queues": 1})), "speed-via");
        assert_eq!(of("test", json!({"finding": ""})), "constant-time");
        assert_eq!(of("no such", json!({})), "other");
    }

    #[test]
    fn kinds_have_one_name_each() {
        for (n, kind) in KINDS.iter().enumerate() {
            assert!(
                KINDS[..n].iter().all(|k| k.name != kind.name),
                "{}",
                kind.name
            );
            assert!(kind.main <= kind.figures.len());
        }
    }

    #[test]
    fn a_key_names_a_row_without_versions() {
        let row = row(
            json!({"alg": "xts(aes)", "op": "encrypt", "key_bits": 256, "len": 16, "impl": "i",
            "provider": "linux-6.12.1", "level": "api", "latency": false, "cycles_per_op": 1.0}),
        );
        let kind = Kind::of("speed", &row);
        assert_eq!(
            kind.key(&row, true),
            ["xts(aes)", "encrypt", "256 bit", "16 B", "i", "linux", "api"]
        );
        assert!(kind.key(&row, false).contains(&"linux-6.12.1".to_string()));
    }
}
