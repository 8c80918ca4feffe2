//! Faults that are planted in a copy of a kernel tree, and the rows that show them.

use super::common::oracle::rows;
use super::edited::Edited;

/// An edit of a file, each text replaced once, and what shows it.
pub struct Fault {
    pub file: &'static str,
    pub edits: &'static [(&'static str, &'static str)],
    pub oracle: &'static str,
    pub driver: &'static str,
    pub rule: &'static str,
    /// Where, if that is known.
    pub place: &'static str,
}

#[allow(dead_code)]
pub const fn fault(
    oracle: &'static str,
    driver: &'static str,
    rule: &'static str,
    place: &'static str,
    file: &'static str,
    edits: &'static [(&'static str, &'static str)],
) -> Fault {
    Fault {
        file,
        edits,
        oracle,
        driver,
        rule,
        place,
    }
}

/// Plants the faults, in this order, and expects that each is found under the oracles named, and the driver named that
/// has it. No fault is in the control.
pub fn find(tree: &Edited, faults: &[&Fault], control: &str) {
    let mut files: Vec<&str> = faults.iter().map(|f| f.file).collect();
    files.sort_unstable();
    files.dedup();
    for file in files {
        tree.edit(file, |mut text| {
            for fault in faults.iter().filter(|f| f.file == file) {
                for (from, to) in fault.edits {
                    assert!(text.contains(from), "{file} has no {from:?}");
                    text = text.replacen(from, to, 1);
                }
            }
            text
        });
    }
    let mut oracles: Vec<&str> = faults.iter().map(|f| f.oracle).collect();
    oracles.sort_unstable();
    oracles.dedup();
    let mut missed = Vec::new();
    for oracle in oracles {
        let expected: Vec<_> = faults.iter().filter(|f| f.oracle == oracle).collect();
        let mut names: Vec<&str> = expected.iter().map(|f| f.driver).collect();
        names.push(control);
        let rows = rows(tree.path(), oracle, &names, 1);
        for fault in expected {
            let row = rows.iter().find(|r| r["impl"] == fault.driver);
            let finding = row.map_or("", |r| r["finding"].as_str().unwrap_or(""));
            let lines: Vec<&str> = finding.lines().collect();
            let named = lines.windows(2).any(|pair| {
                pair[0].starts_with(&format!("{}: ", fault.rule))
                    && pair[1].starts_with(&format!("where: {}", fault.place))
            });
            if !named {
                missed.push(format!("{oracle}, {}: {row:?}", fault.file));
            }
        }
        let row = rows.iter().find(|r| r["impl"] == control);
        assert_eq!(row.expect("the control")["failed"], 0, "{oracle}: {row:?}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
