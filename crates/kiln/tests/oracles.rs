//! Tests of `kiln test --tree --oracle`, which checks rules ("oracles") for every driver in a tree.
//! The tree is KILN_TEST_TREE, an LTS kernel.

mod common;
mod edited;

use std::collections::BTreeSet;
use std::path::Path;

use common::oracle::rows;
use common::tree::{given_tree, kiln_keeping, tree_of};
use edited::Edited;
use serde_json::Value;

/// An edit of a tree: a file, a text in the file, and the replacement for its first occurrence.
type Edit = (&'static str, &'static str, &'static str);

/// Faults for each oracle. The faults for the oracles memory, context, leaks and failures do not
/// change any result as long as drivers run in ordinary memory and in task context.
const EDITS: [Edit; 16] = [
    // memory: a write after the digest, a read after the source, and a request context that is too
    // small.
    (
        "crypto/xcbc.c",
        "	crypto_cipher_encrypt_one(tfm, out, prev);\n",
        "	crypto_cipher_encrypt_one(tfm, out, prev);\n	out[bs] = 0;\n",
    ),
    (
        "crypto/pcbc.c",
        "		crypto_xor_cpy(iv, dst, src, bsize);\n",
        "		crypto_xor_cpy(iv, dst, src, bsize);\n		READ_ONCE(src[bsize]);\n",
    ),
    (
        "crypto/ctr.c",
        "	crypto_skcipher_set_reqsize(tfm, reqsize);",
        "	crypto_skcipher_set_reqsize(tfm, reqsize - 64);",
    ),
    // context: a function that may sleep, and a missing check before opening a section. The third
    // expected finding is in the unmodified tree.
    (
        "crypto/xctr.c",
        "	err = skcipher_walk_virt(&walk, req, false);",
        "	cond_resched();\n	err = skcipher_walk_virt(&walk, req, false);",
    ),
    (
        "arch/x86/crypto/sha1_ssse3_glue.c",
        "!crypto_simd_usable() ||",
        "",
    ),
    // values: faults in the tag comparison and in a key length check. Then three faults each for
    // the oracles leaks, failures and fill.
    (
        "crypto/gcm.c",
        "crypto_memneq(iauth_tag, auth_tag, authsize)",
        "crypto_memneq(iauth_tag, auth_tag, authsize - 1)",
    ),
    (
        "crypto/authenc.c",
        "	if (keylen < keys->enckeylen)\n		return -EINVAL;",
        "",
    ),
    (
        "crypto/lrw.c",
        "	if (ctx->table)\n		gf128mul_free_64k(ctx->table);\n	crypto_free_skcipher(ctx->child);",
        "	crypto_free_skcipher(ctx->child);",
    ),
    (
        "crypto/xts.c",
        "	crypto_free_skcipher(ctx->child);\n	crypto_free_cipher(ctx->tweak);",
        "	crypto_free_cipher(ctx->tweak);",
    ),
    ("crypto/adiantum.c", "	kfree_sensitive(data);\n", ""),
    ("crypto/lrw.c", "	if (!ctx->table)\n		return -ENOMEM;", ""),
    (
        "crypto/essiv.c",
        "	if (err) {\n		crypto_free_skcipher(skcipher);",
        "	if (err) {",
    ),
    (
        "crypto/xts.c",
        "	if (IS_ERR(tweak)) {\n		crypto_free_skcipher(ctx->child);",
        "	if (IS_ERR(tweak)) {",
    ),
    ("crypto/xcbc.c", "	memset(prev, 0, bs);", ""),
    ("crypto/cmac.c", "	memset(prev, 0, bs);", ""),
    ("crypto/ccm.c", "	memset(ctx->dg, 0, bs);", ""),
];

/// More faults for each oracle.
const MORE_EDITS: [Edit; 14] = [
    // context: an allocation that may sleep. values: a lost carry in a counter.
    (
        "crypto/hctr2.c",
        "	return hctr2_crypt(req, true);",
        "	kfree(kmalloc(8, GFP_KERNEL));\n	return hctr2_crypt(req, true);",
    ),
    (
        "arch/x86/crypto/sm4-aesni-avx-asm_64.S",
        "	vpslldq $8, tmp, tmp;        \\\n	vpsubq tmp, x, x;",
        "	vpslldq $8, tmp, tmp;",
    ),
    // registers: violations of the rules for a callee-saved register, the direction flag, MXCSR,
    // upper halves, stack alignment, and the frame pointer.
    (
        "arch/x86/crypto/serpent-avx-x86_64-asm_64.S",
        "SYM_FUNC_START(serpent_ecb_enc_8way_avx)\n",
        "SYM_FUNC_START(serpent_ecb_enc_8way_avx)\n	xorl %r15d, %r15d;\n",
    ),
    (
        "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        "SYM_FUNC_START(twofish_ecb_enc_8way)\n",
        "SYM_FUNC_START(twofish_ecb_enc_8way)\n	std;\n",
    ),
    (
        "arch/x86/crypto/cast6-avx-x86_64-asm_64.S",
        "SYM_FUNC_START(cast6_ecb_enc_8way)\n",
        "SYM_FUNC_START(cast6_ecb_enc_8way)\n	pushq $0x1f80;\n	ldmxcsr (%rsp);\n	popq %rax;\n",
    ),
    (
        "arch/x86/crypto/aes-xts-avx-x86_64.S",
        ".if VL > 16\n	vzeroupper\n.endif",
        "",
    ),
    (
        "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        "SYM_FUNC_START(twofish_ecb_dec_8way)\n",
        "SYM_FUNC_START(twofish_ecb_dec_8way)\n	vmovaps %xmm0, -32(%rsp);\n",
    ),
    (
        "arch/x86/crypto/cast5-avx-x86_64-asm_64.S",
        "SYM_FUNC_START(cast5_ecb_enc_16way)\n",
        "SYM_FUNC_START(cast5_ecb_enc_16way)\n	pushq %rbp;\n	xorl %ebp, %ebp;\n	popq %rbp;\n",
    ),
    // features: code that uses GFNI, BMI2 and AVX2 without checking for these features. bounds:
    // sections that are too long.
    (
        "arch/x86/crypto/aria_aesni_avx_glue.c",
        "	if (boot_cpu_has(X86_FEATURE_GFNI) && IS_ENABLED(CONFIG_AS_GFNI)) {",
        "	if (IS_ENABLED(CONFIG_AS_GFNI)) {",
    ),
    (
        "arch/x86/crypto/sha1_ssse3_glue.c",
        "		&& boot_cpu_has(X86_FEATURE_BMI2))",
        "		)",
    ),
    (
        "arch/x86/crypto/nhpoly1305-avx2-glue.c",
        "	if (!boot_cpu_has(X86_FEATURE_AVX2) ||\n",
        "	if (\n",
    ),
    ("arch/x86/crypto/nhpoly1305-avx2-glue.c", "SZ_4K", "SZ_32M"),
    ("arch/x86/crypto/nhpoly1305-sse2-glue.c", "SZ_4K", "SZ_1M"),
    (
        "arch/x86/crypto/polyval-clmulni_glue.c",
        "min(srclen, 4096U)",
        "min(srclen, 1u << 25)",
    ),
];

/// Faults that cause a crash in three places: in a driver, in a driver called by cryptd's thread,
/// and in a softirq.
const CRASHES: [Edit; 3] = [
    (
        "arch/x86/crypto/camellia_aesni_avx_glue.c",
        "static int ecb_encrypt(struct skcipher_request *req)\n{\n",
        "static int ecb_encrypt(struct skcipher_request *req)\n{\n	if (req->cryptlen > 100)\n		*(volatile int *)16 = 0;\n",
    ),
    (
        "crypto/cryptd.c",
        "	if (likely(subreq))\n		err = crypto_skcipher_encrypt(subreq);",
        "	if (subreq && subreq->cryptlen > 100 &&\n	    strstr(crypto_skcipher_driver_name(crypto_skcipher_reqtfm(subreq)), \"ecb-cast6\"))\n		*(volatile int *)32 = 0;\n	if (likely(subreq))\n		err = crypto_skcipher_encrypt(subreq);",
    ),
    (
        "crypto/md4.c",
        "	const u32 avail = sizeof(mctx->block) - (mctx->byte_count & 0x3f);\n",
        "	const u32 avail = sizeof(mctx->block) - (mctx->byte_count & 0x3f);\n\n	if (in_serving_softirq())\n		*(volatile int *)48 = 0;\n",
    ),
];

/// The expected finding for each fault: oracle, driver, rule, and the function, or an empty string
/// if the function is not known.
const EXPECTED: [(&str, &str, &str, &str); 16] = [
    (
        "memory",
        "xcbc(aes-aesni)",
        "crash",
        "crypto_xcbc_digest_final",
    ),
    ("memory", "pcbc(aes-aesni)", "crash", "crypto_pcbc_encrypt"),
    ("memory", "rfc3686(ctr(aes-generic))", "crash", ""),
    ("context", "xctr(aes-aesni)", "sleep", "crypto_xctr_crypt"),
    ("context", "sha1-avx2", "fpu-section", "sha1_avx2_update"),
    (
        "values",
        "gcm_base(ctr(aes-aesni),ghash-generic)",
        "forgery",
        "gcm_base",
    ),
    (
        "values",
        "authenc(hmac(sha256-ni),cbc-aes-aesni)",
        "crash",
        "",
    ),
    (
        "leaks",
        "lrw(ecb(aes-aesni))",
        "leak",
        "gf128mul_init_64k_bbe",
    ),
    ("leaks", "xts(ecb(aes-aesni))", "leak", "crypto_"),
    (
        "leaks",
        "adiantum(xchacha12-simd,aes-aesni,nhpoly1305-avx2)",
        "leak",
        "adiantum_setkey",
    ),
    (
        "failures",
        "lrw(ecb(aes-aesni))",
        "crash",
        "gf128mul_64k_bbe",
    ),
    ("failures", "essiv(cbc-aes-aesni,sha256-ni)", "leak", ""),
    ("failures", "xts(ecb(aes-aesni))", "leak", "crypto_"),
    ("fill", "xcbc(aes-aesni)", "uninitialised", "xcbc"),
    ("fill", "cmac(aes-aesni)", "uninitialised", "cmac"),
    ("fill", "cbcmac(aes-aesni)", "uninitialised", "cbcmac"),
];

/// The expected findings for [`MORE_EDITS`].
const MORE_EXPECTED: [(&str, &str, &str, &str); 14] = [
    (
        "context",
        "hctr2_base(xctr-aes-aesni,polyval-clmulni)",
        "sleep",
        "hctr2_",
    ),
    ("values", "ctr-sm4-aesni-avx", "answer", ""),
    (
        "registers",
        "ecb-serpent-avx",
        "preserved",
        "serpent_ecb_enc_8way_avx",
    ),
    ("registers", "ecb-twofish-avx", "direction", "ecb_encrypt"),
    (
        "registers",
        "ecb-twofish-avx",
        "crash",
        "twofish_ecb_dec_8way",
    ),
    ("registers", "ecb-cast6-avx", "mxcsr", "ecb_encrypt"),
    ("registers", "xts-aes-vaes-avx2", "upper-halves", "xts_"),
    (
        "registers",
        "ecb-cast5-avx",
        "frame-pointer",
        "cast5_ecb_enc_16way+0x",
    ),
    (
        "features",
        "ecb-aria-avx",
        "feature",
        "__aria_aesni_avx_gfni_",
    ),
    ("features", "sha1-avx2", "feature", "sha1_transform_avx2"),
    ("features", "nhpoly1305-avx2", "feature", "nh_avx2"),
    (
        "bounds",
        "nhpoly1305-avx2",
        "unbounded-section",
        "nhpoly1305_avx2_update",
    ),
    (
        "bounds",
        "nhpoly1305-sse2",
        "long-section",
        "nhpoly1305_sse2_update",
    ),
    (
        "bounds",
        "polyval-clmulni",
        "unbounded-section",
        "polyval_x86_update",
    ),
];

/// A driver in which no fault is planted.
const CONTROL: &str = "cbc-aes-aesni";

/// The oracles that run by default.
const QUICK: [&str; 8] = [
    "memory", "context", "values", "sequence", "leaks", "failures", "fill", "queues",
];

/// Creates a copy of the tree and plants these faults in it.
fn planted(tree: &Path, edits: &[Edit]) -> Edited {
    let tree = Edited::new(tree);
    let files: BTreeSet<&str> = edits.iter().map(|(file, _, _)| *file).collect();
    for file in files {
        tree.edit(file, |mut text| {
            for (_, from, to) in edits.iter().filter(|(of, _, _)| *of == file) {
                assert!(text.contains(from), "{file} has no {from:?}");
                text = text.replacen(from, to, 1);
            }
            text
        });
    }
    tree
}

#[test]
fn planted_faults_are_found_and_named() {
    if let Some(tree) = given_tree() {
        finds(&planted(&tree, &EDITS), &EXPECTED);
    }
}

#[test]
fn faults_that_were_added_later_are_found_and_named() {
    if let Some(tree) = given_tree() {
        finds(&planted(&tree, &MORE_EDITS), &MORE_EXPECTED);
    }
}

/// Runs all oracles in one run, and checks that each fault is found.
fn finds(tree: &Edited, all: &[(&str, &str, &str, &str)]) {
    let oracles: BTreeSet<&str> = all.iter().map(|(oracle, ..)| *oracle).collect();
    let oracles: Vec<&str> = oracles.into_iter().collect();
    let names: BTreeSet<&str> = all.iter().map(|(_, driver, ..)| *driver).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.push(CONTROL);
    let rows = rows(tree.path(), &oracles.join(","), &names, 1);
    let find = |oracle: &str, driver: &str| {
        let row = (rows.iter()).find(|r| r["impl"] == driver && r["context"] == oracle);
        row.unwrap_or_else(|| panic!("no {driver} under {oracle}"))
    };
    for (oracle, driver, rule, place) in all {
        let row = find(oracle, driver);
        let finding = row["finding"].as_str().unwrap_or("");
        let lines: Vec<&str> = finding.lines().collect();
        let named = lines.windows(2).any(|pair| {
            pair[0].starts_with(&format!("{rule}: "))
                && pair[1].starts_with(&format!("where: {place}"))
        });
        assert!(named, "{oracle}: {rule} in {place}: {row}");
    }
    for oracle in oracles {
        assert_eq!(find(oracle, CONTROL)["failed"], 0, "{oracle}");
    }
}

/// The run must continue after a crash, whichever thread crashed, and must attribute the crash to
/// the driver that was processing the request.
#[test]
fn a_crash_is_of_the_driver_whose_request_it_was() {
    let Some(tree) = given_tree() else { return };
    let tree = planted(&tree, &CRASHES);
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
    // cryptd's thread makes no requests itself, so the report must contain the request that it was
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

/// Known findings in unmodified trees are listed in `tree/oracles/known` with a reason, and must
/// not make a run fail.
fn has_known_findings_only(tree: &Path, least: usize) {
    let run = kiln_keeping(&[
        "test",
        "--json",
        "--seed",
        "1",
        "--tree",
        tree.to_str().unwrap(),
        "--oracle",
        &QUICK.join(","),
    ]);
    let record: Value = serde_json::from_str(&run.stdout()).expect("JSON");
    let rows = record["rows"].as_array().expect("rows").clone();
    let failed: Vec<&Value> = rows.iter().filter(|r| r["failed"] != 0).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(run.status, 0, "{}", run.stderr);
    for oracle in QUICK {
        let of = rows.iter().filter(|r| r["context"] == oracle);
        let ran = of.filter(|r| r["cases"] != 0).count();
        assert!(ran > 100, "{oracle}: {ran} drivers");
    }
    let known: Vec<&Value> = rows.iter().filter(|r| r["known"] != 0).collect();
    assert!(known.len() > least, "{known:#?}");
    for row in known {
        let finding = row["finding"].as_str().expect("a finding");
        assert!(finding.contains("known: "), "{row}");
    }
    // Every entry in the list must match a finding; otherwise the entry is outdated.
    let notes = record["notes"].as_array().expect("notes");
    let unseen = |n: &&Value| n.to_string().contains("was not seen");
    assert_eq!(notes.iter().find(unseen), None);
}

#[test]
fn the_unchanged_tree_has_known_findings_only() {
    if let Some(tree) = given_tree() {
        has_known_findings_only(&tree, 1);
    }
}

#[test]
fn a_current_tree_has_known_findings_only() {
    if let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel") {
        has_known_findings_only(&tree, 1);
    }
}
