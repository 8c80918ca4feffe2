//! Selects the objects that can be linked. An object can be linked if every symbol that it needs is
//! defined by another object or by a service.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cache::Cache;
use crate::make::{Object, Part};
use crate::services::Services;
use crate::symbols::{border, read_tables, Table, CPU_WORDS, LINKER, WRAPPED};
use crate::Error;

pub(crate) struct Selection {
    /// Objects to link, in link order.
    pub linked: Vec<String>,
    /// Objects in the stack that cannot be linked, each with the undefined symbols that it needs.
    pub left_out: Vec<(String, Vec<String>)>,
    /// Symbols that no object or service defines.
    pub unmet: BTreeSet<String>,
}

/// Reads the symbol tables of the objects and selects the objects to link.
pub(crate) fn select(
    cache: &Cache,
    objects: &[Object],
    services: &Services,
    part: &Part,
) -> Result<Selection, Error> {
    let paths: Vec<&str> = objects.iter().map(|o| o.path.as_str()).collect();
    let tables = read_tables(&cache.objects, &paths)?;
    let mut provided = services.provided.clone();
    provided.extend(border().into_iter().map(String::from));
    provided.extend(part.missing().iter().copied().map(String::from));
    Ok(choose(objects, &tables, &provided))
}

fn choose(
    objects: &[Object],
    tables: &HashMap<String, Table>,
    services: &BTreeSet<String>,
) -> Selection {
    let empty = Table::default();
    let table = |o: &Object| tables.get(&o.path).unwrap_or(&empty);
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let mut defined: BTreeSet<&str> = services.iter().map(String::as_str).collect();
        defined.extend(CPU_WORDS.iter().map(|(name, _)| *name));
        defined.extend(LINKER);
        for o in objects.iter().filter(|o| !missing.contains_key(&o.path)) {
            defined.extend(table(o).defined.iter().map(String::as_str));
        }
        let mut found = Vec::new();
        for o in objects.iter().filter(|o| !missing.contains_key(&o.path)) {
            let unmet: Vec<String> = table(o)
                .needed
                .iter()
                .filter(|n| !defined.contains(unwrapped(n)))
                .cloned()
                .collect();
            if !unmet.is_empty() {
                found.push((o.path.clone(), unmet));
            }
        }
        if found.is_empty() {
            break;
        }
        missing.extend(found);
    }

    // Link a library object only if another object refers to it, even if the reference is weak. If
    // two objects define the same symbol, link the first one.
    let usable: Vec<&Object> = objects
        .iter()
        .filter(|o| !missing.contains_key(&o.path))
        .collect();
    let mut owner: HashMap<&str, usize> = HashMap::new();
    for (i, o) in usable.iter().enumerate() {
        for name in &table(o).defined {
            owner.entry(name).or_insert(i);
        }
    }
    let mut wanted: BTreeSet<usize> = (0..usable.len()).filter(|&i| !usable[i].library).collect();
    let mut queue: Vec<usize> = wanted.iter().copied().collect();
    while let Some(i) = queue.pop() {
        let table = table(usable[i]);
        for name in table.needed.iter().chain(&table.optional) {
            let new = owner.get(name.as_str()).filter(|&&j| wanted.insert(j));
            queue.extend(new);
        }
    }
    let known: BTreeSet<&str> = missing
        .keys()
        .filter_map(|path| tables.get(path))
        .flat_map(|t| t.defined.iter().map(String::as_str))
        .collect();
    let unmet = missing
        .values()
        .flatten()
        .filter(|name| !known.contains(unwrapped(name)))
        .cloned()
        .collect();
    Selection {
        unmet,
        linked: wanted.iter().map(|&i| usable[i].path.clone()).collect(),
        left_out: objects
            .iter()
            .filter(|o| !o.library)
            .filter_map(|o| missing.remove_entry(&o.path))
            .collect(),
    }
}

/// Strips the linker's prefix `__real_`, which denotes the original of a wrapped function.
fn unwrapped(name: &str) -> &str {
    name.strip_prefix("__real_")
        .filter(|n| WRAPPED.contains(n))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::parse;

    fn object(path: &str, library: bool) -> Object {
        Object {
            path: path.into(),
            library,
        }
    }

    #[test]
    fn what_cannot_be_linked_is_left_out_and_fails_nothing_else() {
        let tables = parse(
            "a.o:0000 T a\na.o:     U kfree\na.o:     U helper\na.o:     U pcpu_hot\n\
             b.o:0000 T b\nb.o:     U key_put\n\
             c.o:0000 t local\nc.o:     U b\nc.o:     w optional\n\
             l.o:0000 D helper\nl.o:     U kfree\n\
             m.o:0000 T unasked\n\
             n.o:0000 T weakly_asked\na.o:     w weakly_asked\n",
        );
        let objects = [
            object("a.o", false),
            object("b.o", false),
            object("c.o", false),
            object("l.o", true),
            object("m.o", true),
            object("n.o", true),
        ];
        let services = BTreeSet::from(["kfree".to_string(), "kvfree".to_string()]);
        let selection = choose(&objects, &tables, &services);
        assert_eq!(selection.linked, ["a.o", "l.o", "n.o"]);
        assert_eq!(
            selection.left_out,
            [
                ("b.o".to_string(), vec!["key_put".to_string()]),
                ("c.o".to_string(), vec!["b".to_string()])
            ]
        );
    }
}
