//! Tests `kiln fpu prove --tree` on library functions of a current kernel (KILN_TEST_TREE_NEXT),
//! which are interrupted at every instruction.

use std::collections::BTreeMap;

use crate::common::tree::{kiln_keeping, tree_of};
use crate::edited::Edited;
use serde_json::Value;

fn rows(args: &[&str], status: i32) -> Vec<Value> {
    let mut all = vec!["fpu", "prove", "--json"];
    all.extend(args);
    let run = kiln_keeping(&all);
    assert_eq!(run.status, status, "{}\n{}", run.stderr, run.stdout());
    let record: Value = serde_json::from_str(&run.stdout()).expect("JSON");
    record["rows"].as_array().expect("rows").clone()
}

/// Returns all findings of a suite, from all tiers.
fn findings(rows: &[Value], suite: &str) -> Vec<String> {
    let of = rows.iter().filter(|r| r["suite"] == suite);
    let found = of.filter_map(|r| r["finding"].as_str());
    found.map(String::from).collect()
}

/// Plants seven faults. Four of them do not change any result, or are found only with interrupts.
/// The other three are a lost carry, a fault in a function that no suite calls in interrupts, and a
/// crash. SHA-3 and XTS are not modified and are the controls.
#[test]
fn planted_faults_are_found_and_named() {
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel") else {
        return;
    };
    let tree = Edited::new(&tree);
    // Use vector registers after the end of the section.
    tree.edit("lib/crypto/x86/sha1.h", |text| {
        let macro_ends = "#define SHA1_AVX2_BLOCK_OPTSIZE";
        let (head, rest) = text.split_once(macro_ends).expect("the macro's end");
        let end = "kernel_fpu_end();  ";
        let begin = "kernel_fpu_begin();";
        assert!(head.contains(end) && head.contains(begin));
        let head = head
            .replace(end, "")
            .replace(begin, "kernel_fpu_begin(); kernel_fpu_end();");
        format!("{head}{macro_ends}{rest}")
    });
    // Open a section without checking whether that is allowed, in two functions. One of them opens
    // a section only for messages of at least one block.
    tree.edit("lib/crypto/x86/sha256.h", |text| {
        let check = "likely(irq_fpu_usable())";
        assert_eq!(text.matches(check).count(), 2);
        text.replace(check, "true")
    });
    // Change a callee-saved register that the function's caller does not use afterwards.
    tree.replace(
        "lib/crypto/x86/sm3-avx-asm_64.S",
        "popq %rbp;\n\tRET;",
        "popq %rbp;\n\tmovl $0x5a5a, %ebx;\n\tRET;",
    );
    // Keep a section open while softirqs run.
    tree.replace(
        "lib/crypto/x86/sha512.h",
        "kernel_fpu_end();",
        "if (!in_serving_softirq()) kernel_fpu_end();",
    );
    // Lose a carry.
    tree.replace(
        "lib/crypto/x86/poly1305-x86_64-cryptogams.pl",
        "\tadc\t\\$0,$h1\n",
        "",
    );
    // Use vector registers after the end of the section, in a function that no suite calls in
    // interrupts.
    tree.replace(
        "lib/crypto/x86/chacha.h",
        "kernel_fpu_begin();\n\t\tchacha_dosimd(state, dst, src, todo, nrounds);\n\t\tkernel_fpu_end();",
        "kernel_fpu_begin();\n\t\tkernel_fpu_end();\n\t\tchacha_dosimd(state, dst, src, todo, nrounds);",
    );
    // Crash on messages of one length.
    tree.replace(
        "lib/crypto/md5.c",
        "\tmd5_init(&ctx);\n\tmd5_update(&ctx, data, len);\n\tmd5_final(&ctx, out);\n}\nEXPORT_SYMBOL_GPL(md5);",
        "\tif (len == 31)\n\t\t__builtin_trap();\n\tmd5_init(&ctx);\n\tmd5_update(&ctx, data, len);\n\tmd5_final(&ctx, out);\n}\nEXPORT_SYMBOL_GPL(md5);",
    );
    let suites = "library.chacha_crypt,library.sha256_finup_2x,library.aes_xts_encrypt,library.sm3,sha1.*interrupt*,sha256.*interrupt*,sm3.*interrupt*,sha512.*interrupt*,poly1305.*interrupt*,sha3.*interrupt*";
    let all = rows(
        &["--tree", tree.path(), "--suite", suites, "--visits", "1"],
        1,
    );
    let of = |case| {
        let of: Vec<&Value> = all.iter().filter(|r| r["case"] == case).collect();
        assert!(!of.is_empty(), "{case} was stepped");
        let found = of.iter().filter_map(|r| r["finding"].as_str());
        found.map(String::from).collect::<Vec<_>>()
    };
    for (suite, rule, function) in [
        ("sha1", "outside", "sha1_"),
        ("sha256", "nested", "sha256_blocks_"),
        ("sm3", "preserved", "sm3_transform_avx"),
        ("sha512", "left-open", "sha512_"),
        ("poly1305", "wrong", ""),
    ] {
        // Look for the fault in SM3 in the suite `library`, because only the short messages of that
        // suite reach the code after the loop.
        let found = match suite {
            "sm3" => of("sm3"),
            suite => findings(&all, suite),
        };
        let named = |f: &String| f.starts_with(&format!("{rule}: {function}"));
        assert!(found.iter().any(named), "{suite}: {found:#?}");
    }
    assert_eq!(findings(&all, "sha3"), [""; 0]);
    let chacha = of("chacha_crypt");
    let outside = |f: &String| f.starts_with("outside: chacha_");
    assert!(chacha.iter().any(outside), "{chacha:#?}");
    assert_eq!(of("aes_xts_encrypt"), [""; 0]);
    let twice = of("sha256_finup_2x");
    let nested = |f: &String| f.starts_with("nested: sha256_finup_2x");
    assert!(twice.iter().any(nested), "{twice:#?}");
    // With a set of tiers that lacks AVX2 and SHA-NI, the code for AVX-only CPUs must be reached.
    let under_avx = all.iter().filter(|r| r["tier"] == "avx");
    let ran: Vec<&str> = under_avx.filter_map(|r| r["functions"].as_str()).collect();
    for function in [
        "sha256_transform_avx",
        "sha512_transform_avx",
        "poly1305_blocks_avx",
    ] {
        let reached = ran.iter().any(|f| f.split(' ').any(|f| f == function));
        assert!(
            reached || !is_x86_feature_detected!("avx"),
            "{function}: {ran:?}"
        );
    }
    // Some calls must have been made in softirqs, even in the rows with the context `task`.
    let tasks = all.iter().filter(|r| r["context"] == "task");
    let quiet = tasks.filter(|r| r["in_softirqs"] == 0);
    assert_eq!(quiet.count(), 0, "{all:#?}");

    // The functions that come after the crash must still be stepped, and no function may be stepped
    // twice.
    let suites = "library.md5,library.hmac_md5*,library.sha3_*,library.shake*,library.blake2b*";
    let more = ["--context", "task", "--visits", "1"];
    let rest = [&["--tree", tree.path(), "--suite", suites], &more[..]].concat();
    let rest = rows(&rest, 1);
    let mut names = BTreeMap::new();
    for row in &rest {
        let [case, tier] = ["case", "tier"].map(|name| row[name].as_str().unwrap());
        let finding = row["finding"].as_str();
        assert_eq!(case == "md5", finding.is_some(), "{row}");
        assert!(finding.is_none_or(|f| f.starts_with("crash: ")), "{row}");
        let tiers: &mut Vec<&str> = names.entry(case).or_default();
        assert!(!tiers.contains(&tier), "twice: {row}");
        tiers.push(tier);
    }
    for name in ["md5", "hmac_md5", "sha3_512", "shake256", "blake2b_update"] {
        assert!(names.contains_key(name), "{name}: {names:?}");
    }

    // The printed command must reproduce the fault. If the fault occurs with all tiers, the command
    // does not set KILN_TIERS.
    let replayed = |r: &Value| r["replay"].as_str().is_some_and(|t| t.starts_with("kiln "));
    let nested = all.iter().find(|r| r["suite"] == "sha256" && replayed(r));
    let nested = nested.expect("a finding of SHA-256 under all tiers");
    let replay = nested["replay"].as_str().unwrap();
    let words: Vec<&str> = replay.split(' ').skip(3).collect();
    let again = rows(&[&words[..], &["--visits", "1"]].concat(), 1);
    assert_eq!(findings(&again, "sha256")[0], nested["finding"], "{replay}");
}
