//! Bisects the compiler flags that differ between two levels, to find the flag that causes the
//! difference in speed. The compiler must be able to list its flags.

use super::toolchain::Toolchain;

/// The result of the flag search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Culprit {
    /// Adding only this flag to the slow level makes it as fast as the fast level.
    Alone(String),
    /// Adding this flag to the slow level makes it as fast as the fast level, but only if the flags
    /// in the second field are added as well.
    With(String, Vec<String>),
    /// Even all flags together do not make the slow level as fast as the fast level, so the cause
    /// is the level itself or a parameter. The value is the number of flags.
    Level(usize),
    /// The compiler cannot list its flags.
    Unlisted,
}

/// Returns the flags that differ between two levels, as arguments that change level `from` into
/// level `to`.
pub(super) fn switches(cc: &Toolchain, from: &str, to: &str) -> Vec<String> {
    let (from, to) = (listed(cc, from), listed(cc, to));
    let mut flags = Vec::new();
    for (name, on) in &from {
        let other = to.iter().find(|(n, _)| n == name).map(|(_, on)| *on);
        match (on, other) {
            (true, Some(false)) => flags.push(format!("-fno-{name}")),
            (false, Some(true)) => flags.push(format!("-f{name}")),
            _ => {}
        }
    }
    flags
}

/// Returns all optimization flags and whether each of them is enabled at a level.
fn listed(cc: &Toolchain, level: &str) -> Vec<(String, bool)> {
    let output = cc
        .command()
        .args(["-Q", "--help=optimizers", level])
        .output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    parse(&text.unwrap_or_default())
}

fn parse(text: &str) -> Vec<(String, bool)> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_prefix("-f")?;
        match words.next()? {
            "[enabled]" => Some((name.to_string(), true)),
            "[disabled]" => Some((name.to_string(), false)),
            _ => None,
        }
    });
    lines.collect()
}

/// Finds, by bisection, the shortest prefix of the list for which `good` returns true, and reports
/// the last switch of this prefix. Each call to `good` costs a build and a measurement; the number
/// of calls is about the binary logarithm of the number of switches.
pub(super) fn search<E>(
    switches: &[String],
    good: &mut dyn FnMut(&[String]) -> Result<bool, E>,
) -> Result<Culprit, E> {
    if switches.is_empty() {
        return Ok(Culprit::Unlisted);
    }
    if !good(switches)? {
        return Ok(Culprit::Level(switches.len()));
    }
    // Invariant: the first `low` switches are not enough, but the first `high` switches are.
    let (mut low, mut high) = (0, switches.len());
    while high - low > 1 {
        let middle = (low + high) / 2;
        match good(&switches[..middle])? {
            true => high = middle,
            false => low = middle,
        }
    }
    let found = switches[high - 1].clone();
    Ok(match good(std::slice::from_ref(&found))? {
        true => Culprit::Alone(found),
        false => Culprit::With(found, switches[..high - 1].to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("-fno-{i}")).collect()
    }

    #[test]
    fn one_flag_among_many_is_found_in_few_questions() {
        for n in [1, 2, 33, 60] {
            for planted in 0..n {
                let mut asked = 0;
                let flag = format!("-fno-{planted}");
                let found = search::<()>(&names(n), &mut |set| {
                    asked += 1;
                    Ok(set.contains(&flag))
                });
                assert_eq!(found, Ok(Culprit::Alone(flag.clone())));
                assert!(asked <= 9, "{asked} of {n}");
            }
        }
    }

    #[test]
    fn two_that_only_do_it_together_and_none() {
        let both = |set: &[String]| {
            Ok::<_, ()>(set.contains(&"-fno-2".into()) && set.contains(&"-fno-5".into()))
        };
        let found = search(&names(9), &mut |s| both(s)).unwrap();
        assert_eq!(found, Culprit::With("-fno-5".into(), names(5)));
        assert_eq!(
            search::<()>(&names(9), &mut |_| Ok(false)),
            Ok(Culprit::Level(9))
        );
        assert_eq!(search::<()>(&[], &mut |_| Ok(true)), Ok(Culprit::Unlisted));
    }

    #[test]
    fn the_list_of_gcc_is_read() {
        let text = "The following options control optimizations:\n  -faggressive-loop-optimizations \t[enabled]\n  \
                    -fcode-hoisting             \t[disabled]\n  -O<number>\n  -fvect-cost-model=[x|y] \tcheap\n";
        let found = parse(text);
        assert_eq!(
            found,
            [
                ("aggressive-loop-optimizations".to_string(), true),
                ("code-hoisting".to_string(), false)
            ]
        );
        let Ok(gcc) = Toolchain::find("gcc") else {
            eprintln!("SKIPPED: no gcc here");
            return;
        };
        let flags = switches(&gcc, "-O2", "-O1");
        assert!(flags.iter().any(|f| f == "-fno-code-hoisting"), "{flags:?}");
    }
}
