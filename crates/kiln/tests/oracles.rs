//! Tests `kiln test --tree --oracle`, which checks that every driver in a tree follows certain
//! rules ("oracles"). The tree is KILN_TEST_TREE, an LTS kernel.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::common::tree::{given_tree, kiln_keeping, tree_of};
use crate::edited::Edited;
use kiln_tree::oracle::ALL;
use serde_json::Value;

/// Three edits, each of which causes a crash: the first in a driver, the second in cryptd's thread,
/// and the third in a softirq. Each edit consists of a file, a text in the file, and the
/// replacement for the first occurrence of that text.
const CRASHES: [(&str, &str, &str); 3] = [
    (
        "arch/x86/crypto/camellia_aesni_avx_glue.c",
        "static int ecb_encrypt(struct skcipher_request *req)\n{",
        "static int ecb_encrypt(struct skcipher_request *req)
{
	if (req->cryptlen > 100)
		*(volatile int *)16 = 0;",
    ),
    (
        "crypto/cryptd.c",
        "	if (likely(subreq))\n		err = crypto_skcipher_encrypt(subreq);",
        "	if (subreq && subreq->cryptlen > 100 &&
	    strstr(crypto_skcipher_driver_name(crypto_skcipher_reqtfm(subreq)), \"ecb-cast6\"))
		*(volatile int *)32 = 0;
	if (likely(subreq))
		err = crypto_skcipher_encrypt(subreq);",
    ),
    (
        "crypto/md4.c",
        "	const u32 avail = sizeof(mctx->block) - (mctx->byte_count & 0x3f);",
        "	const u32 avail = sizeof(mctx->block) - (mctx->byte_count & 0x3f);

	if (in_serving_softirq())
		*(volatile int *)48 = 0;",
    ),
];

/// The run must continue after a crash in any thread, and must attribute the crash to the driver
/// that was processing the request.
#[test]
fn a_crash_is_of_the_driver_whose_request_it_was() {
    let Some(tree) = given_tree() else { return };
    let tree = Edited::new(&tree);
    for (file, from, to) in CRASHES {
        tree.replace(file, from, to);
    }
    let dir = tree.path();
    let run = kiln_keeping(&[
        "test",
        "--tree",
        dir,
        "--suite",
        "testmgr,contexts",
        "--json",
        "--seed",
        "1",
    ]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let rows = run.json()["rows"].as_array().expect("rows").clone();
    let crashed: Vec<&Value> = (rows.iter().filter(|r| r["failed"] != 0))
        .filter(|r| r["reason"].to_string().contains("Segmentation fault"))
        .collect();
    let of = |driver: &str| {
        let row = (crashed.iter()).find(|r| r["impl"].as_str().is_some_and(|i| i.contains(driver)));
        let row = row.unwrap_or_else(|| panic!("no crash of {driver}: {crashed:#?}"));
        row["reason"].as_str().expect("a reason").to_owned()
    };
    let own = of("ecb-camellia-aesni");
    assert!(own.contains("ecb_encrypt+0x"), "{own}");
    assert!(own.contains(" bytes, source at "), "{own}");
    // cryptd's thread makes no requests of its own, so the report must name the request that it was
    // processing.
    let worker = of("ecb-cast6-avx");
    assert!(worker.contains("cryptd_skcipher_encrypt+0x"), "{worker}");
    assert!(worker.contains(" bytes, source at "), "{worker}");
    let softirq = of("md4-generic");
    assert!(softirq.contains("md4_update+0x"), "{softirq}");
    assert!(softirq.contains(" bytes, source at "), "{softirq}");
    // Four drivers crash although only three faults are planted, because Camellia's fault also
    // affects its internal driver.
    assert_eq!(crashed.len(), 4, "{crashed:#?}");
    // The drivers that follow the crashed ones must have been tested.
    let passed = |r: &&Value| r["failed"] == 0 && r["skipped"] == 0;
    assert!(rows.iter().filter(passed).count() > 100, "{crashed:#?}");
}

/// Prevents the tests of unmodified trees from running at the same time. Each test runs pairs of
/// requests on two cores. One request of a pair waits for the other, so a pair takes far longer if
/// the tests compete for cores.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Known findings in unmodified trees are listed in `tree/oracles/known`, each with a reason. They
/// must not make a run fail.
fn has_known_findings_only(tree: &Path) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = kiln_keeping(&[
        "test",
        "--json",
        "--seed",
        "1",
        "--tree",
        tree.to_str().unwrap(),
        "--oracle",
        "all",
    ]);
    let record: Value = serde_json::from_str(&run.stdout()).expect("JSON");
    let rows = record["rows"].as_array().expect("rows").clone();
    let failed: Vec<&Value> = rows.iter().filter(|r| r["failed"] != 0).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(run.status, 0, "{}", run.stderr);
    for oracle in ALL {
        let of = rows.iter().filter(|r| r["context"] == oracle.name);
        let ran = of.filter(|r| r["cases"] != 0).count();
        assert!(ran > 100, "{}: {ran} drivers", oracle.name);
    }
    let known: Vec<&Value> = rows.iter().filter(|r| r["known"] != 0).collect();
    assert!(known.len() > 1, "{known:#?}");
    for row in known {
        let finding = row["finding"].as_str().expect("a finding");
        assert!(finding.contains("known: "), "{row}");
    }
    // Every entry in the list must match a finding; otherwise the entry is outdated. Exempt the
    // oracles that step code or count sections, because their findings also depend on the CPU's
    // features and on chance.
    let notes = record["notes"].as_array().expect("notes");
    let varies = |n: &str| {
        let oracles = ["bounds", "features", "registers", "sharing"];
        oracles.iter().any(|o| n.contains(&format!(": {o} ")))
    };
    let unseen = |n: &&Value| n.to_string().contains("was not seen") && !varies(&n.to_string());
    assert_eq!(notes.iter().find(unseen), None);
}

#[test]
fn the_unchanged_tree_has_known_findings_only() {
    if let Some(tree) = given_tree() {
        has_known_findings_only(&tree);
    }
}

#[test]
fn a_current_tree_has_known_findings_only() {
    if let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel") {
        has_known_findings_only(&tree);
    }
}

#[test]
fn linux_6_1_has_known_findings_only() {
    if let Some(tree) = tree_of("KILN_TEST_TREE_PREVIOUS", "Linux 6.1 tree") {
        has_known_findings_only(&tree);
    }
}
