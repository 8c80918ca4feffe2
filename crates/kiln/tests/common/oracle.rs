//! Runs `kiln test --tree --oracle` and returns its rows.

use serde_json::Value;

use super::tree::kiln_keeping;

/// Runs an oracle and returns the rows. `names` lists the algorithms or drivers to test; if it is
/// empty, all are tested.
pub fn rows(tree: &str, oracle: &str, names: &[&str], status: i32) -> Vec<Value> {
    let mut args = vec!["test", "--json", "--seed", "1", "--tree", tree, "--oracle"];
    args.push(oracle);
    args.extend(names);
    let run = kiln_keeping(&args);
    assert_eq!(run.status, status, "{}\n{}", run.stderr, run.stdout());
    let record: Value = serde_json::from_str(&run.stdout()).expect("JSON");
    let rows = record["rows"].as_array().expect("rows").clone();
    rows.into_iter()
        .filter(|r| r["suite"] == "oracle")
        .collect()
}
