//! Tests of oracles on an older tree (KILN_TEST_TREE_PREVIOUS, Linux 6.1). All faults are planted
//! in one copy of the tree: at least three for each oracle.

mod common;
mod edited;
mod planted;

use common::tree::tree_of;
use edited::Edited;
use planted::{fault, find, Fault};

/// Faults for each oracle. The faults for the oracles memory, context, leaks and failures do not
/// change any result as long as drivers run in ordinary memory and in task context.
const FAULTS: [Fault; 45] = [
    // A byte is written after the digest, a byte is read after the source, and a request context is
    // too small.
    fault(
        "memory",
        "xcbc(aes-aesni)",
        "crash",
        "crypto_xcbc_digest_final",
        "crypto/xcbc.c",
        &[(
            "	crypto_cipher_encrypt_one(tfm, out, prev);\n",
            "	crypto_cipher_encrypt_one(tfm, out, prev);\n	out[bs] = 0;\n",
        )],
    ),
    fault(
        "memory",
        "pcbc(aes-aesni)",
        "crash",
        "crypto_pcbc_encrypt",
        "crypto/pcbc.c",
        &[(
            "		crypto_xor_cpy(iv, dst, src, bsize);\n",
            "		crypto_xor_cpy(iv, dst, src, bsize);\n		READ_ONCE(src[bsize]);\n",
        )],
    ),
    fault(
        "memory",
        "cts(cbc-camellia-asm)",
        "crash",
        "",
        "crypto/cts.c",
        &[(
            "	crypto_skcipher_set_reqsize(tfm, reqsize);",
            "	crypto_skcipher_set_reqsize(tfm, reqsize - 64);",
        )],
    ),
    // A function may sleep, an allocation may sleep, a check before opening a section is missing,
    // and a section is opened in any hardirq.
    fault(
        "context",
        "xctr(aes-aesni)",
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
        "hctr2_base(xctr-aes-aesni,polyval-clmulni)",
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
        "sha1-avx2",
        "fpu-section",
        "",
        "arch/x86/crypto/sha1_ssse3_glue.c",
        &[("!crypto_simd_usable() ||", "")],
    ),
    fault(
        "context",
        "sha256-avx2",
        "fpu-section",
        "",
        "arch/x86/crypto/sha256_ssse3_glue.c",
        &[(
            "	if (!crypto_simd_usable() ||",
            "	if (!(in_hardirq() || crypto_simd_usable()) ||",
        )],
    ),
    // The last byte of a tag is not compared, the lengths of two keys are not checked, and a
    // counter loses a carry.
    fault(
        "values",
        "gcm_base(ctr(aes-aesni),ghash-generic)",
        "forgery",
        "gcm_base",
        "crypto/gcm.c",
        &[(
            "crypto_memneq(iauth_tag, auth_tag, authsize)",
            "crypto_memneq(iauth_tag, auth_tag, authsize - 1)",
        )],
    ),
    fault(
        "values",
        "authenc(hmac(sha256-ni),cbc-aes-aesni)",
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
        "michael_mic-generic",
        "crash",
        "michael_setkey",
        "crypto/michael_mic.c",
        &[("	if (keylen != 8)\n		return -EINVAL;", "")],
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
    // The next IV is wrong, part of a second key is ignored, a full buffer is not processed, a
    // wrong key length is accepted, and a transform works although its key was never set.
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
        "aegis128-generic",
        "no-key",
        "",
        "crypto/aead.c",
        &[("	crypto_aead_set_flags(aead, CRYPTO_TFM_NEED_KEY);\n", "")],
    ),
    // A table, a child transform and keys are not freed.
    fault(
        "leaks",
        "lrw(ecb(aes-aesni))",
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
        "xts(ecb(aes-aesni))",
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
        "adiantum(xchacha12-simd,aes-aesni,nhpoly1305-avx2)",
        "leak",
        "adiantum_setkey",
        "crypto/adiantum.c",
        &[("	kfree_sensitive(data);\n", "")],
    ),
    // A failed allocation is not noticed, and errors in a step of two walks are ignored.
    fault(
        "failures",
        "lrw(ecb(aes-aesni))",
        "crash",
        "gf128mul_64k_bbe",
        "crypto/lrw.c",
        &[("	if (!ctx->table)\n		return -ENOMEM;", "")],
    ),
    fault(
        "failures",
        "pcbc(aes-aesni)",
        "answer",
        "",
        "crypto/pcbc.c",
        &[(
            "		err = skcipher_walk_done(&walk, nbytes);",
            "		skcipher_walk_done(&walk, nbytes);",
        )],
    ),
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
    // Three drivers use state that was not initialised.
    fault(
        "fill",
        "xcbc(aes-aesni)",
        "uninitialised",
        "xcbc",
        "crypto/xcbc.c",
        &[("	memset(prev, 0, bs);", "")],
    ),
    fault(
        "fill",
        "cmac(aes-aesni)",
        "uninitialised",
        "cmac",
        "crypto/cmac.c",
        &[("	memset(prev, 0, bs);", "")],
    ),
    fault(
        "fill",
        "cbcmac(aes-aesni)",
        "uninitialised",
        "cbcmac",
        "crypto/ccm.c",
        &[("	memset(dg, 0, bs);", "")],
    ),
    // A request is completed when its child has only left the backlog; the callback is not called
    // when a request leaves the backlog; -EBUSY is returned for a request that is not queued; and
    // requests may overtake queued requests.
    fault(
        "queues",
        "lrw(ecb-aes-aesni)",
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
        "cryptd(md5-generic)",
        "backlog-lost",
        "cryptd_hash_complete",
        "crypto/cryptd.c",
        &[(
            "	struct cryptd_hash_request_ctx *rctx = ahash_request_ctx(req);\n	int refcnt = refcount_read(&ctx->refcnt);\n\n	local_bh_disable();\n	rctx->complete(&req->base, err);\n",
            "	struct cryptd_hash_request_ctx *rctx = ahash_request_ctx(req);\n	int refcnt = refcount_read(&ctx->refcnt);\n\n	local_bh_disable();\n	if (err != -EINPROGRESS)\n		rctx->complete(&req->base, err);\n",
        )],
    ),
    fault(
        "queues",
        "cryptd(vmac64(aes-aesni))",
        "never-answered",
        "",
        "crypto/algapi.c",
        &[(
            "			err = -ENOSPC;\n			goto out;",
            "			err = -EBUSY;\n			goto out;",
        )],
    ),
    fault(
        "queues",
        "cbc-aes-aesni",
        "order",
        "",
        "crypto/simd.c",
        &[(
            "(in_atomic() && cryptd_skcipher_queued(ctx->cryptd_tfm))",
            "false",
        )],
    ),
    // A request's IV is stored in the transform. A block is stored in per-CPU data while softirqs
    // can interrupt, and another in a static variable, which only another CPU can overwrite
    // meanwhile.
    fault(
        "sharing",
        "rfc3686(ctr(aes-aesni))",
        "shared-state",
        "crypto_",
        "crypto/ctr.c",
        &[
            (
                "	u8 nonce[CTR_RFC3686_NONCE_SIZE];\n",
                "	u8 nonce[CTR_RFC3686_NONCE_SIZE];\n	u8 iv[CTR_RFC3686_BLOCK_SIZE];\n",
            ),
            ("	u8 *iv = rctx->iv;", "	u8 *iv = ctx->iv;"),
        ],
    ),
    fault(
        "sharing",
        "pcbc(aes-aesni)",
        "shared-state",
        "",
        "crypto/pcbc.c",
        &[
            (
                "static int crypto_pcbc_encrypt_segment(",
                "static DEFINE_PER_CPU(u8[MAX_CIPHER_BLOCKSIZE], scratch);\n\nstatic int crypto_pcbc_encrypt_segment(",
            ),
            (
                "	u8 tmpbuf[MAX_CIPHER_BLOCKSIZE];",
                "	u8 *tmpbuf = *raw_cpu_ptr(&scratch);",
            ),
        ],
    ),
    fault(
        "sharing",
        "xctr(aes-aesni)",
        "shared-state",
        "",
        "crypto/xctr.c",
        &[
            (
                "	u8 *data = walk->src.virt.addr;\n	u8 tmp[",
                "	u8 *data = walk->src.virt.addr;\n	static u8 tmp[",
            ),
            (
                "			nbytes = crypto_xctr_crypt_inplace(&walk, cipher,\n							   byte_ctr);",
                "			local_bh_disable(), nbytes = crypto_xctr_crypt_inplace(&walk, cipher, byte_ctr), local_bh_enable();",
            ),
        ],
    ),
    // Six drivers violate the rules for a callee-saved register, the direction flag, MXCSR, stack
    // alignment, the frame pointer, and constants. The direction flag is cleared
    // right after the section, because it would affect everything that is called later.
    fault(
        "registers",
        "ecb-serpent-avx",
        "preserved",
        "serpent_ecb_enc_8way_avx",
        "arch/x86/crypto/serpent-avx-x86_64-asm_64.S",
        &[(
            "SYM_FUNC_START(serpent_ecb_enc_8way_avx)\n",
            "SYM_FUNC_START(serpent_ecb_enc_8way_avx)\n	xorl %r15d, %r15d;\n",
        )],
    ),
    fault(
        "registers",
        "ctr-aria-avx",
        "direction",
        "aria_avx_ctr_encrypt",
        "arch/x86/crypto/aria_aesni_avx_glue.c",
        &[(
            "			kernel_fpu_end();\n",
            "			asm volatile(\"std\");\n			kernel_fpu_end();\n			asm volatile(\"cld\");\n",
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
        "ecb-twofish-avx",
        "crash",
        "twofish_ecb_dec_8way",
        "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        &[(
            "SYM_FUNC_START(twofish_ecb_dec_8way)\n",
            "SYM_FUNC_START(twofish_ecb_dec_8way)\n	vmovaps %xmm0, -32(%rsp);\n",
        )],
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
        "crypto_aegis128_aesni_",
        "arch/x86/crypto/aegis128-aesni-asm.S",
        &[(
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 16\n",
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 8\n",
        )],
    ),
    // GFNI, BMI2 and AVX2 code is used without checking for these features.
    fault(
        "features",
        "ecb-aria-avx",
        "feature",
        "__aria_aesni_avx_gfni_",
        "arch/x86/crypto/aria_aesni_avx_glue.c",
        &[(
            "	if (boot_cpu_has(X86_FEATURE_GFNI)) {",
            "	if (1) {",
        )],
    ),
    fault(
        "features",
        "sha1-avx2",
        "feature",
        "",
        "arch/x86/crypto/sha1_ssse3_glue.c",
        &[("		&& boot_cpu_has(X86_FEATURE_BMI2))", "		)")],
    ),
    fault(
        "features",
        "nhpoly1305-avx2",
        "feature",
        "nh_avx2",
        "arch/x86/crypto/nhpoly1305-avx2-glue.c",
        &[(
            "	if (!boot_cpu_has(X86_FEATURE_AVX2) ||\n",
            "	if (\n",
        )],
    ),
    // Three drivers process a whole message in one section, and another processes 1 MiB in one.
    fault(
        "bounds",
        "nhpoly1305-avx2",
        "unbounded-section",
        "nhpoly1305_avx2_update",
        "arch/x86/crypto/nhpoly1305-avx2-glue.c",
        &[("SZ_4K", "SZ_32M")],
    ),
    fault(
        "bounds",
        "nhpoly1305-sse2",
        "long-section",
        "nhpoly1305_sse2_update",
        "arch/x86/crypto/nhpoly1305-sse2-glue.c",
        &[("SZ_4K", "SZ_1M")],
    ),
    fault(
        "bounds",
        "polyval-clmulni",
        "unbounded-section",
        "polyval_x86_update",
        "arch/x86/crypto/polyval-clmulni_glue.c",
        &[("min(srclen, 4096U)", "min(srclen, 1u << 25)")],
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
];

/// A driver in which no fault is planted.
const CONTROL: &str = "chacha20-simd";

#[test]
fn planted_faults_are_found_in_linux_6_1() {
    let Some(tree) = tree_of("KILN_TEST_TREE_PREVIOUS", "Linux 6.1 tree") else {
        return;
    };
    let faults: Vec<&Fault> = FAULTS.iter().collect();
    find(&Edited::new(&tree), &faults, CONTROL);
}
