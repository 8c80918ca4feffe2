//! Derives the names of an algorithm's purely generic C drivers.

/// Returns the driver names to request from a tree, the most likely name first. In later trees, the
/// drivers that call the library's code have the suffix `-lib`.
pub(super) fn names(alg: &str) -> Vec<String> {
    vec![generic(alg, "generic"), generic(alg, "lib")]
}

fn generic(alg: &str, suffix: &str) -> String {
    let Some((template, rest)) = alg.split_once('(') else {
        return format!("{alg}-{suffix}");
    };
    let inner = rest.strip_suffix(')').unwrap_or(rest);
    let parts: Vec<String> = split(inner).iter().map(|p| generic(p, suffix)).collect();
    let one = &parts[0];
    match template {
        // Name the ECB driver explicitly. Otherwise, these templates would choose an ECB driver
        // themselves, possibly an accelerated one that is not generic C code.
        "xts" | "lrw" => format!("{template}(ecb({one}))"),
        "gcm" => format!("gcm_base(ctr({one}),ghash-{suffix})"),
        "ccm" => format!("ccm_base(ctr({one}),cbcmac({one}))"),
        "hctr2" => format!("hctr2_base(xctr({one}),polyval-{suffix})"),
        "adiantum" => format!("adiantum({},nhpoly1305-{suffix})", parts.join(",")),
        _ => format!("{template}({})", parts.join(",")),
    }
}

/// Splits a list at the commas outside parentheses.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_drivers_by_algorithm() {
        for (alg, name) in [
            ("sha256", "sha256-generic"),
            ("cbc(camellia)", "cbc(camellia-generic)"),
            ("xts(aes)", "xts(ecb(aes-generic))"),
            ("gcm(aes)", "gcm_base(ctr(aes-generic),ghash-generic)"),
            (
                "rfc4106(gcm(aes))",
                "rfc4106(gcm_base(ctr(aes-generic),ghash-generic))",
            ),
            ("ccm(aes)", "ccm_base(ctr(aes-generic),cbcmac(aes-generic))"),
            ("cts(cbc(aes))", "cts(cbc(aes-generic))"),
            (
                "rfc7539(chacha20,poly1305)",
                "rfc7539(chacha20-generic,poly1305-generic)",
            ),
            (
                "hctr2(aes)",
                "hctr2_base(xctr(aes-generic),polyval-generic)",
            ),
            (
                "adiantum(xchacha12,aes)",
                "adiantum(xchacha12-generic,aes-generic,nhpoly1305-generic)",
            ),
        ] {
            assert_eq!(names(alg)[0], name);
        }
        assert_eq!(names("sha256")[1], "sha256-lib");
        assert_eq!(split("a(b,c),d"), ["a(b,c)", "d"]);
    }
}
