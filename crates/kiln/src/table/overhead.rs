//! The tables of `fpu --overhead`.

use kiln_lab::overhead::Row;

use super::{align, paragraph, plain, text};

/// Paths with a ratio first, then what the simd helper and the kworker add.
pub fn all(rows: &[Row]) -> String {
    let mut paths = plain();
    paths.add_row([
        "policy", "len", "path", "driver", "cycles", "MB/s", "x direct", "95 %",
    ]);
    let mut parts = plain();
    parts.add_row(["policy", "len", "adds", "cycles"]);
    for row in rows {
        let cycles = row.cycles_per_op.map_or("-".into(), |c| format!("{c:.1}"));
        if row.mb_per_s.is_none() {
            if row.path != "setup" {
                parts.add_row([
                    row.policy.to_string(),
                    row.len.to_string(),
                    row.path.to_string(),
                    cycles,
                ]);
            }
            continue;
        }
        let interval = match (row.ci_low, row.ci_high) {
            (Some(low), Some(high)) if row.path != "direct" => format!("{low:.2}..{high:.2}"),
            _ => String::new(),
        };
        paths.add_row([
            row.policy.to_string(),
            row.len.to_string(),
            row.path.to_string(),
            short(&row.imp),
            cycles,
            row.mb_per_s.map_or("-".into(), |m| format!("{m:.0}")),
            row.ratio.map_or("-".into(), |r| format!("{r:.2}")),
            interval,
        ]);
    }
    align(&mut paths, [1, 4, 5, 6]);
    align(&mut parts, [1, 3]);
    format!("{}\n{}", text(&paths), text(&parts))
}

/// One length in short: a line a path, a column a policy; then what the detour costs.
pub fn overview(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut policies: Vec<&str> = Vec::new();
    let mut paths: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|r| r.mb_per_s.is_some()) {
        if !policies.contains(&row.policy) {
            policies.push(row.policy);
        }
        if !paths.contains(&row.path) {
            paths.push(row.path);
        }
    }
    let find = |policy: &str, path: &str| {
        rows.iter()
            .find(|r| r.policy == policy && r.path == path && r.mb_per_s.is_some())
    };
    let mut table = plain();
    let head = |p: &&str| p.to_string();
    table.add_row(std::iter::once("path".to_string()).chain(policies.iter().map(head)));
    for path in paths {
        let cell = |policy: &&str| {
            find(policy, path)
                .and_then(|r| r.cycles_per_op)
                .map_or("-".into(), |c| format!("{c:.1}"))
        };
        table.add_row(std::iter::once(path.to_string()).chain(policies.iter().map(cell)));
    }
    align(&mut table, 1..=policies.len());
    let mut out = format!(
        "Ways to {}, {} B: cycles an operation, nothing interrupting\n\n{}\n",
        first.alg,
        first.len,
        text(&table)
    );
    for policy in policies {
        let Some(ratio) = find(policy, "simd-helper").and_then(|r| r.ratio) else {
            continue;
        };
        // Messages a second through each: 487 and 461 against 384 MB/s.
        let published = match (policy, first.len) {
            ("legacy", 16) => "; published 1.27",
            _ => "",
        };
        out.push_str(&paragraph(&format!(
            "Under {policy} a direct request is {ratio:.2} times as fast as one through the simd helper{published}"
        )));
        out.push('\n');
    }
    out
}

/// Without what all drivers have in common.
fn short(driver: &str) -> String {
    driver.replace("xts-aes-", "")
}
