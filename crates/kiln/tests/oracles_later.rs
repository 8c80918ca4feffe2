//! Tests of oracles for faults that appear only in later or concurrent requests: `queues`,
//! `sharing`, `sequence`, `failures`, and `context` in hardirqs. The tree is KILN_TEST_TREE, Linux
//! 6.12.

mod common;
mod edited;
mod planted;

use common::tree::given_tree;
use edited::Edited;
use planted::{fault, find, Fault};

/// Faults that appear only in a sequence of calls, or if a step fails.
const CALLS: [Fault; 7] = [
    // The next IV is wrong, part of a second key is ignored, a full buffer is not processed, a
    // wrong key length is accepted, and a transform works after its key was rejected or never set.
    fault(
        "sequence",
        "cbc-twofish-avx",
        "chaining",
        "",
        "arch/x86/crypto/twofish_avx_glue.c",
        &[(
            "	CBC_ENC_BLOCK(twofish_enc_blk);\n",
            "	u8 iv[TF_BLOCK_SIZE];\n\n	memcpy(iv, walk.iv, sizeof(iv));\n	CBC_ENC_BLOCK(twofish_enc_blk);\n	if (walk.nbytes == walk.total)\n		memcpy(walk.iv, iv, sizeof(iv));\n",
        )],
    ),
    fault(
        "sequence",
        "rfc3686(ctr(aes-aesni))",
        "rekey",
        "",
        "crypto/ctr.c",
        &[(
            "	memcpy(ctx->nonce, key + (keylen - CTR_RFC3686_NONCE_SIZE),",
            "	if (!*(u32 *)ctx->nonce)\n		memcpy(ctx->nonce, key + (keylen - CTR_RFC3686_NONCE_SIZE),",
        )],
    ),
    fault(
        "sequence",
        "md4-generic",
        "incremental",
        "",
        "crypto/md4.c",
        &[("	if (avail > len) {", "	if (avail >= len) {")],
    ),
    fault(
        "sequence",
        "ecb-cast6-avx",
        "answer",
        "",
        "arch/x86/crypto/cast6_avx_glue.c",
        &[("= CAST6_MIN_KEY_SIZE,", "= 4,")],
    ),
    fault(
        "sequence",
        "aegis128-aesni",
        "refused-key",
        "",
        "crypto/aead.c",
        &[(
            "		crypto_aead_set_flags(tfm, CRYPTO_TFM_NEED_KEY);\n		return err;",
            "		return err;",
        )],
    ),
    fault(
        "sequence",
        "aegis128-generic",
        "no-key",
        "",
        "crypto/aead.c",
        &[("	crypto_aead_set_flags(aead, CRYPTO_TFM_NEED_KEY);\n", "")],
    ),
    // An error in a step of a walk is ignored.
    fault(
        "failures",
        "xctr(aes-aesni)",
        "answer",
        "",
        "crypto/xctr.c",
        &[(
            "		err = skcipher_walk_done(&walk, nbytes);",
            "		skcipher_walk_done(&walk, nbytes);",
        )],
    ),
];

const FAULTS: [Fault; 9] = [
    // A request is completed when its child has only left the backlog.
    Fault {
        file: "crypto/lrw.c",
        edits: &[(
            "	if (!err) {\n		struct lrw_request_ctx *rctx",
            "	if (!err || err == -EINPROGRESS) {\n		struct lrw_request_ctx *rctx",
        )],
        oracle: "queues",
        driver: "lrw(cryptd(ecb(aes-aesni)))",
        rule: "backlog-lost",
        place: "lrw_crypt_done",
    },
    // A request is completed twice.
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
    // A request is completed with -EBUSY, which only means that its child is in the backlog.
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
    // The callback is not called when a request leaves the backlog.
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
    // -EBUSY is returned for a request that is not queued.
    Fault {
        file: "crypto/algapi.c",
        edits: &[("			err = -ENOSPC;\n			goto out;", "			err = -EBUSY;\n			goto out;")],
        oracle: "queues",
        driver: "cryptd(ecb(aes-aesni))",
        rule: "never-answered",
        place: "",
    },
    // Requests may overtake queued requests.
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
    // A request's IV is stored in the transform, which other requests share.
    Fault {
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
    },
    // A block is stored in per-CPU data while softirqs can interrupt.
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
    // A block is stored in a static variable. Softirqs are disabled, so only another CPU can
    // overwrite the block.
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

/// A driver opens a section in a hardirq without checking what the hardirq interrupted.
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

/// A driver in which no fault is planted.
const CONTROL: &str = "ctr(aes-generic)";

#[test]
fn planted_faults_are_found_and_named() {
    let Some(tree) = given_tree() else { return };
    let tree = Edited::new(&tree);
    let faults: Vec<&Fault> = FAULTS.iter().chain([&HARDIRQ]).chain(&CALLS).collect();
    find(&tree, &faults, CONTROL);
}
