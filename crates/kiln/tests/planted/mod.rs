//! Plants faults in a copy of a kernel tree, and checks that they are found.

use super::common::oracle::rows;
use super::edited::Edited;

/// A planted fault: the edits of a file, each of which replaces one occurrence of a text, and the
/// expected finding.
pub struct Fault {
    pub file: &'static str,
    pub edits: &'static [(&'static str, &'static str)],
    pub oracle: &'static str,
    pub driver: &'static str,
    pub rule: &'static str,
    /// Prefix of the function's name in the finding; empty if the function is not known.
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

/// Plants the faults in this order, and checks that the oracle of each fault finds it in the
/// expected driver. The driver `control` has no fault and must have no finding.
pub fn find(tree: &Edited, faults: &[&Fault], control: &'static str) {
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
    let sorted = |all: &mut Vec<&'static str>| {
        all.sort_unstable();
        all.dedup();
    };
    let mut oracles: Vec<&str> = faults.iter().map(|f| f.oracle).collect();
    let mut names: Vec<&str> = faults.iter().map(|f| f.driver).collect();
    sorted(&mut oracles);
    sorted(&mut names);
    names.push(control);
    // Run all oracles at once, because trying all templates takes longer than most oracles.
    let rows = rows(tree.path(), &oracles.join(","), &names, 1);
    let row_of = |oracle: &str, driver: &str| {
        (rows.iter()).find(|r| r["impl"] == driver && r["context"] == oracle)
    };
    let mut missed = Vec::new();
    for fault in faults {
        let row = row_of(fault.oracle, fault.driver);
        let finding = row.map_or("", |r| r["finding"].as_str().unwrap_or(""));
        let lines: Vec<&str> = finding.lines().collect();
        let named = lines.windows(2).any(|pair| {
            pair[0].starts_with(&format!("{}: ", fault.rule))
                && pair[1].starts_with(&format!("where: {}", fault.place))
        });
        if !named {
            missed.push(format!("{}, {}: {row:?}", fault.oracle, fault.file));
        }
    }
    for oracle in oracles {
        let row = row_of(oracle, control);
        assert_eq!(row.expect("the control")["failed"], 0, "{oracle}: {row:?}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
