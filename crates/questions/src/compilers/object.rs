//! Reads code size and symbols from an object file, and stack usage from the file that the compiler
//! writes with `-fstack-usage`.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind};

/// Returns the size of the code in an object, in bytes.
pub(super) fn text_bytes(object: &Path) -> Option<u64> {
    let bytes = fs::read(object).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let text = file.sections().filter(|s| s.kind() == SectionKind::Text);
    Some(text.map(|s| s.size()).sum())
}

/// Returns whether two objects have the same code and constants, and refer to the same symbols.
/// Such builds are equally fast, so any difference between their times is due to chance.
pub(super) fn have_same_code(a: &Path, b: &Path) -> bool {
    loaded(a).is_some_and(|a| loaded(b).is_some_and(|b| a == b))
}

/// Returns the name, contents and relocations of each section that is loaded at run time.
#[allow(clippy::type_complexity)]
fn loaded(object: &Path) -> Option<Vec<(String, Vec<u8>, Vec<(u64, String, i64)>)>> {
    let bytes = fs::read(object).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let target = |target| match target {
        RelocationTarget::Symbol(i) => {
            let symbol = file.symbol_by_index(i).ok()?;
            let section = symbol.section_index();
            let section = section.and_then(|i| file.section_by_index(i).ok());
            // Section symbols have no name, so use the name of the section.
            let name = symbol.name().ok().filter(|name| !name.is_empty());
            let name = name.map(str::to_string);
            name.or_else(|| Some(section?.name().ok()?.to_string()))
        }
        _ => None,
    };
    let loaded = file.sections().filter(|s| {
        let kind = s.kind();
        [SectionKind::Text, SectionKind::Data].contains(&kind)
            || [SectionKind::ReadOnlyData, SectionKind::ReadOnlyString].contains(&kind)
    });
    let sections = loaded.map(|s| {
        let relocations = s.relocations().map(|(at, r)| {
            let name = target(r.target()).unwrap_or_default();
            (at, name, r.addend())
        });
        let name = s.name().ok()?.to_string();
        Some((name, s.data().ok()?.to_vec(), relocations.collect()))
    });
    sections.collect()
}

/// Returns the highest stack usage of any function in bytes, as recorded in the file that
/// `-fstack-usage` writes; `None` if the file does not exist.
pub(super) fn stack_bytes(notes: &Path) -> Option<u64> {
    let text = fs::read_to_string(notes).ok()?;
    text.lines().filter_map(usage).max()
}

/// Parses the byte count from a line of the form `FILE:LINE:COLUMN:FUNCTION<tab>BYTES<tab>KIND`.
fn usage(line: &str) -> Option<u64> {
    line.split('\t').nth(1)?.trim().parse().ok()
}

/// Returns whether the object defines `function`, as a global or a static symbol.
pub(super) fn defines(object: &Path, function: &str) -> bool {
    symbols(object, |s| s.is_definition())
        .iter()
        .any(|name| name == function)
}

/// Returns whether the object defines `function` as a global symbol.
pub(super) fn exports(object: &Path, function: &str) -> bool {
    symbols(object, |s| s.is_definition() && s.is_global())
        .iter()
        .any(|name| name == function)
}

/// Returns the symbols that the object uses but does not define.
pub(super) fn undefined(object: &Path) -> Vec<String> {
    symbols(object, |s| s.is_undefined())
}

fn symbols(object: &Path, which: impl Fn(&object::Symbol) -> bool) -> Vec<String> {
    let Ok(bytes) = fs::read(object) else {
        return Vec::new();
    };
    let Ok(file) = object::File::parse(&*bytes) else {
        return Vec::new();
    };
    let names = file.symbols().filter(|s| which(s));
    let names = names.filter_map(|s| s.name().ok().map(str::to_string));
    names.filter(|n| !n.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_function_counts() {
        let dir = tempfile::tempdir().unwrap();
        let su = dir.path().join("a.su");
        fs::write(
            &su,
            "a.c:3:5:f\t48\tstatic\na.c:9:6:g\t320\tdynamic,bounded\n",
        )
        .unwrap();
        assert_eq!(stack_bytes(&su), Some(320));
        assert_eq!(stack_bytes(&dir.path().join("none")), None);
        assert_eq!(text_bytes(&su), None);
    }

    #[test]
    fn an_object_tells_its_code_and_its_functions() {
        let dir = tempfile::tempdir().unwrap();
        let (c, o) = (dir.path().join("a.c"), dir.path().join("a.o"));
        fs::write(
            &c,
            "static int f(int x) { return x * 3; }\nint (*g)(int) = f;\n",
        )
        .unwrap();
        let done = std::process::Command::new("cc")
            .args(["-O1", "-c"])
            .arg(&c)
            .arg("-o")
            .arg(&o)
            .status();
        if !done.is_ok_and(|s| s.success()) {
            eprintln!("SKIPPED: no cc here");
            return;
        }
        assert!((4..64).contains(&text_bytes(&o).unwrap()));
        assert!(defines(&o, "f") && !defines(&o, "h"));
        let variant = |text: &str| {
            let (c, o) = (dir.path().join("b.c"), dir.path().join("b.o"));
            fs::write(&c, text).unwrap();
            let mut cc = std::process::Command::new("cc");
            let done = cc.args(["-O1", "-g", "-c"]).arg(&c).arg("-o").arg(&o);
            assert!(done.status().unwrap().success());
            o
        };
        let same = "static int f(int x) { return x + x + x; }\nint (*g)(int) = f;\n";
        assert!(have_same_code(&o, &variant(same)));
        let other = "static int f(int x) { return x * 5; }\nint (*g)(int) = f;\n";
        assert!(!have_same_code(&o, &variant(other)));
        let callee = "int f(int);\nint (*g)(int) = f;\n";
        assert!(!have_same_code(&o, &variant(callee)));
        assert!(!have_same_code(&o, dir.path()));
    }
}
