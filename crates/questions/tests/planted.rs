//! Plants six mistakes in the sources of `kernel/` and rebuilds it. For each mistake, at least
//! one suite must fail for the implementations that contain it.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use common::{build_library, copy, load, root};
use kiln_kernel::cipher::Impl;
use kiln_kernel::crypto::Api;
use kiln_questions::test::run::{self, Job};
use kiln_questions::test::{Family, Suite, Tally};

/// Each entry is a file, the original text, and its replacement.
const PLANTS: [(&str, &str, &str); 7] = [
    // Mistake 1: the long loop of one tier loses the carry into the upper half.
    (
        "ciphers/polyval/polyval_sums.h",
        "\t\tacc = reduce(&g);\n",
        "\t\tacc = reduce(&g);\n#ifdef PLANTED\n\
         \t\tacc = _mm_andnot_si128(_mm_set_epi64x(0, 1ull << 63), acc);\n#endif\n",
    ),
    (
        "ciphers/polyval/vaes_avx2.c",
        "#define POLYVAL(name)",
        "#define PLANTED\n#define POLYVAL(name)",
    ),
    // Mistake 2: a callee-saved register is modified and not restored.
    (
        "ciphers/crc/crct10dif_short.h",
        "\tu64 hi = 0, lo;\n",
        "\tu64 hi = 0, lo;\n\n\t__asm__ volatile(\"xorl %%r15d, %%r15d\" : : : \"cc\");\n",
    ),
    // Mistake 3: the last byte of a tag is not compared.
    (
        "ciphers/gcm/gcm.c",
        "!secrets_differ(want, tag, tagsize)",
        "!secrets_differ(want, tag, tagsize - 1)",
    ),
    // Mistake 4: when a message moves into the lane of a finished message, its chaining value does
    // not move with it.
    (
        "ciphers/modes/cbc_many.h",
        "\tstore1(l->chain[to], load1(l->chain[from]));\n",
        "",
    ),
    // Mistake 5: a lane that still has blocks after a pass hashes the same blocks again instead of
    // the next ones.
    (
        "ciphers/lanes.h",
        "\t\t\tr->src[i] += least * ops->block;\n",
        "",
    ),
    // Mistake 6: the last byte of a block is lost if the block is split across two pieces of a
    // request.
    (
        "crypto/walk.c",
        "\t\tcopy(walk->buffer, &walk->out, &walk->out_offset, n, true);\n",
        "\t\tcopy(walk->buffer, &walk->out, &walk->out_offset, n - 1, true);\n\
         \t\tskip(&walk->out, &walk->out_offset, 1);\n",
    ),
];

/// Plants the mistakes in a copy of the kernel's sources, builds a library from the copy, and
/// returns the library's path.
fn planted(dir: &Path) -> PathBuf {
    let kernel = dir.join("kernel");
    copy(&root().join("kernel"), &kernel);
    for (file, is, becomes) in PLANTS {
        let path = kernel.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains(is),
            "{file} has changed: plant the mistake anew"
        );
        fs::write(&path, text.replace(is, becomes)).unwrap();
    }
    build_library(dir)
}

/// Returns the results of each usable implementation, by driver name.
fn tallies(
    (impls, api): (&[Impl], &'static Api),
    alg: &str,
    suite: Suite,
    cases: Range<u64>,
) -> BTreeMap<&'static str, Tally> {
    let subjects: Vec<Impl> = impls
        .iter()
        .copied()
        .filter(|i| i.alg() == alg && i.tier().usable())
        .collect();
    let family = Family {
        api: Some(api),
        ..Family::of(subjects.clone())
    };
    let job = Job::new(family, suite, 1, Some(cases), "");
    let parts = run::one(job, 2, &AtomicBool::new(false)).unwrap();
    parts
        .into_iter()
        .map(|p| (subjects[p.subject].driver(), p.tally))
        .collect()
}

fn names_of_failures(tallies: &BTreeMap<&'static str, Tally>) -> Vec<&'static str> {
    let failed = tallies.iter().filter(|(_, t)| t.failed > 0);
    failed.map(|(name, _)| *name).collect()
}

#[test]
fn six_planted_mistakes_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (impls, api) = load(&planted(dir.path()));
    let planted = (&impls[..], api);
    assert_eq!(impls.len(), Impl::all().len());

    // Implementations without a mistake must pass, which shows that this build works like the one
    // linked into the test.
    for (alg, suite) in [("sha512", Suite::Random), ("ccm(aes)", Suite::Forgeries)] {
        let tallies = tallies(planted, alg, suite, 0..40);
        assert_eq!(names_of_failures(&tallies), [""; 0], "{tallies:#?}");
    }

    if impls
        .iter()
        .any(|i| i.driver() == "ghash-vaes-avx2" && i.tier().usable())
    {
        for suite in [Suite::Lengths, Suite::Random] {
            let tallies = tallies(planted, "ghash", suite, 0..2000);
            assert_eq!(names_of_failures(&tallies), ["ghash-vaes-avx2"]);
            let tally = &tallies["ghash-vaes-avx2"];
            assert!(
                tally.failures[0].what.starts_with("digest: byte "),
                "{tally:#?}"
            );
            println!(
                "carry: {suite}, {} of {}: {:?}",
                tally.failed, tally.cases, tally.failures[0]
            );
        }
    } else {
        println!("SKIPPED: this CPU has no VAES");
    }

    if impls
        .iter()
        .any(|i| i.driver() == "crct10dif-pclmul-aesni" && i.tier().usable())
    {
        for suite in [Suite::Vectors, Suite::Random] {
            let tallies = tallies(planted, "crct10dif", suite, 0..2000);
            // Another tier may fail, too, because it may use the same function for the last bytes
            // of messages.
            let found = names_of_failures(&tallies);
            assert!(found.contains(&"crct10dif-pclmul-aesni"), "{found:?}");
            assert!(!found.contains(&"crct10dif-generic"), "{found:?}");
            let tally = &tallies["crct10dif-pclmul-aesni"];
            assert!(tally.failures[0].what.contains("changed r15"), "{tally:#?}");
            println!(
                "register: {suite}, {} of {}: {:?}",
                tally.failed, tally.cases, tally.failures[0]
            );
        }
    } else {
        println!("SKIPPED: this CPU has no PCLMULQDQ");
    }

    for suite in [Suite::Forgeries, Suite::Wycheproof] {
        let tallies = tallies(planted, "gcm(aes)", suite, 0..1000);
        let found = names_of_failures(&tallies);
        assert!(found.contains(&"gcm-aes-generic"), "{suite}: {found:?}");
        let tally = &tallies["gcm-aes-generic"];
        println!(
            "tag: {suite}, {found:?}, {} of {}: {:?}",
            tally.failed, tally.cases, tally.failures[0]
        );
        assert!(
            tally.failures[0].what.contains("accepted a message"),
            "{tally:#?}"
        );
    }

    for alg in ["cbc(aes)", "sha256", "hmac(sha1)", "cmac(aes)", "ccm(aes)"] {
        let tallies_of_many = tallies(planted, alg, Suite::Many, 0..200);
        for (driver, tally) in &tallies_of_many {
            let side_by_side = Impl::all()
                .iter()
                .any(|i| i.driver() == *driver && i.lanes().is_some());
            assert_eq!(tally.failed > 0, side_by_side, "{driver}: {tally:#?}");
            if let Some(first) = tally.failures.first() {
                println!("lane: many, {} of {}: {first:?}", tally.failed, tally.cases);
            }
        }
    }

    // Mistake 6 affects only requests in which a block is split across pieces. All other requests,
    // and direct calls of the functions, give correct results.
    for (alg, least) in [
        ("ctr(aes)", "ctr-aes-generic"),
        ("gcm(aes)", "gcm-aes-generic"),
    ] {
        let tallies = tallies(planted, alg, Suite::Requests, 0..2000);
        let found = names_of_failures(&tallies);
        assert_eq!(found.len(), tallies.len(), "{alg}: {found:?}");
        let tally = &tallies[least];
        assert!(tally.failed < tally.cases, "{tally:#?}");
        println!(
            "straddling: requests, {} of {}: {:?}",
            tally.failed, tally.cases, tally.failures[0]
        );
    }
    for suite in [Suite::Random, Suite::Splits] {
        let tallies = tallies(planted, "ctr(aes)", suite, 0..300);
        assert_eq!(names_of_failures(&tallies), [""; 0], "{tallies:#?}");
    }
}
