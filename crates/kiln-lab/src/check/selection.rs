//! Which implementation is chosen under a mask of tiers.

use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;

use super::tally::{Failure, Tally};

/// The ends of the driver names that must be chosen, lowest tier first. Written down here, and not read from
/// `kernel/`, so that the two can differ.
const LADDERS: &[(&[&str], &[(Tier, &str)])] = &[(
    &[
        "ecb(aes)",
        "cbc(aes)",
        "ctr(aes)",
        "xts(aes)",
        "cmac(aes)",
        "ccm(aes)",
        "gcm(aes)",
        "rfc4106(gcm(aes))",
    ],
    &[
        (Tier::Generic, "-fixed-time"),
        (Tier::Aesni, "-aesni"),
        (Tier::VaesAvx2, "-vaes-avx2"),
        (Tier::VaesAvx512, "-vaes-avx512"),
    ],
)];

/// What must be chosen of an algorithm when `mask` is what is allowed; none if nothing is written down.
pub fn expected(alg: &str, mask: &[Tier]) -> Option<String> {
    let (_, ladder) = LADDERS.iter().find(|(algs, _)| algs.contains(&alg))?;
    let (_, end) = ladder.iter().rfind(|(tier, _)| mask.contains(tier))?;
    Some(end.to_string())
}

/// The one chosen is the one expected, and its tier and those of all that could have been are allowed.
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
            format!("{alg}: nobody has written down what is to be chosen"),
        ),
    }
    for imp in Impl::of(alg) {
        let (usable, allowed) = (imp.tier().usable(), mask.contains(&imp.tier()));
        check(
            usable == allowed,
            format!("{}: usable {usable}, allowed {allowed}", imp.driver()),
        );
    }
    tally
}
