//! Decides whether a run could have detected that a policy loses state. A verdict needs a control
//! that does lose state, and enough interrupts.
//!
//! The control saves nothing. If it has `w` wrong results after `m` interrupts have hit sections,
//! the probability that an interrupt spoils a result is estimated as `w / m`. If interrupts hit the
//! sections of an equally bad policy `n` times, that policy has `n * w / m` wrong results on
//! average, and the probability that it has none is `exp(-n * w / m)`. A verdict requires this
//! probability to be below 0.001. The average must therefore be at least `ln 1000 = 6.9`, both for
//! the control itself and for each judged policy.
//!
//! Lost user states are not used here, because the control loses the user's registers in every
//! kernel entry, whether or not it is interrupted.

use std::fmt;

/// Minimum average number of wrong results that a verdict requires: ln 1000. Above this average,
/// the probability of having no wrong result is below 0.001.
pub(super) const ENOUGH: f64 = 6.907_755_278_982_137;

/// The counts for one policy under one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count<'a> {
    pub policy: &'a str,
    /// Name of the load. A policy is compared only with the control under the same load.
    pub load: &'a str,
    /// Number of interrupts that hit a section.
    pub hit: u64,
    /// Number of wrong results.
    pub wrong: u64,
}

/// Why there is no verdict on lost state.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NoVerdict {
    /// The control, which saves nothing, did not run.
    NoControl,
    /// The control lost no state or too little, or a policy was interrupted too rarely. The string
    /// contains the details.
    NoPower(String),
}

impl fmt::Display for NoVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoVerdict::NoControl => f.write_str(
                "no verdict on lost state: the control policy none, which saves nothing, did not run under every load: add none \
                 to --policy",
            ),
            NoVerdict::NoPower(why) => write!(f, "no power: {why}: no verdict on lost state"),
        }
    }
}

/// Returns whether `policy` is the control, which saves nothing.
pub(super) fn is_control(policy: &str) -> bool {
    policy == "none"
}

/// Returns how many wrong results a policy that is as bad as the control would have on average;
/// `None` if no control lost enough state.
pub(super) fn expected(count: &Count, all: &[Count]) -> Option<f64> {
    let control = control_of(count.load, all)?;
    enough(&control).then(|| count.hit as f64 * loss(&control))
}

/// Returns the control's number of wrong results divided by the number of interrupts that hit a
/// section, limited to 1.
fn loss(control: &Count) -> f64 {
    (control.wrong as f64 / control.hit as f64).min(1.0)
}

/// Returns whether the control lost enough state for a verdict. If no interrupt hit a section, the
/// control's wrong results do not count, because interrupts cannot have caused them.
fn enough(control: &Count) -> bool {
    control.hit > 0 && control.wrong as f64 >= ENOUGH
}

/// Returns the control's counts under a load, summed over rows; `None` if the control did not run.
fn control_of<'a>(load: &'a str, all: &[Count]) -> Option<Count<'a>> {
    let mut controls = all
        .iter()
        .filter(|c| is_control(c.policy) && c.load == load)
        .peekable();
    controls.peek()?;
    let (mut hit, mut wrong) = (0, 0);
    for control in controls {
        hit += control.hit;
        wrong += control.wrong;
    }
    Some(Count {
        policy: "none",
        load,
        hit,
        wrong,
    })
}

/// Returns whether the counts of all loads together allow a verdict on lost state.
pub(super) fn judge(all: &[Count]) -> Result<(), NoVerdict> {
    if !all.iter().any(|c| !is_control(c.policy)) {
        // If only the control ran, there is no other policy to judge, so judge the control itself.
        for control in all {
            judge_control(&control_of(control.load, all).expect("it is among them"))?;
        }
        return Ok(());
    }
    for count in all.iter().filter(|c| !is_control(c.policy)) {
        let Some(control) = control_of(count.load, all) else {
            return Err(NoVerdict::NoControl);
        };
        judge_control(&control)?;
        let same = |c: &&Count| c.policy == count.policy && c.load == count.load;
        let hit: u64 = all.iter().filter(same).map(|c| c.hit).sum();
        let expected = hit as f64 * loss(&control);
        if expected < ENOUGH {
            return Err(NoVerdict::NoPower(format!(
                "{} was hit {hit} times under {}, where the control that saves nothing lost {} of {}: a policy as bad as the \
                 control would have {expected:.1} wrong results on average, and a verdict needs {ENOUGH:.1}",
                count.policy, count.load, control.wrong, control.hit
            )));
        }
    }
    Ok(())
}

fn judge_control(control: &Count) -> Result<(), NoVerdict> {
    if enough(control) {
        return Ok(());
    }
    Err(NoVerdict::NoPower(format!(
        "the control that saves nothing lost {} of {} interrupted sections under {}, and a verdict needs {:.0}",
        control.wrong,
        control.hit,
        control.load,
        ENOUGH.ceil()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<'a>(policy: &'a str, load: &'a str, hit: u64, wrong: u64) -> Count<'a> {
        Count {
            policy,
            load,
            hit,
            wrong,
        }
    }

    #[track_caller]
    fn refused(all: &[Count]) -> String {
        judge(all).unwrap_err().to_string()
    }

    #[test]
    fn a_control_that_loses_gives_a_verdict() {
        let all = [count("nested", "a", 1000, 0), count("none", "a", 500, 100)];
        assert_eq!(judge(&all), Ok(()));
        assert_eq!(expected(&all[0], &all), Some(200.0));
        // Wrong results of the judged policy do not prevent a verdict, because `judge` does not
        // evaluate them.
        assert_eq!(judge(&[count("nested", "a", 1000, 3), all[1]]), Ok(()));
        assert_eq!(judge(&all[1..]), Ok(()));
    }

    #[test]
    fn a_control_that_loses_nothing_gives_none() {
        for wrong in [0, 6] {
            let all = [
                count("nested", "a", 1_000_000, 0),
                count("none", "a", 1_000_000, wrong),
            ];
            let why = refused(&all);
            assert!(
                why.starts_with("no power: the control that saves nothing lost"),
                "{why}"
            );
            assert!(why.contains(&format!("lost {wrong} of 1000000")), "{why}");
            assert_eq!(expected(&all[0], &all), None);
            assert!(refused(&all[1..]).contains("no power"));
        }
    }

    #[test]
    fn a_control_that_was_not_hit_gives_none() {
        let all = [count("nested", "a", 1000, 0), count("none", "a", 0, 0)];
        assert!(refused(&all).contains("lost 0 of 0"));
        // The control was never interrupted, so interrupts did not cause its wrong results.
        let all = [count("nested", "a", 1000, 0), count("none", "a", 0, 50)];
        assert!(refused(&all).contains("lost 50 of 0"));
    }

    #[test]
    fn without_the_control_under_the_same_load_there_is_none() {
        let alone = [count("nested", "a", 1000, 0)];
        assert_eq!(judge(&alone), Err(NoVerdict::NoControl));
        let elsewhere = [alone[0], count("none", "b", 1000, 500)];
        assert_eq!(judge(&elsewhere), Err(NoVerdict::NoControl));
        assert!(refused(&alone).contains("add none to --policy"));
    }

    #[test]
    fn a_policy_that_was_hit_too_rarely_is_not_judged() {
        let control = count("none", "a", 1000, 100);
        let rare = |hit| judge(&[count("nested", "a", hit, 0), control]);
        assert!(rare(70).is_ok());
        let NoVerdict::NoPower(why) = rare(69).unwrap_err() else {
            panic!()
        };
        assert!(
            why.contains("nested was hit 69 times") && why.contains("6.9"),
            "{why}"
        );
        // Counts from several rows of one policy are added up.
        let parts = [
            count("nested", "a", 35, 0),
            count("nested", "a", 35, 0),
            control,
        ];
        assert_eq!(judge(&parts), Ok(()));
    }

    #[test]
    fn enough_is_a_thousandth() {
        assert!(((-ENOUGH).exp() - 0.001).abs() < 1e-12);
    }
}
