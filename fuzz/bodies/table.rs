//! Performs the same operations (create, look up, hold, destroy and clear, in any order) on the
//! session table and on a map, and compares the results.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_virtio::table::Table;

/// Runs one input. Returns whether it looks up or removes a value that is in the table.
pub(crate) fn run(data: &[u8]) -> bool {
    let Some((&capacity, steps)) = data.split_first() else {
        return false;
    };
    let table = Table::new(capacity.into());
    let mut model = HashMap::new();
    let mut names: Vec<u64> = Vec::new();
    let mut held: Vec<(u32, Arc<u32>)> = Vec::new();
    let mut found_one = false;
    for (i, step) in steps.chunks_exact(2).enumerate() {
        let value = i as u32;
        // Use either an ID that the table returned earlier, or one that the guest made up.
        let name = match names.get(usize::from(step[1])) {
            Some(&name) => name,
            None => u64::from(step[1] & 3) << 20 | u64::from(step[1] >> 2),
        };
        match step[0] % 6 {
            0 | 1 => {
                let full = model.len() >= usize::from(capacity);
                assert_eq!(table.is_full(), full);
                let name = table.insert(value);
                assert_eq!(name.is_none(), full);
                if let Some(name) = name {
                    assert!(!names.contains(&name), "IDs are never reused");
                    names.push(name);
                    model.insert(name, value);
                }
            }
            2 => {
                let found = table.get(name);
                assert_eq!(found.as_deref(), model.get(&name));
                found_one |= found.is_some();
                held.extend(found.map(|value| (*value, value)));
            }
            3 => {
                let odd = model.get(&name).is_some_and(|v| v % 2 == 1);
                let removed = table.remove(name, |v| v % 2 == 1);
                assert_eq!(removed.is_some(), odd);
                if odd {
                    assert_eq!(removed.as_deref().copied(), model.remove(&name));
                }
            }
            4 => {
                let removed = table.remove(name, |_| true);
                found_one |= removed.is_some();
                assert_eq!(removed.as_deref().copied(), model.remove(&name));
            }
            _ if step[1] < 8 => {
                table.clear();
                model.clear();
            }
            _ => drop(held.pop()),
        }
        assert_eq!(table.len(), model.len());
        assert!(held.iter().all(|(value, kept)| *value == **kept));
    }
    found_one
}
