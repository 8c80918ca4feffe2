/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-CCM with vector registers: the template that every SIMD tier includes once, after one of
 * simd/vec_*.h and after defining CCM(name), the full name of an entry point of the tier, and
 * CCM_CTR, the tier's function for CTR mode.
 *
 * CBC-MAC processes one block after the other. With AES-256, each block takes fourteen rounds of
 * four cycles, and the AES units are idle most of that time. The counters of a vector are therefore
 * encrypted right before or after the vector's blocks are added to the MAC, so that the CPU can
 * overlap the two.
 */
#include <kiln/fpu_assert.h>

#include "../simd/cbc_chain.h"
#include "ccm.h"

static __always_inline void text(const struct aes_key *key, const bool decrypting, u8 *acc,
				 u8 *ctr, u8 *dst, const u8 *src, size_t len)
{
	const bool wide = false, decrypt = false;
	const u32 rounds = key->rounds;
	const u64 left = get_le64(ctr), number = __builtin_bswap64(get_le64(ctr + 8));
	const __m128i first = _mm_set_epi64x(__builtin_bswap64(left), number);
	struct cbc_chain mac = cbc_begin(key, load_halves(acc));
	vec_t counter = v_add64(v_all(first), v_number()), d0;
	__m128i one;
	size_t i;

	put_le64(__builtin_bswap64(number + len / AES_BLOCK_SIZE), ctr + 8);
	for (; len >= VBYTES; len -= VBYTES, src += VBYTES, dst += VBYTES) {
		const u8 *plain = decrypting ? dst : src;
		const vec_t s = v_load(src);
		const u8 *rk = key->enc[0];
		u8 *keep = NULL;

		d0 = v_xor(v_shuffle(counter, v_key(reverse)), KEY(0));
		counter = v_add64(counter, v_low64(VBLOCKS));
		ROUNDS(EACH_1, NO_STEP);
		d0 = v_enclast(d0, v_xor(LAST_KEY, s));
		if (decrypting)
			v_store(dst, d0);
		for (i = 0; i < VBYTES; i += AES_BLOCK_SIZE)
			cbc_add(&mac, load1(plain + i));
		if (!decrypting)
			v_store(dst, d0);
	}
	one = v_first(counter);
	for (; len; src += AES_BLOCK_SIZE, dst += AES_BLOCK_SIZE) {
		const size_t n = len < AES_BLOCK_SIZE ? len : AES_BLOCK_SIZE;
		const __m128i s = n < AES_BLOCK_SIZE ? load_part(src, n) : load1(src);
		const __m128i d = _mm_xor_si128(s, encrypt1(key,
			_mm_shuffle_epi8(one, load1(reverse))));

		one = _mm_add_epi64(one, _mm_set_epi64x(0, 1));
		cbc_add(&mac, decrypting ? keep1(d, n) : s);
		if (n < AES_BLOCK_SIZE)
			store_part(dst, n, d);
		else
			store1(dst, d);
		len -= n;
	}
	store1(acc, cbc_end(&mac));
}

#define CCM_TEXT(direction, decrypting)                                               \
void CCM(direction)(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE],                \
		    u8 ctr[AES_BLOCK_SIZE], u8 *dst, const u8 *src, size_t len)       \
{                                                                                     \
	assert_fpu_section();                                                         \
	text(key, decrypting, acc, ctr, dst, src, len);                               \
	v_end();                                                                      \
}
CCM_TEXT(encrypt, false)
CCM_TEXT(decrypt, true)

#include "ccm_lanes.h"
