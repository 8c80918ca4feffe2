//! Rows of `kiln test --tree --oracle`.

use serde_json::Value;

use super::tree::kiln_keeping;

/// The rows of an oracle for these algorithms or drivers; for all of them if `names` is empty.
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
