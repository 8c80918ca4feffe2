// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Hash, MAC and signature functions that the tree's library exports. */
#include <asm/byteorder.h>

#include <crypto/blake2s.h>
#include <crypto/poly1305.h>
#include <crypto/sha2.h>

#include "kiln/function.h"

#define HASH(name)				\
	WEAK(name);				\
	WRAPPER(name)				\
	{					\
		name(src, len, dst);		\
		return 0;			\
	}

/* Defines a wrapper that hashes in two parts. The second part usually starts inside a block. */
#define IN_TWO_PARTS(name, state, initialize)			\
	WRAPPER(name##_update)					\
	{							\
		state ctx;					\
								\
		initialize;					\
		name##_update(&ctx, src, len / 2);		\
		name##_update(&ctx, src + len / 2, len - len / 2);	\
		name##_final(&ctx, dst);			\
		return 0;					\
	}

#define STREAM(name, state)			\
	WEAK(name##_final);			\
	IN_TWO_PARTS(name, state, name##_init(&ctx))

/* Defines three wrappers for HMAC: with a prepared key, with a raw key, and in two parts. */
#define HMAC(name, state)					\
	WEAK(name);						\
	WEAK(name##_usingrawkey);				\
	WEAK(name##_preparekey);				\
	WEAK(name##_final);					\
	PREPARE(name)						\
	{							\
		name##_preparekey(key, raw, len);		\
		return 0;					\
	}							\
	WRAPPER(name)						\
	{							\
		name(key, src, len, dst);			\
		return 0;					\
	}							\
	WRAPPER(name##_usingrawkey)				\
	{							\
		const struct kiln_raw *raw = key;		\
								\
		name##_usingrawkey(raw->bytes, raw->len, src, len, dst);	\
		return 0;					\
	}							\
	IN_TWO_PARTS(name, state, name##_init(&ctx, key))

#define HASHES(f, algorithm, size)				\
	{ FUNCTION(f), DIGEST(algorithm, size) },		\
	{ SERIES(f##_update, f##_final), DIGEST(algorithm, size) }
#define HMACS(f, algorithm, size)				\
	{ FUNCTION(f), DIGEST(algorithm, size), PREPARED(f, struct f##_key), ANY_KEY },	\
	{ FUNCTION(f##_usingrawkey), DIGEST(algorithm, size), RAW_KEY, ANY_KEY },	\
	{ SERIES(f##_update, f##_final), DIGEST(algorithm, size),			\
	  PREPARED(f, struct f##_key), ANY_KEY }
#define ANY_KEY .keys = { 16, 20, 32, 48, 64 }
#define RAW_KEY PREPARED(raw, struct kiln_raw)

HASH(sha256)
WEAK(sha256_final);

/* The library has had SHA-1, all of SHA-2 and their HMACs since 6.17, and MD5 since 6.18. */
#if SINCE(6, 17)
#include <crypto/sha1.h>

struct kiln_raw {
	size_t len;
	u8 bytes[64];
};

PREPARE(raw)
{
	struct kiln_raw *k = key;

	if (len > sizeof(k->bytes))
		return -EINVAL;
	k->len = len;
	memcpy(k->bytes, raw, len);
	return 0;
}

WEAK(__sha256_update);
WEAK(__sha512_update);
HASH(sha1)
HASH(sha224)
HASH(sha384)
HASH(sha512)
STREAM(sha1, struct sha1_ctx)
STREAM(sha224, struct sha224_ctx)
STREAM(sha256, struct sha256_ctx)
STREAM(sha384, struct sha384_ctx)
STREAM(sha512, struct sha512_ctx)
HMAC(hmac_sha1, struct hmac_sha1_ctx)
HMAC(hmac_sha224, struct hmac_sha224_ctx)
HMAC(hmac_sha256, struct hmac_sha256_ctx)
HMAC(hmac_sha384, struct hmac_sha384_ctx)
HMAC(hmac_sha512, struct hmac_sha512_ctx)
#else
IN_TWO_PARTS(sha256, struct sha256_state, sha256_init(&ctx))
#endif

#if SINCE(6, 18)
#include <crypto/md5.h>
HASH(md5)
STREAM(md5, struct md5_ctx)
HMAC(hmac_md5, struct hmac_md5_ctx)
#endif

#if SINCE(6, 19)
#include <crypto/blake2b.h>
#include <crypto/sha3.h>

WEAK(sha256_finup_2x);
WEAK(__sha3_update);
WEAK(sha3_final);
WEAK(shake_squeeze);
WEAK(blake2b_update);
WEAK(blake2b_final);
HASH(sha3_224)
HASH(sha3_256)
HASH(sha3_384)
HASH(sha3_512)

WRAPPER(sha3_update)
{
	struct sha3_ctx ctx;

	sha3_256_init(&ctx);
	sha3_update(&ctx, src, len / 2);
	sha3_update(&ctx, src + len / 2, len - len / 2);
	sha3_final(&ctx, dst);
	return 0;
}

#define SHAKE(name, size)			\
	WEAK(name);				\
	WRAPPER(name)				\
	{					\
		name(src, len, dst, size);	\
		return 0;			\
	}
SHAKE(shake128, 32)
SHAKE(shake256, 64)

/* Absorbs the message in two parts and squeezes the output in two parts. */
WRAPPER(shake_squeeze)
{
	struct shake_ctx ctx;

	shake128_init(&ctx);
	shake_update(&ctx, src, len / 2);
	shake_update(&ctx, src + len / 2, len - len / 2);
	shake_squeeze(&ctx, dst, 12);
	shake_squeeze(&ctx, dst + 12, 32 - 12);
	return 0;
}

static void kiln_pair_sha256_finup_2x(const u8 *src1, const u8 *src2, u8 *dst1, u8 *dst2,
				      size_t len)
{
	sha256_finup_2x(NULL, src1, src2, len, dst1, dst2);
}

/* Passes the same message as both inputs, and checks that the two digests are equal. */
WRAPPER(sha256_finup_2x)
{
	u8 second[32];

	sha256_finup_2x(NULL, src, src, len, dst, second);
	return memcmp(dst, second, sizeof(second)) ? -EBADMSG : 0;
}

WRAPPER(blake2b)
{
	blake2b(NULL, 0, src, len, dst, 64);
	return 0;
}

IN_TWO_PARTS(blake2b, struct blake2b_ctx, blake2b_init(&ctx, 64))
#endif

WEAK(blake2s_update);
WEAK(blake2s_final);

#if SINCE(6, 19)
#define BLAKE2S(key, keylen) blake2s(key, keylen, src, len, dst, 32)
#define BLAKE2S_STATE struct blake2s_ctx
#else
#define BLAKE2S(key, keylen) blake2s(dst, src, key, 32, len, keylen)
#define BLAKE2S_STATE struct blake2s_state
#endif

WRAPPER(blake2s)
{
	BLAKE2S(NULL, 0);
	return 0;
}

WRAPPER(blake2s_keyed)
{
	BLAKE2S(key, 32);
	return 0;
}

IN_TWO_PARTS(blake2s, BLAKE2S_STATE, blake2s_init(&ctx, 32))

/* Until 6.15 these functions were inline wrappers around functions in arch/. */
#if SINCE(6, 16)
WEAK(poly1305_init);
WEAK(poly1305_update);
WEAK(poly1305_final);
#define POLY1305 poly1305_final
#elif IS_ENABLED(CONFIG_CRYPTO_ARCH_HAVE_LIB_POLY1305)
WEAK(poly1305_init_arch);
WEAK(poly1305_update_arch);
WEAK(poly1305_final_arch);
#define POLY1305 poly1305_final_arch
#else
WEAK(poly1305_init_generic);
WEAK(poly1305_update_generic);
WEAK(poly1305_final_generic);
#define POLY1305 poly1305_final_generic
#endif

WRAPPER(poly1305)
{
	struct poly1305_desc_ctx ctx;

	poly1305_init(&ctx, key);
	poly1305_update(&ctx, src, len);
	poly1305_final(&ctx, dst);
	return 0;
}

IN_TWO_PARTS(poly1305, struct poly1305_desc_ctx, poly1305_init(&ctx, key))

#if __has_include(<crypto/gf128hash.h>)
#include <crypto/gf128hash.h>

#define UNIVERSAL(name)							\
	WEAK(name##_preparekey);					\
	WEAK(name##_update);						\
	WEAK(name##_final);						\
	PREPARE(name)							\
	{								\
		name##_preparekey(key, raw);				\
		return 0;						\
	}								\
	WRAPPER(name)							\
	{								\
		name(key, src, len, dst);				\
		return 0;						\
	}								\
	IN_TWO_PARTS(name, struct name##_ctx, name##_init(&ctx, key))
#define UNIVERSALS(f)							\
	{ SERIES(f, f##_final), DIGEST(#f, 16), PREPARED(f, struct f##_key), .keys = { 16 } },	\
	{ FUNCTION(f##_update), DIGEST(#f, 16), PREPARED(f, struct f##_key), .keys = { 16 } }
UNIVERSAL(ghash)
UNIVERSAL(polyval)
#endif

#if __has_include(<crypto/nh.h>)
#include <crypto/nh.h>
WEAK(nh);

PREPARE(nh)
{
	u32 *words = key;
	size_t i;

	for (i = 0; i < len / 4; i++)
		words[i] = get_unaligned_le32(raw + 4 * i);
	return 0;
}

WRAPPER(nh)
{
	nh(key, src, len, (__le64 *)dst);
	return 0;
}
#endif

#if __has_include(<crypto/aes-cbc-macs.h>)
#include <crypto/aes-cbc-macs.h>
WEAK(aes_prepareenckey);
WEAK(aes_cmac_preparekey);
WEAK(aes_xcbcmac_preparekey);
WEAK(aes_cmac_update);
WEAK(aes_cmac_final);
WEAK(aes_cbcmac_update);
WEAK(aes_cbcmac_final);

PREPARE(aes_cmac)
{
	return aes_cmac_preparekey(key, raw, len);
}

PREPARE(aes_xcbcmac)
{
	aes_xcbcmac_preparekey(key, raw);
	return 0;
}

PREPARE(aes_cbcmac)
{
	return aes_prepareenckey(key, raw, len);
}

WRAPPER(aes_cmac)
{
	aes_cmac(key, src, len, dst);
	return 0;
}

IN_TWO_PARTS(aes_cmac, struct aes_cmac_ctx, aes_cmac_init(&ctx, key))
IN_TWO_PARTS(aes_cbcmac, struct aes_cbcmac_ctx, aes_cbcmac_init(&ctx, key))
#endif

#if SINCE(7, 1)
#include <crypto/sm3.h>
HASH(sm3)
STREAM(sm3, struct sm3_ctx)
#endif

#if __has_include(<crypto/mldsa.h>) && __has_include(<../lib/crypto/tests/mldsa-testvecs.h>)
#define KILN_MLDSA
#include <crypto/mldsa.h>
#include <../lib/crypto/tests/mldsa-testvecs.h>
WEAK(mldsa_verify);

/*
 * Verifies the signature from the tree's own test case, and stores the return value of
 * mldsa_verify() as the result. If the first byte of the given message is odd, the last byte of the
 * signed message is left out, so that verification fails.
 */
#define MLDSA(set)							\
	WRAPPER(mldsa##set)						\
	{								\
		const struct mldsa_testvector *v = &mldsa##set##_testvector;	\
		const int odd = src[0] & 1;				\
									\
		put_unaligned_le32(mldsa_verify(v->alg, v->sig, v->sig_len,	\
						v->msg, v->msg_len - odd,	\
						v->pk, v->pk_len), dst);	\
		return 0;						\
	}
#define VERIFIES(set, number)						\
	{ .name = "mldsa_verify", .call = kiln_mldsa##set, .symbol = mldsa_verify,	\
	  DIGEST("ml-dsa-" #number, 4), .least = 1, .flags = KILN_LIBRARY_TASK }
MLDSA(44)
MLDSA(65)
MLDSA(87)
#endif

const struct kiln_function kiln_hashes[] = {
#if SINCE(6, 17)
	HASHES(sha1, "sha1", 20),
	HASHES(sha224, "sha224", 28),
	HASHES(sha384, "sha384", 48),
	HASHES(sha512, "sha512", 64),
	HMACS(hmac_sha1, "hmac(sha1)", 20),
	HMACS(hmac_sha224, "hmac(sha224)", 28),
	HMACS(hmac_sha256, "hmac(sha256)", 32),
	HMACS(hmac_sha384, "hmac(sha384)", 48),
	HMACS(hmac_sha512, "hmac(sha512)", 64),
#endif
	HASHES(sha256, "sha256", 32),
#if SINCE(6, 18)
	HASHES(md5, "md5", 16),
	HMACS(hmac_md5, "hmac(md5)", 16),
#endif
#if SINCE(6, 19)
	{ FUNCTION(sha256_finup_2x), DIGEST("sha256", 32), .pair = kiln_pair_sha256_finup_2x,
	  .flags = KILN_LIBRARY_PAIRS },
	{ FUNCTION(sha3_224), DIGEST("sha3-224", 28) },
	{ FUNCTION(sha3_256), DIGEST("sha3-256", 32) },
	{ FUNCTION(sha3_384), DIGEST("sha3-384", 48) },
	{ FUNCTION(sha3_512), DIGEST("sha3-512", 64) },
	{ SERIES(sha3_update, sha3_final), DIGEST("sha3-256", 32) },
	{ FUNCTION(shake128), DIGEST("shake128", 32) },
	{ FUNCTION(shake256), DIGEST("shake256", 64) },
	{ FUNCTION(shake_squeeze), DIGEST("shake128", 32) },
	{ SERIES(blake2b, blake2b_final), DIGEST("blake2b-512", 64) },
	{ FUNCTION(blake2b_update), DIGEST("blake2b-512", 64) },
#endif
#if SINCE(7, 1)
	HASHES(sm3, "sm3", 32),
#endif
	{ SERIES(blake2s, blake2s_final), DIGEST("blake2s-256", 32) },
	{ SERIES(blake2s_keyed, blake2s_final), DIGEST("blake2smac", 32), .keys = { 32 } },
	{ FUNCTION(blake2s_update), DIGEST("blake2s-256", 32) },
	{ SERIES(poly1305, POLY1305), DIGEST("poly1305", 16), .keys = { 32 } },
	{ SERIES(poly1305_update, POLY1305), DIGEST("poly1305", 16), .keys = { 32 } },
#if __has_include(<crypto/gf128hash.h>)
	UNIVERSALS(ghash),
	UNIVERSALS(polyval),
#endif
#if __has_include(<crypto/nh.h>)
	{ FUNCTION(nh), DIGEST("nh", 32), PREPARED(nh, u32[NH_KEY_WORDS]),
	  .own_key = NH_KEY_BYTES, BLOCKS(16), .most = NH_MESSAGE_BYTES },
#endif
#if __has_include(<crypto/aes-cbc-macs.h>)
	{ SERIES(aes_cmac, aes_cmac_final), DIGEST("cmac(aes)", 16), AES_KEYS,
	  PREPARED(aes_cmac, struct aes_cmac_key) },
	{ FUNCTION(aes_cmac_update), DIGEST("cmac(aes)", 16), AES_KEYS,
	  PREPARED(aes_cmac, struct aes_cmac_key) },
	{ .name = "aes_xcbcmac", .call = kiln_aes_cmac, .symbol = aes_xcbcmac_preparekey,
	  DIGEST("xcbc(aes)", 16), .keys = { 16 }, PREPARED(aes_xcbcmac, struct aes_cmac_key) },
	{ FUNCTION(aes_cbcmac_update), DIGEST("cbcmac(aes)", 16), AES_KEYS,
	  PREPARED(aes_cbcmac, struct aes_enckey) },
#endif
#ifdef KILN_MLDSA
	VERIFIES(44, 44),
	VERIFIES(65, 65),
	VERIFIES(87, 87),
#endif
};
const size_t kiln_hash_count = ARRAY_SIZE(kiln_hashes);
