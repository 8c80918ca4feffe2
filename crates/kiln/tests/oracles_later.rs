//! Oracles for asynchronous and concurrent behaviour: `queues`, `sharing`, and `context` in hardirqs (KILN_TEST_TREE,
//! Linux 6.12; KILN_TEST_TREE_NEXT, Linux 7.x).

mod common;
mod edited;

use common::oracle::rows;
use common::tree::{given_tree, tree_of};
use edited::Edited;

/// Edits of a file, each replacing one occurrence, and the finding that reveals them.
struct Fault {
    file: &'static str,
    edits: &'static [(&'static str, &'static str)],
    oracle: &'static str,
    driver: &'static str,
    rule: &'static str,
    /// The function, if known.
    place: &'static str,
}

/// Fault: completes a request when its child has merely left the backlog.
const LRW: Fault = Fault {
    file: "crypto/lrw.c",
    edits: &[(
        "	if (!err) {\n		struct lrw_request_ctx *rctx",
        "	if (!err || err == -EINPROGRESS) {\n		struct lrw_request_ctx *rctx",
    )],
    oracle: "queues",
    driver: "lrw(cryptd(ecb(aes-aesni)))",
    rule: "backlog-lost",
    place: "lrw_crypt_done",
};

/// Keeps a request's IV in the transform.
const RFC3686: Fault = Fault {
    file: "crypto/ctr.c",
    edits: &[
        (
            "	u8 nonce[CTR_RFC3686_NONCE_SIZE];\n",
            "	u8 nonce[CTR_RFC3686_NONCE_SIZE];\n	u8 iv[CTR_RFC3686_BLOCK_SIZE];\n",
        ),
        ("	u8 *iv = rctx->iv;", "	u8 *iv = ctx->iv;"),
    ],
    oracle: "sharing",
    driver: "rfc3686(ctr(aes-aesni))",
    rule: "shared-state",
    place: "crypto_",
};

const FAULTS: [Fault; 9] = [
    LRW,
    // Completes a request twice.
    Fault {
        file: "crypto/essiv.c",
        edits: &[(
            "	struct skcipher_request *req = data;\n\n	skcipher_request_complete(req, err);\n",
            "	struct skcipher_request *req = data;\n\n	skcipher_request_complete(req, err);\n	skcipher_request_complete(req, err);\n",
        )],
        oracle: "queues",
        driver: "essiv(cbc-aes-aesni,sha256-ni)",
        rule: "completed-twice",
        place: "essiv_skcipher_done",
    },
    // Completes a request with -EBUSY, which means that its child is in the backlog.
    Fault {
        file: "crypto/xts.c",
        edits: &[(
            "			if (err == -EINPROGRESS || err == -EBUSY)",
            "			if (err == -EINPROGRESS)",
        )],
        oracle: "queues",
        driver: "xts(cryptd(ecb(aes-aesni)))",
        rule: "queue-answer",
        place: "xts_encrypt_done",
    },
    // Does not notify when a request leaves the backlog.
    Fault {
        file: "crypto/cryptd.c",
        edits: &[(
            "	ahash_request_complete(req, err);\n",
            "	if (err != -EINPROGRESS)\n		ahash_request_complete(req, err);\n",
        )],
        oracle: "queues",
        driver: "cryptd(cmac(aes-aesni))",
        rule: "backlog-lost",
        place: "cryptd_hash_complete",
    },
    // Returns -EBUSY for a request that is not queued.
    Fault {
        file: "crypto/algapi.c",
        edits: &[("			err = -ENOSPC;\n			goto out;", "			err = -EBUSY;\n			goto out;")],
        oracle: "queues",
        driver: "cryptd(ecb(aes-aesni))",
        rule: "never-answered",
        place: "",
    },
    // Requests overtake queued ones.
    Fault {
        file: "crypto/simd.c",
        edits: &[(
            "(in_atomic() && cryptd_skcipher_queued(ctx->cryptd_tfm))",
            "false",
        )],
        oracle: "queues",
        driver: "cbc-aes-aesni",
        rule: "order",
        place: "",
    },
    RFC3686,
    // Keeps a block in per-CPU data while softirqs are enabled.
    Fault {
        file: "crypto/pcbc.c",
        edits: &[
            (
                "static int crypto_pcbc_encrypt_segment(",
                "static DEFINE_PER_CPU(u8[MAX_CIPHER_BLOCKSIZE], scratch);\n\nstatic int crypto_pcbc_encrypt_segment(",
            ),
            (
                "	u8 tmpbuf[MAX_CIPHER_BLOCKSIZE];",
                "	u8 *tmpbuf = *raw_cpu_ptr(&scratch);",
            ),
        ],
        oracle: "sharing",
        driver: "pcbc(aes-aesni)",
        rule: "shared-state",
        place: "",
    },
    // Keeps a block in a variable with softirqs disabled, so only another CPU interferes.
    Fault {
        file: "crypto/xctr.c",
        edits: &[
            (
                "	u8 *data = walk->src.virt.addr;\n	u8 tmp[",
                "	u8 *data = walk->src.virt.addr;\n	static u8 tmp[",
            ),
            (
                "			nbytes = crypto_xctr_crypt_inplace(&walk, cipher,\n							   byte_ctr);",
                "			local_bh_disable(), nbytes = crypto_xctr_crypt_inplace(&walk, cipher, byte_ctr), local_bh_enable();",
            ),
        ],
        oracle: "sharing",
        driver: "xctr(aes-aesni)",
        rule: "shared-state",
        place: "",
    },
];

/// Opens a section in hardirqs, whatever they have interrupted.
const HARDIRQ: Fault = Fault {
    file: "arch/x86/crypto/sha256_ssse3_glue.c",
    edits: &[(
        "	if (!crypto_simd_usable() ||",
        "	if (!(in_hardirq() || crypto_simd_usable()) ||",
    )],
    oracle: "context",
    driver: "sha256-avx2",
    rule: "fpu-section",
    place: "_sha256_update",
};

/// A driver without a fault.
const CONTROL: &str = "ctr(aes-generic)";

fn find(tree: &Edited, faults: &[&Fault], control_driver: &str) {
    for fault in faults {
        tree.edit(fault.file, |mut text| {
            for (from, to) in fault.edits {
                assert!(text.contains(from), "{} has no {from:?}", fault.file);
                text = text.replacen(from, to, 1);
            }
            text
        });
    }
    for oracle in ["queues", "sharing", "context"] {
        let expected: Vec<_> = faults.iter().filter(|f| f.oracle == oracle).collect();
        if expected.is_empty() {
            continue;
        }
        let mut names: Vec<&str> = expected.iter().map(|f| f.driver).collect();
        names.push(control_driver);
        let rows = rows(tree.path(), oracle, &names, 1);
        for fault in expected {
            let row = rows.iter().find(|r| r["impl"] == fault.driver);
            let row = row.unwrap_or_else(|| panic!("no {} under {oracle}", fault.driver));
            let finding = row["finding"].as_str().unwrap_or("");
            let lines: Vec<&str> = finding.lines().collect();
            let named = lines.windows(2).any(|pair| {
                pair[0].starts_with(&format!("{}: ", fault.rule))
                    && pair[1].starts_with(&format!("where: {}", fault.place))
            });
            assert!(named, "{}: {row}", fault.file);
        }
        let control = rows.iter().find(|r| r["impl"] == control_driver);
        assert_eq!(control.expect("the control")["failed"], 0, "{oracle}");
    }
}

#[test]
fn planted_faults_are_found_and_named() {
    let Some(tree) = given_tree() else { return };
    let tree = Edited::new(&tree);
    let faults: Vec<&Fault> = FAULTS.iter().chain([&HARDIRQ]).collect();
    find(&tree, &faults, CONTROL);
}

#[test]
fn planted_faults_are_found_in_a_current_tree() {
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "current kernel tree") else {
        return;
    };
    let tree = Edited::new(&tree);
    let lrw = Fault {
        driver: "lrw(cryptd(ecb-aes-lib))",
        ..LRW
    };
    let rfc3686 = Fault {
        driver: "rfc3686(ctr(aes-lib))",
        ..RFC3686
    };
    find(&tree, &[&lrw, &rfc3686], "ctr(aes-lib)");
}
