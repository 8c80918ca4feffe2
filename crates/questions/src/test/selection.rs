//! Checks which implementation is chosen under a mask of tiers. The expected choice is recorded in
//! the cipher's folder (`kernel/ciphers/*/ranking.txt`) instead of being derived from the
//! priorities in the cipher's table, so that a wrong priority is detected.

use kiln_kbuild::blocks;
use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;

use super::expectation::RANKINGS;
use super::tally::{Failure, Tally};

/// Returns the implementation that must be chosen for an algorithm under `mask`, as a driver name
/// suffix; `None` if no file contains the algorithm.
pub fn expected(alg: &str, mask: &[Tier]) -> Option<String> {
    let found = |(folder, text): &(&str, &str)| expected_by(folder, text, alg, mask);
    RANKINGS.iter().find_map(found)
}

/// Does the same as [`expected`], but for a single file. Each block of the file begins with a line
/// `alg = NAME` for every algorithm that shares the ranking, followed by lines `TIER = END`. The
/// last line whose tier is in `mask` applies: the driver whose name ends in `-END` must be chosen.
///
/// # Panics
/// Panics if the file is malformed.
pub fn expected_by(file: &str, text: &str, alg: &str, mask: &[Tier]) -> Option<String> {
    let all = blocks(file, text);
    let block = all.iter().find(|b| b.fields.contains(&("alg", alg)))?;
    let tiers = block.fields.iter().filter(|(name, _)| *name != "alg");
    let steps = tiers.map(|(name, end)| match name.parse() {
        Ok(tier) => (tier, end),
        Err(e) => panic!("{file}: {e}"),
    });
    // Parse all lines, so that an invalid tier name is detected under any mask.
    let steps: Vec<(Tier, &&str)> = steps.collect();
    let (_, end) = steps.iter().rfind(|(tier, _)| mask.contains(tier))?;
    Some(format!("-{end}"))
}

/// Checks that the chosen implementation is the expected one, and that the tiers of all candidates
/// are allowed.
pub fn check(alg: &str, mask: &[Tier], tiers: &str) -> Tally {
    let mut tally = Tally::default();
    let mut check = |ok: bool, what: String| {
        tally.cases += 1;
        if !ok {
            tally.failed += 1;
            tally.failures.push(Failure {
                what,
                replay: format!("KILN_TIERS={tiers} kiln test '{alg}' --cases 0"),
            });
        }
    };
    let Some(best) = Impl::best(alg) else {
        check(false, "no implementation was chosen".into());
        return tally;
    };
    let chosen = best.driver();
    match expected(alg, mask) {
        Some(end) => check(
            chosen.ends_with(&end),
            format!("{chosen} was chosen and not one that ends in {end}"),
        ),
        None => check(
            false,
            format!("{alg}: no ranking.txt says what is to be chosen"),
        ),
    }
    for imp in Impl::find_all(alg) {
        let (usable, allowed) = (imp.tier().usable(), mask.contains(&imp.tier()));
        check(
            usable == allowed,
            format!("{}: usable {usable}, allowed {allowed}", imp.driver()),
        );
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_ranked_once_in_its_own_folder() {
        for alg in Impl::algorithms() {
            let ranked = RANKINGS
                .iter()
                .flat_map(|(folder, text)| {
                    blocks(folder, text).into_iter().map(move |b| (folder, b))
                })
                .filter(|(_, b)| b.fields.contains(&("alg", alg)));
            let folders: Vec<&str> = ranked.map(|(folder, _)| *folder).collect();
            assert_eq!(folders, [Impl::find_all(alg)[0].folder().unwrap()], "{alg}");
            assert!(expected(alg, &[Tier::Generic]).is_some());
        }
    }
}
