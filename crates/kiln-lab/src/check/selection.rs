//! Which implementation is chosen under a mask of tiers.

use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;

use super::tally::{Failure, Tally};

/// Algorithms, and for each tier the end of the driver name that is chosen from it on.
type Ladder = (&'static [&'static str], &'static [(Tier, &'static str)]);

/// The ends of the driver names that must be chosen, lowest tier first. Written down here, and not read from
/// `kernel/`, so that the two can differ.
const LADDERS: &[Ladder] = &[
    (
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
    ),
    (
        &["ghash", "polyval"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Aesni, "-aesni"),
            (Tier::VaesAvx2, "-vaes-avx2"),
            (Tier::VaesAvx512, "-vaes-avx512"),
        ],
    ),
    (
        &["chacha20", "rfc7539(chacha20,poly1305)"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Aesni, "-ssse3"),
            (Tier::Avx2, "-avx2"),
            (Tier::VaesAvx512, "-avx512"),
        ],
    ),
    (
        &["poly1305", "nhpoly1305"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Aesni, "-sse2"),
            (Tier::Avx2, "-avx2"),
            (Tier::VaesAvx512, "-avx512"),
        ],
    ),
    (
        &["sha1", "hmac(sha1)"],
        &[(Tier::Generic, "-generic"), (Tier::ShaNi, "-sha-ni")],
    ),
    // SHA-NI beats AVX2 where there are both.
    (
        &["sha256", "hmac(sha256)"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Avx2, "-avx2"),
            (Tier::ShaNi, "-sha-ni"),
        ],
    ),
    (
        &["sha512", "hmac(sha512)", "sm3"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Avx2, "-avx2"),
            (Tier::VaesAvx512, "-avx512"),
        ],
    ),
    // One chain of one message: vectors do not pay.
    (
        &["blake2s-256", "blake2smac"],
        &[(Tier::Generic, "-generic")],
    ),
    (
        &["crc32c", "crct10dif"],
        &[
            (Tier::Generic, "-generic"),
            (Tier::Aesni, "-pclmul-aesni"),
            (Tier::VaesAvx512, "-vaes-avx512"),
        ],
    ),
];

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
    fn every_algorithm_is_written_down_once() {
        for alg in Impl::algorithms() {
            let n = LADDERS
                .iter()
                .filter(|(algs, _)| algs.contains(&alg))
                .count();
            assert_eq!(n, 1, "{alg}");
            assert!(expected(alg, &[Tier::Generic]).is_some());
        }
    }
}
