//! The release years of libraries, so that readers of a comparison can see how old each library is.

use kiln_record::family;

/// The year in which each release series began, by library and version prefix. Patch releases may
/// be newer, but they seldom change ciphers. Series that are not listed have no year.
const SERIES: [(&str, &str, u16); 30] = [
    ("openssl", "1.1.1", 2018),
    ("openssl", "3.0", 2021),
    ("openssl", "3.1", 2023),
    ("openssl", "3.2", 2023),
    ("openssl", "3.3", 2024),
    ("openssl", "3.4", 2024),
    ("openssl", "3.5", 2025),
    ("openssl", "3.6", 2025),
    ("openssl", "4.0", 2026),
    ("openssl", "4.1", 2026),
    ("aws-lc", "5.12", 2026),
    ("libgcrypt", "1.8", 2017),
    ("libgcrypt", "1.9", 2021),
    ("libgcrypt", "1.10", 2022),
    ("libgcrypt", "1.11", 2024),
    ("libgcrypt", "1.12", 2026),
    ("nettle", "3.4", 2017),
    ("nettle", "3.5", 2019),
    ("nettle", "3.6", 2020),
    ("nettle", "3.7", 2021),
    ("nettle", "3.8", 2022),
    ("nettle", "3.9", 2023),
    ("nettle", "3.10", 2024),
    ("ipsec-mb", "1.0", 2021),
    ("ipsec-mb", "1.1", 2021),
    ("ipsec-mb", "1.2", 2022),
    ("ipsec-mb", "1.3", 2022),
    ("ipsec-mb", "1.4", 2023),
    ("ipsec-mb", "1.5", 2023),
    ("ipsec-mb", "2.0", 2024),
];

/// Returns the year of the release series that a provider such as `openssl-3.0.19` belongs to;
/// `None` if the year is unknown.
pub fn year(provider: &str) -> Option<u16> {
    let name = family(provider);
    let version = provider[name.len()..].trim_start_matches('-');
    // The prefix must end at the end of a number: 1.10 does not belong to the series 1.1, but
    // 1.1.1w belongs to 1.1.1.
    let of = |series: &str| match version.strip_prefix(series) {
        Some(rest) => !rest.starts_with(|c: char| c.is_ascii_digit()),
        None => false,
    };
    let found = SERIES
        .iter()
        .find(|(n, series, _)| *n == name && of(series));
    found.map(|(.., year)| *year)
}

/// Returns the name, version and year for use in a sentence: `openssl 3.0.19 (release series of
/// 2021)`.
pub fn describe(provider: &str) -> String {
    let name = family(provider);
    let version = provider[name.len()..].trim_start_matches('-');
    let named = format!("{name} {version}").trim().to_string();
    match year(provider) {
        Some(year) => format!("{named} (release series of {year})"),
        None => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_those_of_the_series_and_never_guessed() {
        assert_eq!(year("openssl-3.0.19"), Some(2021));
        assert_eq!(year("openssl-1.1.1w"), Some(2018));
        assert_eq!(year("libgcrypt-1.10.1"), Some(2022));
        assert_eq!(year("ipsec-mb-1.3.0"), Some(2022));
        assert_eq!(year("nettle-3.10"), Some(2024));
        for unknown in [
            "openssl-3.01.2",
            "openssl-9.0.0",
            "libgcrypt-1.100.0",
            "nettle",
            "nettle-",
            "linux-6.12.1",
            "kiln",
        ] {
            assert_eq!(year(unknown), None, "{unknown}");
        }
        assert_eq!(
            describe("openssl-3.0.19"),
            "openssl 3.0.19 (release series of 2021)"
        );
        assert_eq!(describe("openssl-9.0.0"), "openssl 9.0.0");
        assert_eq!(describe("linux-6.12.1"), "linux 6.12.1");
    }
}
