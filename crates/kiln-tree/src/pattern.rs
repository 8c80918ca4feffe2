//! Matches names against wildcard patterns.

/// Returns whether `name` matches `pattern`, in which `*` matches any text and `?` any single
/// character.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            matches(&pattern[1..], name)
                || name
                    .chars()
                    .next()
                    .is_some_and(|c| matches(pattern, &name[c.len_utf8()..]))
        }
        (Some(p), Some(c)) if p == '?' || p == c => {
            matches(&pattern[p.len_utf8()..], &name[c.len_utf8()..])
        }
        _ => false,
    }
}
