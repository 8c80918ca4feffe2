//! Lists the sanitizer checks that one build has and another lacks, so that the cost of each check
//! can be measured separately.

use super::toolchain::Toolchain;
use super::variant::UBSAN;

/// The parts of the address sanitizer's instrumentation that gcc and clang can turn off one by one.
const ADDRESS: [&str; 4] = ["instrument-reads", "instrument-writes", "stack", "globals"];

/// The checks for C code that `-fsanitize=undefined` enables but `UBSAN` does not contain.
/// Floating-point checks are left out. gcc does not support `function`.
const UNDEFINED_MORE: [&str; 4] = [
    "-fsanitize=pointer-overflow",
    "-fsanitize=nonnull-attribute",
    "-fsanitize=builtin",
    "-fsanitize=function",
];

/// A sanitizer check that can be enabled on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// Short name, such as `object-size`.
    pub name: String,
    /// Flags that enable only this check.
    pub alone: Vec<String>,
    /// Flags that disable this check and leave all other checks of the build enabled.
    pub off: Vec<String>,
}

/// Returns the checks that the flags `own` enable and the flags `other` do not.
pub(super) fn find_checks(cc: &Toolchain, own: &[String], other: &[String]) -> Vec<Check> {
    let others = enabled(cc, other);
    let mut checks: Vec<Check> = Vec::new();
    for name in enabled(cc, own).into_iter().filter(|n| !others.contains(n)) {
        match name.as_str() {
            "address" | "kernel-address" => checks.extend(address_checks(cc, &name)),
            _ => checks.push(Check {
                alone: vec![format!("-fsanitize={name}")],
                off: vec![format!("-fno-sanitize={name}")],
                name,
            }),
        }
    }
    checks
}

/// Returns the names listed in the `-fsanitize=` flags, in order. `undefined` expands to the checks
/// in `UBSAN` and `UNDEFINED_MORE` that the compiler knows.
fn enabled(cc: &Toolchain, flags: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let lists = flags.iter().filter_map(|f| f.strip_prefix("-fsanitize="));
    for name in lists.flat_map(|list| list.split(',')) {
        match name {
            "undefined" => {
                let all = [&UBSAN[..], &UNDEFINED_MORE].concat();
                let name = |f: String| Some(f.strip_prefix("-fsanitize=")?.to_string());
                names.extend(cc.known(&all).into_iter().filter_map(name));
            }
            name => names.push(name.to_string()),
        }
    }
    names
}

/// Returns one check for each part of the address sanitizer that can be turned off. `sanitizer` is
/// either `address` or `kernel-address`.
fn address_checks(cc: &Toolchain, sanitizer: &str) -> Vec<Check> {
    let gcc = |part: &str| vec![format!("--param=asan-{part}=0")];
    let clang = |part: &str| vec!["-mllvm".to_string(), format!("-asan-{part}=0")];
    let off: Vec<(&str, Vec<String>)> = match cc.knows(&gcc(ADDRESS[0])[0]) {
        true => ADDRESS.map(|part| (part, gcc(part))).to_vec(),
        false => ADDRESS.map(|part| (part, clang(part))).to_vec(),
    };
    let check = |(part, own): &(&str, Vec<String>)| {
        let rest = off.iter().filter(|o| o.0 != *part);
        let mut alone = vec![format!("-fsanitize={sanitizer}")];
        alone.extend(rest.flat_map(|o| o.1.clone()));
        Check {
            name: format!("{sanitizer}, {part}"),
            alone,
            off: own.clone(),
        }
    };
    off.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn the_checks_that_the_other_build_lacks_are_found() {
        let Ok(cc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let names = |own: &str, other: &str| -> Vec<String> {
            let found = find_checks(&cc, &words(own), &words(other));
            found.into_iter().map(|c| c.name).collect()
        };
        assert_eq!(
            names(
                "-O2 -fsanitize=shift,null -fsanitize=bool",
                "-fsanitize=null"
            ),
            ["shift", "bool"]
        );
        let undefined = names("-fsanitize=undefined", "");
        // gcc knows three of the four checks in `UNDEFINED_MORE`: it lacks `function`.
        assert_eq!(undefined.len(), UBSAN.len() + 3, "{undefined:?}");
        assert!(undefined.contains(&"pointer-overflow".into()));
        assert_eq!(names("-O2 -fno-tree-pre", ""), [""; 0]);
        assert_eq!(
            names("-fsanitize=kernel-address", ""),
            ADDRESS.map(|part| format!("kernel-address, {part}"))
        );
    }

    #[test]
    fn flags_enable_one_check_or_all_but_one() {
        let Ok(cc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let of = |text: &str| find_checks(&cc, &words(text), &[]);
        let shift = &of("-fsanitize=shift,null")[0];
        assert_eq!(shift.alone, ["-fsanitize=shift"]);
        assert_eq!(shift.off, ["-fno-sanitize=shift"]);
        let reads = &of("-fsanitize=address")[0];
        assert_eq!(
            reads.alone.join(" "),
            "-fsanitize=address --param=asan-instrument-writes=0 --param=asan-stack=0 --param=asan-globals=0"
        );
        assert_eq!(reads.off, ["--param=asan-instrument-reads=0"]);
        for check in of("-fsanitize=address -fsanitize=undefined") {
            let known = cc.known(&check.alone);
            assert_eq!(known.len(), check.alone.len(), "{check:?}");
        }
    }
}
