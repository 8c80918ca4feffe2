/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-GCM (NIST SP 800-38D) with IVs of 96 bits, and AES-GCM as IPsec uses it (RFC 4106).
 *
 * gcm.c			keys, messages in pieces, the table of implementations
 * generic.c, fixed_time.c	text in general-purpose registers, from the template scalar.h
 * aesni.c, vaes_avx2.c, vaes_avx512.c	text and whole messages with vectors, from gcm_simd.h
 * ../polyval/		GHASH
 */
#ifndef KILN_GCM_H
#define KILN_GCM_H

#include "../aes/aes.h"
#include "../polyval/polyval.h"
#include "../tiers.h"

/* Maximum number of bytes of text per IV: SP 800-38D, 5.2.1.1. */
#define GCM_MAX_TEXT ((1ull << 36) - 32)

struct gcm_key {
	struct polyval_key h;
	struct aes_key aes;
	u32 salt;		/* RFC 4106 only, in memory order */
} __aligned(64);

struct gcm_state {
	u64 acc[2];		/* GHASH so far, in POLYVAL's representation */
	u64 aadlen, len;	/* bytes of associated data and of text so far */
	u8 j0[AES_BLOCK_SIZE];	/* the IV followed by the counter value 1 */
	u8 buffer[AES_BLOCK_SIZE];	/* last (aadlen % 16) bytes of associated data, padded */
};

/* The 96 bits of an IV in memory order. */
struct gcm_iv {
	u64 first;
	u32 last;
};

/*
 * Processes a piece of text and updates state->acc and state->len. The associated data must be
 * complete.
 */
typedef void gcm_text_t(const struct gcm_key *key, struct gcm_state *state, u8 *dst,
			const u8 *src, size_t len);
/*
 * Process a whole message like kiln_seal_t and kiln_open_t. If the tag is wrong, gcm_open_t does
 * not wipe the text; the caller must do so.
 */
typedef void gcm_seal_t(const struct gcm_key *key, u8 *dst, const u8 *src, size_t len,
			const u8 *aad, size_t aadlen, struct gcm_iv iv, u8 *tag,
			size_t tagsize);
typedef bool gcm_open_t(const struct gcm_key *key, u8 *dst, const u8 *src, size_t len,
			const u8 *aad, size_t aadlen, struct gcm_iv iv, const u8 *tag,
			size_t tagsize);

#define GCM_DECLARE_TEXT(name, ...) gcm_text_t gcm_encrypt_##name, gcm_decrypt_##name;
#define GCM_DECLARE_WHOLE(name, ...) gcm_seal_t gcm_seal_##name; gcm_open_t gcm_open_##name;
AES_ALL(GCM_DECLARE_TEXT)
AES_SIMD(GCM_DECLARE_WHOLE)

#endif
