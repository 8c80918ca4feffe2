//! Planted faults in the way a driver serves a request, for the oracles `fill`, `memory`,
//! `sequence` and `values`.

use super::Fault;
use super::Tree::{V6_1, V6_12, V7_3};

pub const FAULTS: &[Fault] = &[
    Fault {
        what: "XCBC does not initialise its state",
        oracle: "fill",
        rule: "uninitialised",
        file: "crypto/xcbc.c",
        edits: &[("	memset(prev, 0, bs);", "")],
        expect: &[
            (V6_1, "xcbc(aes-aesni)", "xcbc"),
            (V6_12, "xcbc(aes-aesni)", "xcbc"),
            (V7_3, "xcbc(aes-lib)", ""),
        ],
    },
    Fault {
        what: "CMAC does not initialise its state",
        oracle: "fill",
        rule: "uninitialised",
        file: "crypto/cmac.c",
        edits: &[("	memset(prev, 0, bs);", "")],
        expect: &[
            (V6_1, "cmac(aes-aesni)", "cmac"),
            (V6_12, "cmac(aes-aesni)", "cmac"),
            (V7_3, "cmac(camellia-generic)", ""),
        ],
    },
    Fault {
        what: "CBC-MAC does not initialise its state",
        oracle: "fill",
        rule: "uninitialised",
        file: "crypto/ccm.c",
        edits: &[("dg, 0, bs);", "dg, 0, 0);")],
        expect: &[
            (V6_1, "cbcmac(aes-aesni)", "cbcmac"),
            (V6_12, "cbcmac(aes-aesni)", "cbcmac"),
            (V7_3, "cbcmac(aes-lib)", ""),
        ],
    },
    Fault {
        what: "XCBC writes a byte past the digest",
        oracle: "memory",
        rule: "crash",
        file: "crypto/xcbc.c",
        edits: &[(
            "	crypto_cipher_encrypt_one(tfm, out, prev);",
            "	crypto_cipher_encrypt_one(tfm, out, prev);\n	out[bs] = 0;",
        )],
        expect: &[
            (V6_1, "xcbc(aes-aesni)", "crypto_xcbc_digest_final"),
            (V6_12, "xcbc(aes-aesni)", "crypto_xcbc_digest_final"),
            (V7_3, "xcbc(aes-lib)", ""),
        ],
    },
    Fault {
        what: "PCBC reads a byte past the source",
        oracle: "memory",
        rule: "crash",
        file: "crypto/pcbc.c",
        edits: &[(
            "		crypto_xor_cpy(iv, dst, src, bsize);",
            "		crypto_xor_cpy(iv, dst, src, bsize);\n		READ_ONCE(src[bsize]);",
        )],
        expect: &[
            (V6_1, "pcbc(aes-aesni)", "crypto_pcbc_encrypt"),
            (V6_12, "pcbc(aes-aesni)", "crypto_pcbc_encrypt"),
        ],
    },
    Fault {
        what: "CTS asks for a request context that is 64 bytes too small",
        oracle: "memory",
        rule: "crash",
        file: "crypto/cts.c",
        edits: &[(
            "	crypto_skcipher_set_reqsize(tfm, reqsize);",
            "	crypto_skcipher_set_reqsize(tfm, reqsize - 64);",
        )],
        expect: &[
            (V6_1, "cts(cbc-camellia-asm)", ""),
            (V6_12, "cts(cbc-camellia-asm)", ""),
            (V7_3, "cts(cbc-camellia-asm)", ""),
        ],
    },
    Fault {
        what: "authencesn writes four bytes past the tag",
        oracle: "memory",
        rule: "crash",
        file: "crypto/authencesn.c",
        edits: &[(
            "	unsigned int authsize = crypto_aead_authsize(authenc_esn);",
            "	unsigned int authsize = crypto_aead_authsize(authenc_esn) + 4;",
        )],
        expect: &[
            (V6_1, "authencesn(hmac(sha256-ni),cbc-aes-aesni)", ""),
            (V6_12, "authencesn(hmac(sha256-ni),cbc-aes-aesni)", ""),
            (V7_3, "authencesn(hmac(sha256-lib),cbc-aes-aesni)", ""),
        ],
    },
    Fault {
        what: "CBC of Twofish does not return the next IV",
        oracle: "sequence",
        rule: "chaining",
        file: "arch/x86/crypto/twofish_avx_glue.c",
        edits: &[(
            "	CBC_ENC_BLOCK(twofish_enc_blk);",
            "	u8 iv[TF_BLOCK_SIZE];

	memcpy(iv, walk.iv, sizeof(iv));
	CBC_ENC_BLOCK(twofish_enc_blk);
	if (walk.nbytes == walk.total)
		memcpy(walk.iv, iv, sizeof(iv));",
        )],
        expect: &[
            (V6_1, "cbc-twofish-avx", ""),
            (V6_12, "cbc-twofish-avx", ""),
            (V7_3, "cbc-twofish-avx", ""),
        ],
    },
    Fault {
        what: "RFC 3686 keeps its first nonce",
        oracle: "sequence",
        rule: "rekey",
        file: "crypto/ctr.c",
        edits: &[(
            "	memcpy(ctx->nonce, key + (keylen - CTR_RFC3686_NONCE_SIZE),",
            "	if (!*(u32 *)ctx->nonce)
		memcpy(ctx->nonce, key + (keylen - CTR_RFC3686_NONCE_SIZE),",
        )],
        expect: &[
            (V6_1, "rfc3686(ctr(aes-aesni))", ""),
            (V6_12, "rfc3686(ctr(aes-aesni))", ""),
        ],
    },
    Fault {
        what: "MD4 does not process a full buffer",
        oracle: "sequence",
        rule: "incremental",
        file: "crypto/md4.c",
        edits: &[("	if (avail > len) {", "	if (avail >= len) {")],
        expect: &[
            (V6_1, "md4-generic", ""),
            (V6_12, "md4-generic", ""),
            (V7_3, "md4-generic", ""),
        ],
    },
    Fault {
        what: "CAST6 takes keys of 4 bytes",
        oracle: "sequence",
        rule: "answer",
        file: "arch/x86/crypto/cast6_avx_glue.c",
        edits: &[("= CAST6_MIN_KEY_SIZE,", "= 4,")],
        expect: &[
            (V6_1, "ecb-cast6-avx", ""),
            (V6_12, "ecb-cast6-avx", ""),
            (V7_3, "ecb-cast6-avx", ""),
        ],
    },
    Fault {
        what: "AEADs work after their key was rejected",
        oracle: "sequence",
        rule: "refused-key",
        file: "crypto/aead.c",
        edits: &[(
            "		crypto_aead_set_flags(tfm, CRYPTO_TFM_NEED_KEY);
		return err;",
            "		return err;",
        )],
        expect: &[(V6_12, "aegis128-aesni", ""), (V7_3, "aegis128-aesni", "")],
    },
    Fault {
        what: "AEADs work without a key",
        oracle: "sequence",
        rule: "no-key",
        file: "crypto/aead.c",
        edits: &[("	crypto_aead_set_flags(aead, CRYPTO_TFM_NEED_KEY);\n", "")],
        expect: &[
            (V6_1, "aegis128-generic", ""),
            (V6_12, "aegis128-generic", ""),
            (V7_3, "aegis128-generic", ""),
        ],
    },
    Fault {
        what: "cryptd's work returns with preemption off",
        oracle: "values",
        rule: "unbalanced",
        file: "crypto/cryptd.c",
        edits: &[(
            "	err = shash_ahash_digest(req, desc);",
            "	err = shash_ahash_digest(req, desc);\n	preempt_disable();",
        )],
        expect: &[
            (V6_12, "cryptd(sha256-generic)", ""),
            (V7_3, "cryptd(sha256-lib)", ""),
        ],
    },
    Fault {
        what: "GCM does not compare the last byte of a tag",
        oracle: "values",
        rule: "forgery",
        file: "crypto/gcm.c",
        edits: &[(
            "crypto_memneq(iauth_tag, auth_tag, authsize)",
            "crypto_memneq(iauth_tag, auth_tag, authsize - 1)",
        )],
        expect: &[
            (V6_1, "gcm_base(ctr(aes-aesni),ghash-generic)", "gcm_base"),
            (V6_12, "gcm_base(ctr(aes-aesni),ghash-generic)", "gcm_base"),
            (V7_3, "gcm_base(ctr(aes-lib),ghash-lib)", ""),
        ],
    },
    Fault {
        what: "authenc does not check the length of a key",
        oracle: "values",
        rule: "crash",
        file: "crypto/authenc.c",
        edits: &[("	if (keylen < keys->enckeylen)\n		return -EINVAL;", "")],
        expect: &[
            (V6_1, "authenc(hmac(sha256-ni),cbc-aes-aesni)", ""),
            (V6_12, "authenc(hmac(sha256-ni),cbc-aes-aesni)", ""),
            (V7_3, "authenc(hmac(sha256-lib),cbc-aes-aesni)", ""),
        ],
    },
    Fault {
        what: "CTR of SM4 loses a carry",
        oracle: "values",
        rule: "answer",
        file: "arch/x86/crypto/sm4-aesni-avx-asm_64.S",
        edits: &[(
            "	vpslldq $8, tmp, tmp;        \\\n	vpsubq tmp, x, x;",
            "	vpslldq $8, tmp, tmp;",
        )],
        expect: &[
            (V6_1, "ctr-sm4-aesni-avx", ""),
            (V6_12, "ctr-sm4-aesni-avx", ""),
            (V7_3, "ctr-sm4-aesni-avx", ""),
        ],
    },
    Fault {
        what: "Michael MIC does not check the length of a key",
        oracle: "values",
        rule: "crash",
        file: "crypto/michael_mic.c",
        edits: &[("	if (keylen != 8)\n		return -EINVAL;", "")],
        expect: &[(V6_1, "michael_mic-generic", "michael_setkey")],
    },
];
