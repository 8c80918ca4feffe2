//! Tests of oracles on a current tree (KILN_TEST_TREE_NEXT, Linux 7.x). All faults are planted in
//! one copy of the tree: one for `sharing`, two for `memory`, and at least three for each other
//! oracle.

mod common;
mod edited;
mod planted;

use common::tree::tree_of;
use edited::Edited;
use planted::{fault, find, Fault};

/// Faults for each oracle. The faults for the oracles memory, context, leaks and failures do not
/// change any result as long as drivers run in ordinary memory and in task context.
const FAULTS: [Fault; 38] = [
    // A byte is written after the digest, and a request context is too small.
    fault(
        "memory",
        "xcbc(aes-lib)",
        "crash",
        "",
        "crypto/xcbc.c",
        &[(
            "	crypto_cipher_encrypt_one(tfm, out, prev);\n",
            "	crypto_cipher_encrypt_one(tfm, out, prev);\n	out[bs] = 0;\n",
        )],
    ),
    fault(
        "memory",
        "rfc3686(ctr-aes-aesni)",
        "crash",
        "",
        "crypto/ctr.c",
        &[(
            "	crypto_skcipher_set_reqsize(tfm, reqsize);",
            "	crypto_skcipher_set_reqsize(tfm, reqsize - 64);",
        )],
    ),
    // A function may sleep, an allocation may sleep, and a check before opening a section is
    // missing.
    fault(
        "context",
        "xctr(aes-lib)",
        "sleep",
        "crypto_xctr_crypt",
        "crypto/xctr.c",
        &[(
            "	err = skcipher_walk_virt(&walk, req, false);",
            "	cond_resched();\n	err = skcipher_walk_virt(&walk, req, false);",
        )],
    ),
    fault(
        "context",
        "hctr2_base(xctr(aes-lib),polyval-lib)",
        "sleep",
        "hctr2_",
        "crypto/hctr2.c",
        &[(
            "	return hctr2_crypt(req, true);",
            "	kfree(kmalloc(8, GFP_KERNEL));\n	return hctr2_crypt(req, true);",
        )],
    ),
    fault(
        "context",
        "sha512-lib",
        "fpu-section",
        "",
        "lib/crypto/x86/sha512.h",
        &[("irq_fpu_usable()", "true")],
    ),
    // The last byte of a tag is not compared, a key length is not checked, and a counter loses a
    // carry.
    fault(
        "values",
        "gcm_base(ctr(aes-lib),ghash-lib)",
        "forgery",
        "",
        "crypto/gcm.c",
        &[(
            "crypto_memneq(iauth_tag, auth_tag, authsize)",
            "crypto_memneq(iauth_tag, auth_tag, authsize - 1)",
        )],
    ),
    fault(
        "values",
        "authenc(hmac(sha256-lib),cbc-aes-aesni)",
        "crash",
        "",
        "crypto/authenc.c",
        &[(
            "	if (keylen < keys->enckeylen)\n		return -EINVAL;",
            "",
        )],
    ),
    fault(
        "values",
        "ctr-sm4-aesni-avx",
        "answer",
        "",
        "arch/x86/crypto/sm4-aesni-avx-asm_64.S",
        &[(
            "	vpslldq $8, tmp, tmp;        \\\n	vpsubq tmp, x, x;",
            "	vpslldq $8, tmp, tmp;",
        )],
    ),
    // The next IV is wrong, a full buffer is not processed, a wrong key length is accepted, and a
    // transform works after its key was rejected or never set.
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
    // A table, a child transform and keys are not freed.
    fault(
        "leaks",
        "lrw(ecb-aes-aesni)",
        "leak",
        "gf128mul_init_64k_bbe",
        "crypto/lrw.c",
        &[(
            "	if (ctx->table)\n		gf128mul_free_64k(ctx->table);\n	crypto_free_skcipher(ctx->child);",
            "	crypto_free_skcipher(ctx->child);",
        )],
    ),
    fault(
        "leaks",
        "xts(ecb-aes-aesni)",
        "leak",
        "crypto_",
        "crypto/xts.c",
        &[(
            "	crypto_free_skcipher(ctx->child);\n	crypto_free_cipher(ctx->tweak);",
            "	crypto_free_cipher(ctx->tweak);",
        )],
    ),
    fault(
        "leaks",
        "adiantum(xchacha12-lib,aes-lib)",
        "leak",
        "adiantum_setkey",
        "crypto/adiantum.c",
        &[("	kfree_sensitive(data);\n", "")],
    ),
    // A failed allocation is not noticed, a child transform is not freed after an error, and an
    // error in a step of a walk is ignored.
    fault(
        "failures",
        "lrw(ecb-aes-aesni)",
        "crash",
        "",
        "crypto/lrw.c",
        &[("	if (!ctx->table)\n		return -ENOMEM;", "")],
    ),
    fault(
        "failures",
        "essiv(cbc-aes-aesni,sha256-lib)",
        "leak",
        "",
        "crypto/essiv.c",
        &[(
            "	if (err) {\n		crypto_free_skcipher(skcipher);",
            "	if (err) {",
        )],
    ),
    fault(
        "failures",
        "xctr(aes-lib)",
        "answer",
        "",
        "crypto/xctr.c",
        &[(
            "		err = skcipher_walk_done(&walk, nbytes);",
            "		skcipher_walk_done(&walk, nbytes);",
        )],
    ),
    // Three drivers use state that was not initialised.
    fault(
        "fill",
        "xcbc(aes-lib)",
        "uninitialised",
        "",
        "crypto/xcbc.c",
        &[("	memset(prev, 0, bs);", "")],
    ),
    fault(
        "fill",
        "cmac(camellia-generic)",
        "uninitialised",
        "",
        "crypto/cmac.c",
        &[("	memset(prev, 0, bs);", "")],
    ),
    fault(
        "fill",
        "cbcmac(aes-lib)",
        "uninitialised",
        "",
        "crypto/ccm.c",
        &[("	memset(dg, 0, bs);", "")],
    ),
    // A request is completed when its child has only left the backlog, is completed twice, or is
    // completed with -EBUSY; and the callback is not called when a request leaves the backlog.
    fault(
        "queues",
        "lrw(cryptd(ecb-aes-aesni))",
        "backlog-lost",
        "lrw_crypt_done",
        "crypto/lrw.c",
        &[(
            "	if (!err) {\n		struct lrw_request_ctx *rctx",
            "	if (!err || err == -EINPROGRESS) {\n		struct lrw_request_ctx *rctx",
        )],
    ),
    fault(
        "queues",
        "essiv(cryptd(cbc-aes-aesni),sha256-lib)",
        "completed-twice",
        "essiv_skcipher_done",
        "crypto/essiv.c",
        &[(
            "	struct skcipher_request *req = data;\n\n	skcipher_request_complete(req, err);\n",
            "	struct skcipher_request *req = data;\n\n	skcipher_request_complete(req, err);\n	skcipher_request_complete(req, err);\n",
        )],
    ),
    fault(
        "queues",
        "xts(cryptd(ecb-aes-aesni))",
        "queue-answer",
        "xts_encrypt_done",
        "crypto/xts.c",
        &[(
            "			if (err == -EINPROGRESS || err == -EBUSY)",
            "			if (err == -EINPROGRESS)",
        )],
    ),
    fault(
        "queues",
        "cryptd(cmac(aes-lib))",
        "backlog-lost",
        "cryptd_hash_complete",
        "crypto/cryptd.c",
        &[(
            "	ahash_request_complete(req, err);\n",
            "	if (err != -EINPROGRESS)\n		ahash_request_complete(req, err);\n",
        )],
    ),
    // A block is stored in a static variable.
    fault(
        "sharing",
        "xctr(aes-lib)",
        "shared-state",
        "",
        "crypto/xctr.c",
        &[
            (
                "	u8 *data = walk->dst.virt.addr;\n	u8 tmp[",
                "	u8 *data = walk->dst.virt.addr;\n	static u8 tmp[",
            ),
            (
                "			nbytes = crypto_xctr_crypt_inplace(&walk, cipher,\n							   byte_ctr);",
                "			local_bh_disable(), nbytes = crypto_xctr_crypt_inplace(&walk, cipher, byte_ctr), local_bh_enable();",
            ),
        ],
    ),
    // Five functions violate the rules for the direction flag, MXCSR, upper halves, the frame
    // pointer, and constants.
    fault(
        "registers",
        "ecb-twofish-avx",
        "direction",
        "ecb_encrypt",
        "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        &[(
            "SYM_FUNC_START(twofish_ecb_enc_8way)\n",
            "SYM_FUNC_START(twofish_ecb_enc_8way)\n	std;\n",
        )],
    ),
    fault(
        "registers",
        "ecb-cast6-avx",
        "mxcsr",
        "ecb_encrypt",
        "arch/x86/crypto/cast6-avx-x86_64-asm_64.S",
        &[(
            "SYM_FUNC_START(cast6_ecb_enc_8way)\n",
            "SYM_FUNC_START(cast6_ecb_enc_8way)\n	pushq $0x1f80;\n	ldmxcsr (%rsp);\n	popq %rax;\n",
        )],
    ),
    fault(
        "registers",
        "xts-aes-vaes-avx2",
        "upper-halves",
        "xts_",
        "arch/x86/crypto/aes-xts-avx-x86_64.S",
        &[(".if VL > 16\n	vzeroupper\n.endif", "")],
    ),
    fault(
        "registers",
        "ecb-cast5-avx",
        "frame-pointer",
        "cast5_ecb_enc_16way+0x",
        "arch/x86/crypto/cast5-avx-x86_64-asm_64.S",
        &[(
            "SYM_FUNC_START(cast5_ecb_enc_16way)\n",
            "SYM_FUNC_START(cast5_ecb_enc_16way)\n	pushq %rbp;\n	xorl %ebp, %ebp;\n	popq %rbp;\n",
        )],
    ),
    fault(
        "registers",
        "aegis128-aesni",
        "constant",
        "aegis128_aesni_",
        "arch/x86/crypto/aegis128-aesni-asm.S",
        &[(
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 16\n",
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 8\n",
        )],
    ),
    // GFNI and AVX2 code is used without checking for these features.
    fault(
        "features",
        "ecb-aria-avx",
        "feature",
        "__aria_aesni_avx_gfni_",
        "arch/x86/crypto/aria_aesni_avx_glue.c",
        &[("	if (boot_cpu_has(X86_FEATURE_GFNI)) {", "	if (1) {")],
    ),
    fault(
        "features",
        "ecb-aria-avx2",
        "feature",
        "__aria_aesni_avx2_gfni_",
        "arch/x86/crypto/aria_aesni_avx2_glue.c",
        &[("	if (boot_cpu_has(X86_FEATURE_GFNI)) {", "	if (1) {")],
    ),
    fault(
        "features",
        "ecb-serpent-avx2",
        "feature",
        "",
        "arch/x86/crypto/serpent_avx2_glue.c",
        &[(
            "	if (!boot_cpu_has(X86_FEATURE_AVX2) || ",
            "	if (",
        )],
    ),
    // A single section covers all pages.
    fault(
        "bounds",
        "aegis128-aesni",
        "unbounded-section",
        "",
        "arch/x86/crypto/aegis128-aesni-glue.c",
        &[(
            "		kernel_fpu_end();\n		err = skcipher_walk_done(walk,\n					 walk->nbytes % AEGIS128_BLOCK_SIZE);\n		kernel_fpu_begin();\n",
            "		err = skcipher_walk_done(walk,\n					 walk->nbytes % AEGIS128_BLOCK_SIZE);\n",
        )],
    ),
    fault(
        "bounds",
        "ecb-aes-aesni",
        "unbounded-section",
        "ecb_encrypt",
        "arch/x86/crypto/aesni-intel_glue.c",
        &[(
            "	while ((nbytes = walk.nbytes)) {\n		kernel_fpu_begin();\n		aesni_ecb_enc(ctx, walk.dst.virt.addr, walk.src.virt.addr,\n			      nbytes & AES_BLOCK_MASK);\n		kernel_fpu_end();\n		nbytes &= AES_BLOCK_SIZE - 1;\n		err = skcipher_walk_done(&walk, nbytes);\n	}\n",
            "	kernel_fpu_begin();\n	while ((nbytes = walk.nbytes)) {\n		aesni_ecb_enc(ctx, walk.dst.virt.addr, walk.src.virt.addr,\n			      nbytes & AES_BLOCK_MASK);\n		nbytes &= AES_BLOCK_SIZE - 1;\n		err = skcipher_walk_done(&walk, nbytes);\n	}\n	kernel_fpu_end();\n",
        )],
    ),
    fault(
        "bounds",
        "ctr-aes-aesni",
        "unbounded-section",
        "ctr_crypt_aesni",
        "arch/x86/crypto/aesni-intel_glue.c",
        &[
            (
                "	while ((nbytes = walk.nbytes) > 0) {\n		kernel_fpu_begin();\n		if (nbytes & AES_BLOCK_MASK)\n			aesni_ctr_enc(",
                "	kernel_fpu_begin();\n	while ((nbytes = walk.nbytes) > 0) {\n		if (nbytes & AES_BLOCK_MASK)\n			aesni_ctr_enc(",
            ),
            (
                "			crypto_inc(walk.iv, AES_BLOCK_SIZE);\n			nbytes = 0;\n		}\n		kernel_fpu_end();\n		err = skcipher_walk_done(&walk, nbytes);\n	}\n",
                "			crypto_inc(walk.iv, AES_BLOCK_SIZE);\n			nbytes = 0;\n		}\n		err = skcipher_walk_done(&walk, nbytes);\n	}\n	kernel_fpu_end();\n",
            ),
        ],
    ),
];

/// A driver in which no fault is planted.
const CONTROL: &str = "ecb-camellia-aesni";

#[test]
fn planted_faults_are_found_in_a_current_tree() {
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "current kernel tree") else {
        return;
    };
    let faults: Vec<&Fault> = FAULTS.iter().collect();
    find(&Edited::new(&tree), &faults, CONTROL);
}
