//! Planted faults in the way a driver interacts with its environment, for the oracles `context`,
//! `failures`, `leaks`, `queues` and `sharing`.

use super::Fault;
use super::Tree::{V6_1, V6_12, V7_3};

pub const FAULTS: &[Fault] = &[
    Fault {
        what: "XCTR may sleep",
        oracle: "context",
        rule: "sleep",
        file: "crypto/xctr.c",
        edits: &[(
            "	err = skcipher_walk_virt(&walk, req, false);",
            "	cond_resched();\n	err = skcipher_walk_virt(&walk, req, false);",
        )],
        expect: &[
            (V6_1, "xctr(aes-aesni)", "crypto_xctr_crypt"),
            (V6_12, "xctr(aes-aesni)", "crypto_xctr_crypt"),
            (V7_3, "xctr(aes-lib)", "crypto_xctr_crypt"),
        ],
    },
    Fault {
        what: "SHA-1 does not ask before it opens a section",
        oracle: "context",
        rule: "fpu-section",
        file: "arch/x86/crypto/sha1_ssse3_glue.c",
        edits: &[("!crypto_simd_usable() ||", "")],
        expect: &[
            (V6_1, "sha1-avx2", ""),
            (V6_12, "sha1-avx2", "sha1_avx2_update"),
        ],
    },
    Fault {
        what: "HCTR2 allocates memory with a flag that lets it sleep",
        oracle: "context",
        rule: "sleep",
        file: "crypto/hctr2.c",
        edits: &[(
            "	return hctr2_crypt(req, true);",
            "	kfree(kmalloc(8, GFP_KERNEL));\n	return hctr2_crypt(req, true);",
        )],
        expect: &[
            (V6_1, "hctr2_base(xctr-aes-aesni,polyval-clmulni)", "hctr2_"),
            (
                V6_12,
                "hctr2_base(xctr-aes-aesni,polyval-clmulni)",
                "hctr2_",
            ),
            (V7_3, "hctr2_base(xctr(aes-lib),polyval-lib)", "hctr2_"),
        ],
    },
    Fault {
        what: "SHA-256 opens a section in every hardirq",
        oracle: "context",
        rule: "fpu-section",
        file: "arch/x86/crypto/sha256_ssse3_glue.c",
        edits: &[(
            "	if (!crypto_simd_usable() ||",
            "	if (!(in_hardirq() || crypto_simd_usable()) ||",
        )],
        expect: &[
            (V6_1, "sha256-avx2", ""),
            (V6_12, "sha256-avx2", "_sha256_update"),
        ],
    },
    Fault {
        what: "SHA-512 does not ask before it opens a section",
        oracle: "context",
        rule: "fpu-section",
        file: "lib/crypto/x86/sha512.h",
        edits: &[("irq_fpu_usable()", "true")],
        expect: &[(V7_3, "sha512-lib", "")],
    },
    Fault {
        what: "LRW does not notice a failed allocation",
        oracle: "failures",
        rule: "crash",
        file: "crypto/lrw.c",
        edits: &[("	if (!ctx->table)\n		return -ENOMEM;", "")],
        expect: &[
            (V6_1, "lrw(ecb(aes-aesni))", "gf128mul_64k_bbe"),
            (V6_12, "lrw(ecb(aes-aesni))", "gf128mul_64k_bbe"),
            (V7_3, "lrw(ecb-aes-aesni)", ""),
        ],
    },
    Fault {
        what: "ESSIV does not free its child after an error",
        oracle: "failures",
        rule: "leak",
        file: "crypto/essiv.c",
        edits: &[(
            "	if (err) {\n		crypto_free_skcipher(skcipher);",
            "	if (err) {",
        )],
        expect: &[
            (V6_12, "essiv(cbc-aes-aesni,sha256-ni)", ""),
            (V7_3, "essiv(cbc-aes-aesni,sha256-lib)", ""),
        ],
    },
    Fault {
        what: "HCTR2 does not free its child after an error",
        oracle: "failures",
        rule: "leak",
        file: "crypto/hctr2.c",
        edits: &[(
            "err_free_xctr:\n	crypto_free_skcipher(xctr);",
            "err_free_xctr:",
        )],
        expect: &[(
            V6_12,
            "hctr2_base(xctr-aes-aesni,polyval-clmulni)",
            "crypto_",
        )],
    },
    Fault {
        what: "XCTR ignores an error in a step of a walk",
        oracle: "failures",
        rule: "answer",
        file: "crypto/xctr.c",
        edits: &[(
            "		err = skcipher_walk_done(&walk, nbytes);",
            "		skcipher_walk_done(&walk, nbytes);",
        )],
        expect: &[
            (V6_1, "xctr(aes-aesni)", ""),
            (V6_12, "xctr(aes-aesni)", ""),
            (V7_3, "xctr(aes-lib)", ""),
        ],
    },
    Fault {
        what: "PCBC ignores an error in a step of a walk",
        oracle: "failures",
        rule: "answer",
        file: "crypto/pcbc.c",
        edits: &[(
            "		err = skcipher_walk_done(&walk, nbytes);",
            "		skcipher_walk_done(&walk, nbytes);",
        )],
        expect: &[(V6_1, "pcbc(aes-aesni)", "")],
    },
    Fault {
        what: "LRW does not free its table",
        oracle: "leaks",
        rule: "leak",
        file: "crypto/lrw.c",
        edits: &[(
            "	if (ctx->table)
		gf128mul_free_64k(ctx->table);
	crypto_free_skcipher(ctx->child);",
            "	crypto_free_skcipher(ctx->child);",
        )],
        expect: &[
            (V6_1, "lrw(ecb(aes-aesni))", "gf128mul_init_64k_bbe"),
            (V6_12, "lrw(ecb(aes-aesni))", "gf128mul_init_64k_bbe"),
            (V7_3, "lrw(ecb-aes-aesni)", "gf128mul_init_64k_bbe"),
        ],
    },
    Fault {
        what: "XTS does not free its child",
        oracle: "leaks",
        rule: "leak",
        file: "crypto/xts.c",
        edits: &[(
            "	crypto_free_skcipher(ctx->child);\n	crypto_free_cipher(ctx->tweak);",
            "	crypto_free_cipher(ctx->tweak);",
        )],
        expect: &[
            (V6_1, "xts(ecb(aes-aesni))", "crypto_"),
            (V6_12, "xts(ecb(aes-aesni))", "crypto_"),
            (V7_3, "xts(ecb-aes-aesni)", "crypto_"),
        ],
    },
    Fault {
        what: "Adiantum does not free the keys that it derives",
        oracle: "leaks",
        rule: "leak",
        file: "crypto/adiantum.c",
        edits: &[("	kfree_sensitive(data);\n", "")],
        expect: &[
            (
                V6_1,
                "adiantum(xchacha12-simd,aes-aesni,nhpoly1305-avx2)",
                "adiantum_setkey",
            ),
            (
                V6_12,
                "adiantum(xchacha12-simd,aes-aesni,nhpoly1305-avx2)",
                "adiantum_setkey",
            ),
            (V7_3, "adiantum(xchacha12-lib,aes-lib)", "adiantum_setkey"),
        ],
    },
    Fault {
        what: "LRW completes a request when its child has only left the backlog",
        oracle: "queues",
        rule: "backlog-lost",
        file: "crypto/lrw.c",
        edits: &[(
            "	if (!err) {\n		struct lrw_request_ctx *rctx",
            "	if (!err || err == -EINPROGRESS) {\n		struct lrw_request_ctx *rctx",
        )],
        expect: &[
            (V6_1, "lrw(ecb-aes-aesni)", "lrw_crypt_done"),
            (V6_12, "lrw(cryptd(ecb(aes-aesni)))", "lrw_crypt_done"),
            (V7_3, "lrw(cryptd(ecb-aes-aesni))", "lrw_crypt_done"),
        ],
    },
    Fault {
        what: "ESSIV completes a request twice",
        oracle: "queues",
        rule: "completed-twice",
        file: "crypto/essiv.c",
        edits: &[(
            "	struct skcipher_request *req = data;

	skcipher_request_complete(req, err);",
            "	struct skcipher_request *req = data;

	skcipher_request_complete(req, err);
	skcipher_request_complete(req, err);",
        )],
        expect: &[
            (
                V6_12,
                "essiv(cbc-aes-aesni,sha256-ni)",
                "essiv_skcipher_done",
            ),
            (
                V7_3,
                "essiv(cryptd(cbc-aes-aesni),sha256-lib)",
                "essiv_skcipher_done",
            ),
        ],
    },
    Fault {
        what: "XTS completes a request with -EBUSY when its child enters the backlog",
        oracle: "queues",
        rule: "queue-answer",
        file: "crypto/xts.c",
        edits: &[(
            "			if (err == -EINPROGRESS || err == -EBUSY)",
            "			if (err == -EINPROGRESS)",
        )],
        expect: &[
            (V6_12, "xts(cryptd(ecb(aes-aesni)))", "xts_encrypt_done"),
            (V7_3, "xts(cryptd(ecb-aes-aesni))", "xts_encrypt_done"),
        ],
    },
    Fault {
        what: "cryptd does not call back when a hash leaves the backlog",
        oracle: "queues",
        rule: "backlog-lost",
        file: "crypto/cryptd.c",
        edits: &[(
            "	rctx->complete(&req->base, err);
	local_bh_enable();

	if (err != -EINPROGRESS && refcnt && refcount_dec_and_test(&ctx->refcnt))
		crypto_free_ahash(tfm);",
            "	if (err != -EINPROGRESS)
		rctx->complete(&req->base, err);
	local_bh_enable();

	if (err != -EINPROGRESS && refcnt && refcount_dec_and_test(&ctx->refcnt))
		crypto_free_ahash(tfm);",
        )],
        expect: &[(V6_1, "cryptd(md5-generic)", "cryptd_hash_complete")],
    },
    // The same fault, in the code of later versions.
    Fault {
        what: "cryptd does not call back when a hash leaves the backlog",
        oracle: "queues",
        rule: "backlog-lost",
        file: "crypto/cryptd.c",
        edits: &[(
            "	ahash_request_complete(req, err);",
            "	if (err != -EINPROGRESS)\n		ahash_request_complete(req, err);",
        )],
        expect: &[
            (V6_12, "cryptd(md5-generic)", "cryptd_hash_complete"),
            (V7_3, "cryptd(cmac(aes-lib))", "cryptd_hash_complete"),
        ],
    },
    Fault {
        what: "A full queue returns -EBUSY for a request that it drops",
        oracle: "queues",
        rule: "never-answered",
        file: "crypto/algapi.c",
        edits: &[(
            "			err = -ENOSPC;\n			goto out;",
            "			err = -EBUSY;\n			goto out;",
        )],
        expect: &[
            (V6_1, "cryptd(vmac64(aes-aesni))", ""),
            (V6_12, "cryptd(ecb(aes-aesni))", ""),
        ],
    },
    Fault {
        what: "Requests overtake queued requests",
        oracle: "queues",
        rule: "order",
        file: "crypto/simd.c",
        edits: &[(
            "(in_atomic() && cryptd_skcipher_queued(ctx->cryptd_tfm))",
            "false",
        )],
        expect: &[(V6_1, "cbc-aes-aesni", ""), (V6_12, "cbc-aes-aesni", "")],
    },
    Fault {
        what: "RFC 3686 stores the IV of a request in the transform",
        oracle: "sharing",
        rule: "shared-state",
        file: "crypto/ctr.c",
        edits: &[
            (
                "	u8 nonce[CTR_RFC3686_NONCE_SIZE];",
                "	u8 nonce[CTR_RFC3686_NONCE_SIZE];\n	u8 iv[CTR_RFC3686_BLOCK_SIZE];",
            ),
            ("	u8 *iv = rctx->iv;", "	u8 *iv = ctx->iv;"),
        ],
        expect: &[
            (V6_1, "rfc3686(ctr(aes-aesni))", "crypto_"),
            (V6_12, "rfc3686(ctr(aes-aesni))", "crypto_"),
            (V7_3, "rfc3686(ctr-aes-aesni)", "crypto_"),
        ],
    },
    Fault {
        what: "PCBC stores a block in per-CPU data while softirqs can interrupt",
        oracle: "sharing",
        rule: "shared-state",
        file: "crypto/pcbc.c",
        edits: &[
            (
                "static int crypto_pcbc_encrypt_segment(",
                "static DEFINE_PER_CPU(u8[MAX_CIPHER_BLOCKSIZE], scratch);

static int crypto_pcbc_encrypt_segment(",
            ),
            (
                "	u8 tmpbuf[MAX_CIPHER_BLOCKSIZE];",
                "	u8 *tmpbuf = *raw_cpu_ptr(&scratch);",
            ),
        ],
        expect: &[
            (V6_1, "pcbc(aes-aesni)", ""),
            (V6_12, "pcbc(aes-aesni)", ""),
        ],
    },
    Fault {
        what: "LRW stores its tweak in a static variable",
        oracle: "sharing",
        rule: "shared-state",
        file: "crypto/lrw.c",
        edits: &[
            ("	be128 t = rctx->t;", "	static be128 t;"),
            (
                "	err = skcipher_walk_virt(&w, req, false);",
                "	t = rctx->t;\n	err = skcipher_walk_virt(&w, req, false);",
            ),
        ],
        expect: &[(V7_3, "lrw(ecb-aes-aesni)", "")],
    },
    Fault {
        what: "XCTR stores a block in a static variable, with softirqs off",
        oracle: "sharing",
        rule: "shared-state",
        file: "crypto/xctr.c",
        edits: &[
            (".virt.addr;\n	u8 tmp[", ".virt.addr;\n	static u8 tmp["),
            (
                "			nbytes = crypto_xctr_crypt_inplace(&walk, cipher,
							   byte_ctr);",
                "			local_bh_disable(),
			nbytes = crypto_xctr_crypt_inplace(&walk, cipher, byte_ctr),
			local_bh_enable();",
            ),
        ],
        expect: &[
            (V6_1, "xctr(aes-aesni)", ""),
            (V6_12, "xctr(aes-aesni)", ""),
            (V7_3, "xctr(aes-lib)", ""),
        ],
    },
];
