//! Planted faults in FPU section code, for the oracles `bounds`, `features` and `registers`.

use super::Fault;
use super::Tree::{V6_1, V6_12, V7_3};

pub const FAULTS: &[Fault] = &[
    Fault {
        what: "NHPoly1305 with AVX2 processes any length in one section",
        oracle: "bounds",
        rule: "unbounded-section",
        file: "arch/x86/crypto/nhpoly1305-avx2-glue.c",
        edits: &[("SZ_4K", "SZ_32M")],
        expect: &[
            (V6_1, "nhpoly1305-avx2", "nhpoly1305_avx2_update"),
            (V6_12, "nhpoly1305-avx2", "nhpoly1305_avx2_update"),
        ],
    },
    Fault {
        what: "NHPoly1305 with SSE2 processes 1 MiB in one section",
        oracle: "bounds",
        rule: "long-section",
        file: "arch/x86/crypto/nhpoly1305-sse2-glue.c",
        edits: &[("SZ_4K", "SZ_1M")],
        expect: &[
            (V6_1, "nhpoly1305-sse2", "nhpoly1305_sse2_update"),
            (V6_12, "nhpoly1305-sse2", "nhpoly1305_sse2_update"),
        ],
    },
    Fault {
        what: "POLYVAL processes any length in one section",
        oracle: "bounds",
        rule: "unbounded-section",
        file: "arch/x86/crypto/polyval-clmulni_glue.c",
        edits: &[("min(srclen, 4096U)", "min(srclen, 1u << 25)")],
        expect: &[
            (V6_1, "polyval-clmulni", "polyval_x86_update"),
            (V6_12, "polyval-clmulni", "polyval_x86_update"),
        ],
    },
    Fault {
        what: "AEGIS-128 processes a whole walk in one section",
        oracle: "bounds",
        rule: "unbounded-section",
        file: "arch/x86/crypto/aegis128-aesni-glue.c",
        edits: &[(
            "		kernel_fpu_end();
		err = skcipher_walk_done(walk,
					 walk->nbytes % AEGIS128_BLOCK_SIZE);
		kernel_fpu_begin();",
            "		err = skcipher_walk_done(walk,
					 walk->nbytes % AEGIS128_BLOCK_SIZE);",
        )],
        expect: &[(V7_3, "aegis128-aesni", "")],
    },
    Fault {
        what: "ECB of AES processes a whole walk in one section",
        oracle: "bounds",
        rule: "unbounded-section",
        file: "arch/x86/crypto/aesni-intel_glue.c",
        edits: &[(
            "	while ((nbytes = walk.nbytes)) {
		kernel_fpu_begin();
		aesni_ecb_enc(ctx, walk.dst.virt.addr, walk.src.virt.addr,
			      nbytes & AES_BLOCK_MASK);
		kernel_fpu_end();
		nbytes &= AES_BLOCK_SIZE - 1;
		err = skcipher_walk_done(&walk, nbytes);
	}",
            "	kernel_fpu_begin();
	while ((nbytes = walk.nbytes)) {
		aesni_ecb_enc(ctx, walk.dst.virt.addr, walk.src.virt.addr,
			      nbytes & AES_BLOCK_MASK);
		nbytes &= AES_BLOCK_SIZE - 1;
		err = skcipher_walk_done(&walk, nbytes);
	}
	kernel_fpu_end();",
        )],
        expect: &[
            (V6_1, "ecb-aes-aesni", "ecb_encrypt"),
            (V7_3, "ecb-aes-aesni", "ecb_encrypt"),
        ],
    },
    Fault {
        what: "CTR of AES processes a whole walk in one section",
        oracle: "bounds",
        rule: "unbounded-section",
        file: "arch/x86/crypto/aesni-intel_glue.c",
        edits: &[
            (
                "	while ((nbytes = walk.nbytes) > 0) {
		kernel_fpu_begin();
		if (nbytes & AES_BLOCK_MASK)
			aesni_ctr_enc(",
                "	kernel_fpu_begin();
	while ((nbytes = walk.nbytes) > 0) {
		if (nbytes & AES_BLOCK_MASK)
			aesni_ctr_enc(",
            ),
            (
                "			crypto_inc(walk.iv, AES_BLOCK_SIZE);
			nbytes = 0;
		}
		kernel_fpu_end();
		err = skcipher_walk_done(&walk, nbytes);
	}",
                "			crypto_inc(walk.iv, AES_BLOCK_SIZE);
			nbytes = 0;
		}
		err = skcipher_walk_done(&walk, nbytes);
	}
	kernel_fpu_end();",
            ),
        ],
        expect: &[(V7_3, "ctr-aes-aesni", "ctr_crypt_aesni")],
    },
    Fault {
        what: "ARIA with AVX uses GFNI without asking for it",
        oracle: "features",
        rule: "feature",
        file: "arch/x86/crypto/aria_aesni_avx_glue.c",
        edits: &[("	if (boot_cpu_has(X86_FEATURE_GFNI)", "	if (1")],
        expect: &[
            (V6_1, "ecb-aria-avx", "__aria_aesni_avx_gfni_"),
            (V6_12, "ecb-aria-avx", "__aria_aesni_avx_gfni_"),
            (V7_3, "ecb-aria-avx", "__aria_aesni_avx_gfni_"),
        ],
    },
    Fault {
        what: "SHA-1 uses BMI2 without asking for it",
        oracle: "features",
        rule: "feature",
        file: "arch/x86/crypto/sha1_ssse3_glue.c",
        edits: &[("		&& boot_cpu_has(X86_FEATURE_BMI2))", "		)")],
        expect: &[
            (V6_1, "sha1-avx2", ""),
            (V6_12, "sha1-avx2", "sha1_transform_avx2"),
        ],
    },
    Fault {
        what: "NHPoly1305 uses AVX2 without asking for it",
        oracle: "features",
        rule: "feature",
        file: "arch/x86/crypto/nhpoly1305-avx2-glue.c",
        edits: &[("	if (!boot_cpu_has(X86_FEATURE_AVX2) ||", "	if (")],
        expect: &[
            (V6_1, "nhpoly1305-avx2", "nh_avx2"),
            (V6_12, "nhpoly1305-avx2", "nh_avx2"),
        ],
    },
    Fault {
        what: "ARIA with AVX2 uses GFNI without asking for it",
        oracle: "features",
        rule: "feature",
        file: "arch/x86/crypto/aria_aesni_avx2_glue.c",
        edits: &[("	if (boot_cpu_has(X86_FEATURE_GFNI)", "	if (1")],
        expect: &[(V7_3, "ecb-aria-avx2", "__aria_aesni_avx2_gfni_")],
    },
    Fault {
        what: "Serpent uses AVX2 without asking for it",
        oracle: "features",
        rule: "feature",
        file: "arch/x86/crypto/serpent_avx2_glue.c",
        edits: &[("	if (!boot_cpu_has(X86_FEATURE_AVX2) || ", "	if (")],
        expect: &[(V7_3, "ecb-serpent-avx2", "")],
    },
    Fault {
        what: "ECB of Serpent does not preserve r15",
        oracle: "registers",
        rule: "preserved",
        file: "arch/x86/crypto/serpent-avx-x86_64-asm_64.S",
        edits: &[(
            "SYM_FUNC_START(serpent_ecb_enc_8way_avx)",
            "SYM_FUNC_START(serpent_ecb_enc_8way_avx)\n	xorl %r15d, %r15d;",
        )],
        expect: &[
            (V6_1, "ecb-serpent-avx", "serpent_ecb_enc_8way_avx"),
            (V6_12, "ecb-serpent-avx", "serpent_ecb_enc_8way_avx"),
        ],
    },
    Fault {
        what: "ECB of Twofish sets the direction flag",
        oracle: "registers",
        rule: "direction",
        file: "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        edits: &[(
            "SYM_FUNC_START(twofish_ecb_enc_8way)",
            "SYM_FUNC_START(twofish_ecb_enc_8way)\n	std;",
        )],
        expect: &[
            (V6_12, "ecb-twofish-avx", "ecb_encrypt"),
            (V7_3, "ecb-twofish-avx", "ecb_encrypt"),
        ],
    },
    Fault {
        what: "ECB of Twofish stores to a stack that may not be aligned",
        oracle: "registers",
        rule: "crash",
        file: "arch/x86/crypto/twofish-avx-x86_64-asm_64.S",
        edits: &[(
            "SYM_FUNC_START(twofish_ecb_dec_8way)",
            "SYM_FUNC_START(twofish_ecb_dec_8way)\n	vmovaps %xmm0, -32(%rsp);",
        )],
        expect: &[
            (V6_1, "ecb-twofish-avx", "twofish_ecb_dec_8way"),
            (V6_12, "ecb-twofish-avx", "twofish_ecb_dec_8way"),
        ],
    },
    Fault {
        what: "ECB of CAST6 changes MXCSR",
        oracle: "registers",
        rule: "mxcsr",
        file: "arch/x86/crypto/cast6-avx-x86_64-asm_64.S",
        edits: &[(
            "SYM_FUNC_START(cast6_ecb_enc_8way)",
            "SYM_FUNC_START(cast6_ecb_enc_8way)
	pushq $0x1f80;
	ldmxcsr (%rsp);
	popq %rax;",
        )],
        expect: &[
            (V6_1, "ecb-cast6-avx", "ecb_encrypt"),
            (V6_12, "ecb-cast6-avx", "ecb_encrypt"),
            (V7_3, "ecb-cast6-avx", "ecb_encrypt"),
        ],
    },
    Fault {
        what: "XTS of AES ends without vzeroupper",
        oracle: "registers",
        rule: "upper-halves",
        file: "arch/x86/crypto/aes-xts-avx-x86_64.S",
        edits: &[(".if VL > 16\n	vzeroupper\n.endif", "")],
        expect: &[
            (V6_12, "xts-aes-vaes-avx2", "xts_"),
            (V7_3, "xts-aes-vaes-avx2", "xts_"),
        ],
    },
    Fault {
        what: "ECB of Camellia ends without vzeroupper",
        oracle: "registers",
        rule: "upper-halves",
        file: "arch/x86/crypto/camellia-aesni-avx2-asm_64.S",
        // The text to replace includes the preceding line, because the function also begins with a
        // vzeroupper, which has no effect there.
        edits: &[(
            "		     %ymm8, %rsi);\n\n	vzeroupper;",
            "		     %ymm8, %rsi);",
        )],
        expect: &[(V6_1, "ecb-camellia-aesni-avx2", "ecb_encrypt")],
    },
    Fault {
        what: "ECB of CAST5 uses rbp for a moment",
        oracle: "registers",
        rule: "frame-pointer",
        file: "arch/x86/crypto/cast5-avx-x86_64-asm_64.S",
        edits: &[(
            "SYM_FUNC_START(cast5_ecb_enc_16way)",
            "SYM_FUNC_START(cast5_ecb_enc_16way)
	pushq %rbp;
	xorl %ebp, %ebp;
	popq %rbp;",
        )],
        expect: &[
            (V6_1, "ecb-cast5-avx", "cast5_ecb_enc_16way+0x"),
            (V6_12, "ecb-cast5-avx", "cast5_ecb_enc_16way+0x"),
            (V7_3, "ecb-cast5-avx", "cast5_ecb_enc_16way+0x"),
        ],
    },
    Fault {
        what: "A constant of AEGIS-128 is aligned to 8 bytes",
        oracle: "registers",
        rule: "constant",
        file: "arch/x86/crypto/aegis128-aesni-asm.S",
        edits: &[(
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 16",
            ".section .rodata.cst16.aegis128_const, \"aM\", @progbits, 32\n.align 8",
        )],
        expect: &[
            (V6_1, "aegis128-aesni", "crypto_aegis128_aesni_"),
            (V6_12, "aegis128-aesni", "aegis128_aesni_"),
            (V7_3, "aegis128-aesni", "aegis128_aesni_"),
        ],
    },
    Fault {
        what: "CTR of ARIA ends a section with the direction flag set",
        oracle: "registers",
        rule: "direction",
        file: "arch/x86/crypto/aria_aesni_avx_glue.c",
        edits: &[(
            "			kernel_fpu_end();",
            "			asm volatile(\"std\");
			kernel_fpu_end();
			asm volatile(\"cld\");",
        )],
        expect: &[(V6_1, "ctr-aria-avx", "aria_avx_ctr_encrypt")],
    },
];
