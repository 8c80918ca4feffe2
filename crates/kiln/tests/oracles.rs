//! `kiln test --tree --oracle`: rules that every driver of a tree must keep (KILN_TEST_TREE, an LTS kernel's).

mod common;
mod edited;

use std::path::Path;

use common::tree::{given_tree, kiln_keeping};
use edited::Edited;
use serde_json::Value;

/// The rows of an oracle, of these algorithms or drivers.
fn rows(tree: &str, oracle: &str, names: &[&str], status: i32) -> Vec<Value> {
    let mut args = vec!["test", "--json", "--seed", "1", "--tree", tree, "--oracle"];
    args.push(oracle);
    args.extend(names);
    let run = kiln_keeping(&args);
    assert_eq!(run.status, status, "{}\n{}", run.stderr, run.stdout());
    let record: Value = serde_json::from_str(&run.stdout()).expect("JSON");
    let rows = record["rows"].as_array().expect("rows").clone();
    rows.into_iter()
        .filter(|r| r["suite"] == "oracle")
        .collect()
}

/// Replaces the first of a text in a file of the tree.
type Edit = (&'static str, &'static str, &'static str);

/// Faults for each oracle. No answer in ordinary memory and a task shows those of memory, context, leaks and failures.
const EDITS: [Edit; 16] = [
    // memory: a byte behind the digest; a byte behind the source; a request context that is too small.
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
    // context: sleeps; does not ask whether it may open a section. The third is in the tree.
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
    // values: a tag; a key.
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
    // leaks
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
    // failures
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
    // fill
    ("crypto/xcbc.c", "	memset(prev, 0, bs);", ""),
    ("crypto/cmac.c", "	memset(prev, 0, bs);", ""),
    ("crypto/ccm.c", "	memset(ctx->dg, 0, bs);", ""),
];

/// For each oracle: the driver, the rule, and the function where that is known.
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

#[test]
fn planted_faults_are_found_and_named() {
    let Some(tree) = given_tree() else { return };
    let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("edited-oracles/linux");
    let tree = Edited::at(&tree, &at);
    let mut files: Vec<&str> = EDITS.iter().map(|(file, _, _)| *file).collect();
    files.dedup();
    files.sort_unstable();
    files.dedup();
    for file in files {
        tree.edit(file, |mut text| {
            for (_, from, to) in EDITS.iter().filter(|(of, _, _)| *of == file) {
                assert!(text.contains(from), "{file} has no {from:?}");
                text = text.replacen(from, to, 1);
            }
            text
        });
    }
    for oracle in ["memory", "context", "values", "leaks", "failures", "fill"] {
        let expected = EXPECTED.iter().filter(|(of, ..)| *of == oracle);
        let mut names: Vec<&str> = expected.clone().map(|(_, driver, ..)| *driver).collect();
        // The control, which is not edited.
        names.push("cbc-aes-aesni");
        let rows = rows(tree.path(), oracle, &names, 1);
        for (_, driver, rule, place) in expected {
            let row = rows.iter().find(|r| r["impl"] == *driver);
            let row = row.unwrap_or_else(|| panic!("no {driver} under {oracle}"));
            let finding = row["finding"].as_str().unwrap_or("");
            assert!(finding.contains(&format!("{rule}: ")), "{oracle}: {row}");
            assert!(
                finding.contains(&format!("where: {place}")),
                "{oracle}: {row}"
            );
        }
        let control = rows.iter().find(|r| r["impl"] == "cbc-aes-aesni");
        assert_eq!(control.expect("the control")["failed"], 0, "{oracle}");
    }
}

/// What the unchanged tree shows is in docs/TREES.md.
#[test]
fn the_unchanged_tree_has_the_known_findings_only() {
    let Some(tree) = given_tree() else { return };
    let known = ["xts_cts_final", "rfc4309", "krb5enc"];
    for oracle in ["memory", "context", "values", "leaks", "failures", "fill"] {
        let dir = tree.to_str().unwrap();
        let all = kiln_keeping(&[
            "test", "--json", "--seed", "1", "--tree", dir, "--oracle", oracle,
        ]);
        let record: Value = serde_json::from_str(&all.stdout()).expect("JSON");
        let rows = record["rows"].as_array().expect("rows").clone();
        assert!(rows.len() > 700, "{} rows", rows.len());
        for row in rows.iter().filter(|r| r["failed"] != 0) {
            let finding = row["finding"].as_str().unwrap_or("");
            let is_known = known
                .iter()
                .any(|k| finding.contains(k) || row["impl"].to_string().contains(k));
            assert!(is_known, "{row}");
        }
    }
}
