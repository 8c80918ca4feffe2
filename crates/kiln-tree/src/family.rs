//! Groups drivers into families. Most drivers in a tree are template instances. All instances of a
//! template run the same code on top of different child algorithms, which are examined as drivers
//! in their own right. The oracles' quick set therefore contains only a few instances from each
//! family.

use std::collections::{BTreeMap, HashSet};

use crate::event::Subject;

/// Returns a driver's family. The family of a template instance is named after its two outermost
/// templates. Any other driver is the only member of its family.
pub(crate) fn of(driver: &str) -> &str {
    let second = driver.match_indices('(').nth(1);
    let end = second.or_else(|| driver.match_indices('(').next());
    end.map_or(driver, |(at, _)| &driver[..at])
}

/// Selects all drivers that are not template instances, and three instances from each family: the
/// first, the middle and the last by name. Synchronous, asynchronous and internal instances count
/// as separate families, because they run different code. The selection depends only on the list,
/// so all shards of a run select the same drivers.
pub(crate) fn quick_set(all: &[Subject]) -> HashSet<&str> {
    let mut families: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    let mut selected = HashSet::new();
    for subject in all {
        let driver = subject.driver.as_str();
        match driver.contains('(') {
            true => families
                .entry((of(driver), subject.is_async, subject.internal))
                .or_default()
                .push(driver),
            false => {
                selected.insert(driver);
            }
        }
    }
    for mut members in families.into_values() {
        members.sort_unstable();
        let last = members.len() - 1;
        selected.extend([0, last / 2, last].map(|place| members[place]));
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_named_by_its_two_outermost_templates() {
        let nested = "cryptd(authenc(hmac(sha1),cbc(aes)))";
        assert_eq!(of(nested), "cryptd(authenc");
        assert_eq!(of("pcbc(aes-aesni)"), "pcbc");
        assert_eq!(of("sha1-ni"), "sha1-ni");
    }

    #[test]
    fn of_a_family_three_instances_are_selected_and_all_other_drivers() {
        let subject = |driver: &str, is_async| Subject {
            name: driver.into(),
            alg: driver.into(),
            driver: driver.into(),
            kind: 0,
            is_async,
            internal: false,
        };
        let mut all: Vec<Subject> = (0..9)
            .rev()
            .map(|i| subject(&format!("lrw(ecb(c{i}))"), false))
            .collect();
        all.push(subject("lrw(cryptd(x))", true));
        all.push(subject("lrw(ecb(c1))", true));
        all.extend((0..5).map(|i| subject(&format!("sha-{i}"), false)));
        let selected = quick_set(&all);
        let instances: HashSet<&str> = selected
            .iter()
            .copied()
            .filter(|d| d.contains('('))
            .collect();
        let want = [
            "lrw(ecb(c0))",
            "lrw(ecb(c4))",
            "lrw(ecb(c8))",
            "lrw(cryptd(x))",
            "lrw(ecb(c1))",
        ];
        assert_eq!(instances, HashSet::from(want));
        assert_eq!(selected.len(), want.len() + 5);
    }
}
