//! The survey parts that run `kiln speed`.

use kiln_question::survey::{args, Answer, Contribution, Means, Part, Row, Runs};

use super::headline::{self, TOPIC};

pub(crate) static SURVEY: &[Contribution] = &[Contribution {
    topic: &TOPIC,
    parts: &[&SPEED, &MORE, &TREE],
    rows,
    failed: |_| false,
}];

/// The survey part that measures AES-XTS and compares it with libraries and the hardware limit. It
/// provides the first headline.
pub(super) static SPEED: Part = Part {
    name: "speed",
    what: "AES-XTS in Kiln and in libraries",
    importance: 1,
    least_s: 1.3,
    args: |slot| {
        let seconds = slot.measuring();
        args(&["speed", "xts(aes)", "--len", LENS, "--seconds", &seconds])
    },
    ..Part::USUAL
};

/// The survey part that measures as many additional ciphers as the time allows.
pub(super) static MORE: Part = Part {
    name: "speed-more",
    what: "12 more ciphers",
    importance: 9,
    from_s: 40.0,
    least_s: 1.6,
    share: 0.18,
    args: |slot| {
        let mut words = vec!["speed"];
        words.extend(&CIPHERS[..ciphers_within(slot.seconds)]);
        let seconds = slot.measuring();
        words.extend(["--len", LENS, "--seconds", &seconds]);
        args(&words)
    },
    left_out: |slot| match CIPHERS.len() - ciphers_within(slot.seconds) {
        0 => None,
        1 => Some("one more cipher, to save time".to_string()),
        more => Some(format!("{more} more ciphers, to save time")),
    },
    ..Part::USUAL
};

/// The survey part that measures a kernel tree's AES-XTS. The part's first process spends most of
/// its time building the tree.
pub(super) static TREE: Part = Part {
    name: "speed-tree",
    what: "the kernel tree",
    importance: 10,
    from_s: 150.0,
    least_s: 16.0,
    builds: true,
    can_run: |means| means.tree.is_some(),
    missing,
    args: |slot| {
        let tree = slot.tree();
        args(&[
            "speed",
            "xts(aes)",
            "--len",
            LENS,
            "--tree",
            tree,
            "--seconds",
            "3",
        ])
    },
    ..Part::USUAL
};

/// Lengths at which all ciphers are measured. More lengths would take too long. Headlines quote the
/// longest length.
const LENS: &str = "16,64,512,4096";
/// Additional ciphers, the most widely used first.
const CIPHERS: [&str; 12] = [
    "gcm(aes)",
    "rfc7539(chacha20,poly1305)",
    "sha256",
    "cbc(aes)",
    "ctr(aes)",
    "sha512",
    "chacha20",
    "poly1305",
    "crc32c",
    "sha1",
    "sm3",
    "polyval",
];
/// Seconds needed to measure one cipher at all lengths in `LENS`, including the libraries.
const CIPHER_S: f64 = 0.4;

/// Returns the number of additional ciphers that can be measured in `seconds`.
fn ciphers_within(seconds: f64) -> usize {
    (((seconds - Part::START_S) / CIPHER_S) as usize).clamp(1, CIPHERS.len())
}

fn missing(means: &Means) -> Option<(&'static str, &'static str)> {
    let missing = (
        "a kernel tree, because none was named",
        "kiln survey --minutes 3 --tree DIR",
    );
    means.tree.is_none().then_some(missing)
}

fn rows(answers: &[Answer]) -> Vec<Row> {
    let first = Runs::new(answers, &[&SPEED]);
    let both = Runs::new(answers, &[&SPEED, &MORE]);
    let more = !Runs::new(answers, &[&MORE]).is_empty();
    // For kernel developers, the comparison with a tree matters most, so it precedes the comparison
    // with libraries.
    let rows = [
        headline::throughput(&first),
        headline::against_tree(&Runs::new(answers, &[&TREE])),
        headline::against_peers(&first),
        more.then(|| headline::all_ciphers(&both)).flatten(),
        more.then(|| headline::several_messages(&both)).flatten(),
    ];
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::slot_seconds;

    #[test]
    fn what_is_measured_fits_its_time() {
        for seconds in [2.5, 5.0, 12.0, 60.0] {
            for part in [&SPEED, &MORE] {
                assert!(slot_seconds(part, seconds).1 < seconds, "{part:?}");
            }
        }
        assert!(MORE.what.starts_with(&CIPHERS.len().to_string()));
    }
}
