/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CMAC of a whole message: the template that every SIMD tier includes once, after one of
 * simd/vec_*.h and after defining CMAC(name), the full name of an entry point of the tier.
 */
#include <kiln/fpu_assert.h>

#include "../simd/cbc_chain.h"
#include "cmac.h"

/*
 * Returns the last block of a message, with its subkey added. The last @n bytes of the message are
 * at @end.
 */
static __always_inline __m128i last_block(const struct cmac_key *key, const u8 *end, size_t n)
{
	/* filling + 16 - n points to n zero bytes followed by the padding of a block of n bytes. */
	static const u8 filling[32] __aligned(16) = { [16] = 0x80 };

	if (likely(n == AES_BLOCK_SIZE))
		return _mm_xor_si128(load1(end), load1(key->sub[0]));
	return _mm_xor_si128(n ? load_part(end, n) : _mm_setzero_si128(),
			     _mm_xor_si128(load1(filling + 16 - n), load1(key->sub[1])));
}

void CMAC(digest)(const void *ctx, const u8 *data, size_t len, u8 *out)
{
	const struct cmac_key *key = ctx;
	const size_t before = len ? (len - 1) / AES_BLOCK_SIZE : 0;
	const size_t n = len - before * AES_BLOCK_SIZE;
	const u8 *const end = data + before * AES_BLOCK_SIZE;
	struct cbc_chain chain = cbc_begin(&key->aes, _mm_setzero_si128());
	__m128i last;
	size_t i;

	assert_fpu_section();
	last = last_block(key, end, n);
	for (i = 0; i < before; i++)
		cbc_add(&chain, load1(data + i * AES_BLOCK_SIZE));
	cbc_add(&chain, last);
	store1(out, cbc_end(&chain));
}

#include "cmac_lanes.h"
