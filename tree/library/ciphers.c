// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Ciphers, authenticated encryption and key agreement functions that the tree's library exports. */
#include <linux/scatterlist.h>

#include <crypto/aes.h>
#include <crypto/arc4.h>
#include <crypto/chacha.h>
#include <crypto/chacha20poly1305.h>
#include <crypto/curve25519.h>
#include <crypto/des.h>

#include "kiln/function.h"

/* Defines a wrapper that calls a single-block function for each block of the message. */
#define EACH_BLOCK(name, size)					\
	WEAK(name);						\
	WRAPPER(name)						\
	{							\
		size_t i;					\
								\
		for (i = 0; i < len; i += size)			\
			name(key, dst + i, src + i);		\
		return 0;					\
	}


#if SINCE(7, 0)
#define AES_KEY struct aes_key
#define AES_ENCRYPTION_KEY struct aes_enckey
WEAK(aes_preparekey);
WEAK(aes_prepareenckey);

PREPARE(aes)
{
	return aes_preparekey(key, raw, len);
}

PREPARE(aes_encryption)
{
	return aes_prepareenckey(key, raw, len);
}
#else
#define AES_KEY struct crypto_aes_ctx
#define AES_ENCRYPTION_KEY struct crypto_aes_ctx
WEAK(aes_expandkey);

PREPARE(aes)
{
	return aes_expandkey(key, raw, len);
}

#define kiln_prepare_aes_encryption kiln_prepare_aes
#endif

WEAK(aes_encrypt);
WRAPPER(aes_encrypt)
{
	const AES_ENCRYPTION_KEY *const k = key;
	size_t i;

	for (i = 0; i < len; i += AES_BLOCK_SIZE)
		aes_encrypt(k, dst + i, src + i);
	return 0;
}

EACH_BLOCK(aes_decrypt, AES_BLOCK_SIZE)

#if SINCE(6, 10)
#define KILN_AESCFB
WEAK(aescfb_encrypt);
WRAPPER(aescfb_encrypt)
{
	aescfb_encrypt(key, dst, src, len, iv);
	return 0;
}

WEAK(aescfb_decrypt);
WRAPPER(aescfb_decrypt)
{
	aescfb_decrypt(key, dst, src, len, iv);
	return 0;
}
#endif

#define WITH_IV(name, type)				\
	WEAK(name);					\
	WRAPPER(name)					\
	{						\
		const type *const k = key;		\
							\
		name(dst, src, len, iv, k);		\
		return 0;				\
	}

#if __has_include(<crypto/aes-cbc.h>)
#define KILN_AES_MODES
#include <crypto/aes-cbc.h>
#include <crypto/aes-ctr.h>
#include <crypto/aes-ecb.h>
#include <crypto/aes-xts.h>
WITH_IV(aes_cbc_encrypt, struct aes_enckey)
WITH_IV(aes_cbc_decrypt, struct aes_key)
WITH_IV(aes_cbc_cts_encrypt, struct aes_enckey)
WITH_IV(aes_cbc_cts_decrypt, struct aes_key)
WITH_IV(aes_ctr, struct aes_enckey)

WEAK(aes_ecb_encrypt);
WRAPPER(aes_ecb_encrypt)
{
	const struct aes_enckey *const k = key;

	aes_ecb_encrypt(dst, src, len, k);
	return 0;
}

WEAK(aes_ecb_decrypt);
WRAPPER(aes_ecb_decrypt)
{
	aes_ecb_decrypt(dst, src, len, key);
	return 0;
}

WEAK(aes_xctr);
WRAPPER(aes_xctr)
{
	const struct aes_enckey *const k = key;
	u64 counter = 1;

	aes_xctr(dst, src, len, &counter, iv, k);
	return 0;
}

WEAK(aes_xts_preparekey);
PREPARE(aes_xts)
{
	return aes_xts_preparekey(key, raw, len, 0);
}

WEAK(aes_xts_encrypt);
WRAPPER(aes_xts_encrypt)
{
	aes_xts_encrypt(dst, src, len, iv, key, false);
	return 0;
}

WEAK(aes_xts_decrypt);
WRAPPER(aes_xts_decrypt)
{
	aes_xts_decrypt(dst, src, len, iv, key, false);
	return 0;
}
#endif

/*
 * These wrappers call the one-shot and the incremental functions. An incremental call is made in
 * two parts, and the second part usually starts inside a block.
 */
#if __has_include(<crypto/aes-gcm.h>)
#include <crypto/aes-gcm.h>
WEAK(aes_gcm_preparekey);
WEAK(aes_gcm_encrypt);
WEAK(aes_gcm_decrypt);
WEAK(aes_gcm_init);
WEAK(aes_gcm_auth_update);
WEAK(aes_gcm_encrypt_update);
WEAK(aes_gcm_decrypt_update);
WEAK(aes_gcm_encrypt_final);
WEAK(aes_gcm_decrypt_final);

PREPARE(aes_gcm)
{
	return aes_gcm_preparekey(key, raw, len, 16);
}

WRAPPER(aes_gcm_encrypt)
{
	aes_gcm_encrypt(dst + prefix, src + prefix, len, dst + prefix + len, src, prefix, iv, key);
	return 0;
}

WRAPPER(aes_gcm_decrypt)
{
	return aes_gcm_decrypt(dst + prefix, src + prefix, len, src + prefix + len, src, prefix, iv,
			       key);
}

WRAPPER(aes_gcm_encrypt_update)
{
	const size_t half = len / 2;
	struct aes_gcm_ctx ctx;

	aes_gcm_init(&ctx, iv, key);
	aes_gcm_auth_update(&ctx, src, prefix);
	aes_gcm_encrypt_update(&ctx, dst + prefix, src + prefix, half);
	aes_gcm_encrypt_update(&ctx, dst + prefix + half, src + prefix + half, len - half);
	aes_gcm_encrypt_final(&ctx, dst + prefix + len);
	return 0;
}

WRAPPER(aes_gcm_decrypt_update)
{
	const size_t half = len / 2;
	struct aes_gcm_ctx ctx;

	aes_gcm_init(&ctx, iv, key);
	aes_gcm_auth_update(&ctx, src, prefix);
	aes_gcm_decrypt_update(&ctx, dst + prefix, src + prefix, half);
	aes_gcm_decrypt_update(&ctx, dst + prefix + half, src + prefix + half, len - half);
	return aes_gcm_decrypt_final(&ctx, src + prefix + len);
}
#elif SINCE(6, 2)
#define KILN_AESGCM
#include <crypto/gcm.h>
WEAK(aesgcm_expandkey);
WEAK(aesgcm_encrypt);
WEAK(aesgcm_decrypt);

PREPARE(aesgcm)
{
	return aesgcm_expandkey(key, raw, len, 16);
}

WRAPPER(aesgcm_encrypt)
{
	aesgcm_encrypt(key, dst + prefix, src + prefix, len, src, prefix, iv, dst + prefix + len);
	return 0;
}

WRAPPER(aesgcm_decrypt)
{
	return aesgcm_decrypt(key, dst + prefix, src + prefix, len, src, prefix, iv,
			      src + prefix + len) ? 0 : -EBADMSG;
}
#endif

#if __has_include(<crypto/aes-ccm.h>)
#include <crypto/aes-ccm.h>
WEAK(aes_ccm_preparekey);
WEAK(aes_ccm_encrypt);
WEAK(aes_ccm_decrypt);
WEAK(aes_ccm_init);
WEAK(aes_ccm_auth_update);
WEAK(aes_ccm_encrypt_update);
WEAK(aes_ccm_decrypt_update);
WEAK(aes_ccm_encrypt_final);
WEAK(aes_ccm_decrypt_final);

/* The crypto API's IV for CCM: the size of the length field minus 1, then the nonce, then zeros. */
#define NONCE iv + 1, 14 - iv[0]

PREPARE(aes_ccm)
{
	return aes_ccm_preparekey(key, raw, len, 16);
}

WRAPPER(aes_ccm_encrypt)
{
	return aes_ccm_encrypt(dst + prefix, src + prefix, len, dst + prefix + len, src, prefix,
			       NONCE, key);
}

WRAPPER(aes_ccm_decrypt)
{
	return aes_ccm_decrypt(dst + prefix, src + prefix, len, src + prefix + len, src, prefix,
			       NONCE, key);
}

WRAPPER(aes_ccm_encrypt_update)
{
	const size_t half = len / 2;
	struct aes_ccm_ctx ctx;
	int error = aes_ccm_init(&ctx, len, prefix, NONCE, key);

	if (error)
		return error;
	aes_ccm_auth_update(&ctx, src, prefix);
	aes_ccm_encrypt_update(&ctx, dst + prefix, src + prefix, half);
	aes_ccm_encrypt_update(&ctx, dst + prefix + half, src + prefix + half, len - half);
	aes_ccm_encrypt_final(&ctx, dst + prefix + len);
	return 0;
}

WRAPPER(aes_ccm_decrypt_update)
{
	const size_t half = len / 2;
	struct aes_ccm_ctx ctx;
	int error = aes_ccm_init(&ctx, len, prefix, NONCE, key);

	if (error)
		return error;
	aes_ccm_auth_update(&ctx, src, prefix);
	aes_ccm_decrypt_update(&ctx, dst + prefix, src + prefix, half);
	aes_ccm_decrypt_update(&ctx, dst + prefix + half, src + prefix + half, len - half);
	return aes_ccm_decrypt_final(&ctx, src + prefix + len);
}
#endif


/*
 * Since 6.16 the state is a structure. Before that, the functions were inline wrappers around arch
 * code.
 */
#if SINCE(6, 16)
#define STATE struct chacha_state
#define CHACHA chacha_crypt
#define HCHACHA hchacha_block
WEAK(chacha_crypt);
WEAK(hchacha_block);
#else
#define STATE typeof(u32[CHACHA_STATE_WORDS])
#if IS_ENABLED(CONFIG_CRYPTO_ARCH_HAVE_LIB_CHACHA)
#define CHACHA chacha_crypt_arch
#define HCHACHA hchacha_block_arch
WEAK(chacha_init_arch);
WEAK(chacha_crypt_arch);
WEAK(hchacha_block_arch);
#else
#define CHACHA chacha_crypt_generic
#define HCHACHA hchacha_block_generic
WEAK(chacha_crypt_generic);
#endif
#endif
/* Returns the address of the state, which is an array in older trees. */
#define AT(state) ((void *)&(state))

WEAK(chacha_block_generic);
WEAK(hchacha_block_generic);

PREPARE(words)
{
	u32 *words = key;
	size_t i;

	for (i = 0; i < len / 4; i++)
		words[i] = get_unaligned_le32(raw + 4 * i);
	return 0;
}

WRAPPER(chacha_crypt)
{
	STATE state;

	chacha_init(AT(state), key, iv);
	chacha_crypt(AT(state), dst, src, len, 20);
	return 0;
}

/* Generates one key stream block. */
WRAPPER(chacha_block_generic)
{
	u8 stream[CHACHA_BLOCK_SIZE];
	STATE state;
	size_t i;

	chacha_init(AT(state), key, iv);
	chacha_block_generic(AT(state), stream, 20);
	for (i = 0; i < len; i++)
		dst[i] = src[i] ^ stream[i];
	return 0;
}

/* Defines a wrapper that derives a subkey. The message is the 16-byte nonce. */
#define SUBKEY(name)						\
	WRAPPER(name)						\
	{							\
		u32 out[8];					\
		STATE state;					\
		size_t i;					\
								\
		chacha_init(AT(state), key, src);		\
		name(AT(state), out, 20);			\
		for (i = 0; i < 8; i++)				\
			put_unaligned_le32(out[i], dst + 4 * i);	\
		return 0;					\
	}

SUBKEY(hchacha_block)
SUBKEY(hchacha_block_generic)

WEAK(chacha20poly1305_encrypt);
WEAK(chacha20poly1305_decrypt);
WEAK(xchacha20poly1305_encrypt);
WEAK(xchacha20poly1305_decrypt);
WEAK(chacha20poly1305_encrypt_sg_inplace);
WEAK(chacha20poly1305_decrypt_sg_inplace);

/* The crypto API's nonce has 12 bytes, of which the first 4 are 0 here. */
#define NONCE64 get_unaligned_le64(iv + 4)

WRAPPER(chacha20poly1305_encrypt)
{
	chacha20poly1305_encrypt(dst + prefix, src + prefix, len, src, prefix, NONCE64, key);
	return 0;
}

WRAPPER(chacha20poly1305_decrypt)
{
	return chacha20poly1305_decrypt(dst + prefix, src + prefix, len + 16, src, prefix, NONCE64,
					key) ? 0 : -EBADMSG;
}

WRAPPER(xchacha20poly1305_encrypt)
{
	xchacha20poly1305_encrypt(dst + prefix, src + prefix, len, src, prefix, iv, key);
	return 0;
}

WRAPPER(xchacha20poly1305_decrypt)
{
	return xchacha20poly1305_decrypt(dst + prefix, src + prefix, len + 16, src, prefix, iv,
					 key) ? 0 : -EBADMSG;
}

/*
 * These wrappers compute the same results as xchacha20poly1305_*(), but call other library
 * functions.
 */
static void kiln_subkey(u8 *subkey, const u8 *key, const u8 *iv)
{
	u32 words[8];

	kiln_prepare_words(words, key, sizeof(words));
	kiln_hchacha_block_generic(words, NULL, iv, subkey, 16, 0);
}

WRAPPER(xchacha_made_of_hchacha_encrypt)
{
	u8 subkey[32];

	kiln_subkey(subkey, key, iv);
	chacha20poly1305_encrypt(dst + prefix, src + prefix, len, src, prefix,
				 get_unaligned_le64(iv + 16), subkey);
	return 0;
}

WRAPPER(xchacha_made_of_hchacha_decrypt)
{
	u8 subkey[32];

	kiln_subkey(subkey, key, iv);
	return chacha20poly1305_decrypt(dst + prefix, src + prefix, len + 16, src, prefix,
					get_unaligned_le64(iv + 16), subkey) ? 0 : -EBADMSG;
}

/*
 * The following two functions work in place, so their wrappers copy the message first. The measured
 * time includes the copy.
 */
WRAPPER(chacha20poly1305_encrypt_sg_inplace)
{
	struct scatterlist sg;

	memcpy(dst + prefix, src + prefix, len);
	sg_init_one(&sg, dst + prefix, len + 16);
	return chacha20poly1305_encrypt_sg_inplace(&sg, len, src, prefix, NONCE64, key) ? 0 : -EINVAL;
}

/* The output buffer has no space for the tag, so the tag is written to the stack. */
WRAPPER(chacha20poly1305_decrypt_sg_inplace)
{
	struct scatterlist sg[2];
	u8 tag[16];

	memcpy(dst + prefix, src + prefix, len);
	memcpy(tag, src + prefix + len, sizeof(tag));
	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], dst + prefix, len);
	sg_set_buf(&sg[1], tag, sizeof(tag));
	return chacha20poly1305_decrypt_sg_inplace(sg, len + 16, src, prefix, NONCE64, key) ? 0 :
										       -EBADMSG;
}


WEAK(des_expand_key);
PREPARE(des)
{
	return des_expand_key(key, raw, len);
}

WEAK(des3_ede_expand_key);
PREPARE(des3_ede)
{
	return des3_ede_expand_key(key, raw, len);
}

EACH_BLOCK(des_encrypt, DES_BLOCK_SIZE)
EACH_BLOCK(des_decrypt, DES_BLOCK_SIZE)
EACH_BLOCK(des3_ede_encrypt, DES3_EDE_BLOCK_SIZE)
EACH_BLOCK(des3_ede_decrypt, DES3_EDE_BLOCK_SIZE)

/* Encryption modifies the state, so the wrapper sets the key for each message. */
WEAK(arc4_setkey);
WEAK(arc4_crypt);
WRAPPER(arc4_crypt)
{
	struct arc4_ctx ctx;
	const int error = arc4_setkey(&ctx, key, 16);

	if (error)
		return error;
	arc4_crypt(&ctx, dst, src, len);
	return 0;
}

/* Curve25519: the key is the private key, and the message is the other side's public value. */

WEAK(curve25519_generic);
#if SINCE(6, 18)
WEAK(curve25519);
WEAK(curve25519_generate_public);
#define CURVE25519 curve25519
#define CURVE25519_BASE curve25519_generate_public
#elif IS_ENABLED(CONFIG_CRYPTO_ARCH_HAVE_LIB_CURVE25519)
WEAK(curve25519_arch);
WEAK(curve25519_base_arch);
#define CURVE25519 curve25519_arch
#define CURVE25519_BASE curve25519_base_arch
#else
#define CURVE25519 curve25519_generic
#define CURVE25519_BASE curve25519_generic
#endif

WRAPPER(curve25519)
{
	return curve25519(dst, key, src) ? 0 : -EINVAL;
}

WRAPPER(curve25519_generic)
{
	curve25519_generic(dst, key, src);
	return 0;
}

/* The message is the private key, and the result is the public value. */
WRAPPER(curve25519_generate_public)
{
	return curve25519_generate_public(dst, src) ? 0 : -EINVAL;
}

WRAPPER(curve25519_base_generic)
{
	static const u8 base[CURVE25519_KEY_SIZE] = { 9 };

	curve25519_generic(dst, src, base);
	return 0;
}

#define AES(algorithm, way) CIPHER(algorithm, way), AES_KEYS
#define WITH_AES_KEY PREPARED(aes, AES_KEY)
#define WITH_AES_ENCRYPTION_KEY PREPARED(aes_encryption, AES_ENCRYPTION_KEY)
#define POINTS .least = 32, .most = 32
#define CHACHA_KEY .keys = { 32 }, PREPARED(words, u32[8])
#define CHACHAPOLY(way) AEAD("rfc7539(chacha20,poly1305)", way, 12), .keys = { 32 }, \
	.flags = KILN_LIBRARY_UNASKED
#define XCHACHAPOLY(way) AEAD("xchacha20poly1305", way, 24), .keys = { 32 }
#define TRIPLE_DES(way) CIPHER("ecb(des3_ede)", way), BLOCKS(8), .keys = { 24 }, \
	PREPARED(des3_ede, struct des3_ede_ctx)

const struct kiln_function kiln_ciphers[] = {
	{ FUNCTION(aes_encrypt), AES("ecb(aes)", "encrypt"), WITH_AES_ENCRYPTION_KEY, BLOCKS(16) },
	{ FUNCTION(aes_decrypt), AES("ecb(aes)", "decrypt"), WITH_AES_KEY, BLOCKS(16) },
#ifdef KILN_AESCFB
	{ FUNCTION(aescfb_encrypt), AES("cfb(aes)", "encrypt"), WITH_AES_ENCRYPTION_KEY, .iv = 16 },
	{ FUNCTION(aescfb_decrypt), AES("cfb(aes)", "decrypt"), WITH_AES_ENCRYPTION_KEY, .iv = 16 },
#endif
#ifdef KILN_AES_MODES
	{ FUNCTION(aes_ecb_encrypt), AES("ecb(aes)", "encrypt"), WITH_AES_ENCRYPTION_KEY,
	  BLOCKS(16) },
	{ FUNCTION(aes_ecb_decrypt), AES("ecb(aes)", "decrypt"), WITH_AES_KEY, BLOCKS(16) },
	{ FUNCTION(aes_cbc_encrypt), AES("cbc(aes)", "encrypt"), WITH_AES_ENCRYPTION_KEY, .iv = 16,
	  BLOCKS(16) },
	{ FUNCTION(aes_cbc_decrypt), AES("cbc(aes)", "decrypt"), WITH_AES_KEY, .iv = 16,
	  BLOCKS(16) },
	{ FUNCTION(aes_cbc_cts_encrypt), AES("cts(cbc(aes))", "encrypt"), WITH_AES_ENCRYPTION_KEY,
	  .iv = 16, .least = 16 },
	{ FUNCTION(aes_cbc_cts_decrypt), AES("cts(cbc(aes))", "decrypt"), WITH_AES_KEY, .iv = 16,
	  .least = 16 },
	{ FUNCTION(aes_ctr), AES("ctr(aes)", "crypt"), WITH_AES_ENCRYPTION_KEY, .iv = 16 },
	{ FUNCTION(aes_xctr), AES("xctr(aes)", "crypt"), WITH_AES_ENCRYPTION_KEY, .iv = 16 },
	{ FUNCTION(aes_xts_encrypt), CIPHER("xts(aes)", "encrypt"), .iv = 16, .least = 16,
	  .keys = { 32, 64 }, PREPARED(aes_xts, struct aes_xts_key) },
	{ FUNCTION(aes_xts_decrypt), CIPHER("xts(aes)", "decrypt"), .iv = 16, .least = 16,
	  .keys = { 32, 64 }, PREPARED(aes_xts, struct aes_xts_key) },
#endif
#if __has_include(<crypto/aes-gcm.h>)
	{ FUNCTION(aes_gcm_encrypt), AEAD("gcm(aes)", "encrypt", 12), AES_KEYS,
	  PREPARED(aes_gcm, struct aes_gcm_key) },
	{ FUNCTION(aes_gcm_decrypt), AEAD("gcm(aes)", "decrypt", 12), AES_KEYS,
	  PREPARED(aes_gcm, struct aes_gcm_key) },
	{ FUNCTION(aes_gcm_encrypt_update), AEAD("gcm(aes)", "encrypt", 12), AES_KEYS,
	  PREPARED(aes_gcm, struct aes_gcm_key) },
	{ FUNCTION(aes_gcm_decrypt_update), AEAD("gcm(aes)", "decrypt", 12), AES_KEYS,
	  PREPARED(aes_gcm, struct aes_gcm_key) },
#endif
#ifdef KILN_AESGCM
	{ FUNCTION(aesgcm_encrypt), AEAD("gcm(aes)", "encrypt", 12), AES_KEYS,
	  PREPARED(aesgcm, struct aesgcm_ctx) },
	{ FUNCTION(aesgcm_decrypt), AEAD("gcm(aes)", "decrypt", 12), AES_KEYS,
	  PREPARED(aesgcm, struct aesgcm_ctx) },
#endif
#if __has_include(<crypto/aes-ccm.h>)
	{ FUNCTION(aes_ccm_encrypt), AEAD("ccm(aes)", "encrypt", 16), AES_KEYS,
	  PREPARED(aes_ccm, struct aes_ccm_key) },
	{ FUNCTION(aes_ccm_decrypt), AEAD("ccm(aes)", "decrypt", 16), AES_KEYS,
	  PREPARED(aes_ccm, struct aes_ccm_key) },
	{ FUNCTION(aes_ccm_encrypt_update), AEAD("ccm(aes)", "encrypt", 16), AES_KEYS,
	  PREPARED(aes_ccm, struct aes_ccm_key) },
	{ FUNCTION(aes_ccm_decrypt_update), AEAD("ccm(aes)", "decrypt", 16), AES_KEYS,
	  PREPARED(aes_ccm, struct aes_ccm_key) },
#endif
	{ SERIES(chacha_crypt, CHACHA), CIPHER("chacha20", "crypt"), .iv = 16, CHACHA_KEY,
	  .flags = KILN_LIBRARY_UNASKED },
	{ FUNCTION(chacha_block_generic), CIPHER("chacha20", "crypt"), .iv = 16, .most = 64,
	  CHACHA_KEY },
	{ SERIES(hchacha_block, HCHACHA), DIGEST("hchacha20", 32), .least = 16, .most = 16,
	  CHACHA_KEY, .flags = KILN_LIBRARY_UNASKED, .judge = "hchacha_block_generic" },
	{ FUNCTION(hchacha_block_generic), DIGEST("hchacha20", 32), .least = 16, .most = 16,
	  CHACHA_KEY },
	{ FUNCTION(chacha20poly1305_encrypt), CHACHAPOLY("encrypt") },
	{ FUNCTION(chacha20poly1305_decrypt), CHACHAPOLY("decrypt") },
	{ FUNCTION(chacha20poly1305_encrypt_sg_inplace), CHACHAPOLY("encrypt") },
	{ FUNCTION(chacha20poly1305_decrypt_sg_inplace), CHACHAPOLY("decrypt") },
	{ FUNCTION(xchacha20poly1305_encrypt), XCHACHAPOLY("encrypt"),
	  .flags = KILN_LIBRARY_UNASKED, .judge = "xchacha_made_of_hchacha_encrypt" },
	{ FUNCTION(xchacha20poly1305_decrypt), XCHACHAPOLY("decrypt"),
	  .flags = KILN_LIBRARY_UNASKED, .judge = "xchacha_made_of_hchacha_decrypt" },
	{ SERIES(xchacha_made_of_hchacha_encrypt, chacha20poly1305_encrypt),
	  XCHACHAPOLY("encrypt"), .flags = KILN_LIBRARY_JUDGES },
	{ SERIES(xchacha_made_of_hchacha_decrypt, chacha20poly1305_decrypt),
	  XCHACHAPOLY("decrypt"), .flags = KILN_LIBRARY_JUDGES },
	{ FUNCTION(des_encrypt), CIPHER("ecb(des)", "encrypt"), BLOCKS(8), .keys = { 8 },
	  PREPARED(des, struct des_ctx) },
	{ FUNCTION(des_decrypt), CIPHER("ecb(des)", "decrypt"), BLOCKS(8), .keys = { 8 },
	  PREPARED(des, struct des_ctx) },
	{ FUNCTION(des3_ede_encrypt), TRIPLE_DES("encrypt") },
	{ FUNCTION(des3_ede_decrypt), TRIPLE_DES("decrypt") },
	{ FUNCTION(arc4_crypt), CIPHER("ecb(arc4)", "crypt"), .keys = { 16 } },
	{ SERIES(curve25519, CURVE25519), DERIVE("curve25519", 32), .own_key = 32, POINTS,
	  .judge = "curve25519_generic" },
	{ FUNCTION(curve25519_generic), DERIVE("curve25519", 32), .own_key = 32, POINTS },
	{ SERIES(curve25519_generate_public, CURVE25519_BASE), DERIVE("curve25519-public", 32),
	  POINTS, .judge = "curve25519_base_generic" },
	{ SERIES(curve25519_base_generic, curve25519_generic), DERIVE("curve25519-public", 32),
	  POINTS, .flags = KILN_LIBRARY_JUDGES },
};
const size_t kiln_cipher_count = ARRAY_SIZE(kiln_ciphers);
