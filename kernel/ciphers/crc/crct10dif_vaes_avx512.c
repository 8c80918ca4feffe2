/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CRC-16/T10-DIF with VPCLMULQDQ on 512-bit vectors: two multiplications per 64 bytes. */
#include "../simd/vec_zmm.h"

#define BY_1 MOVE_64
#define BY_2 MOVE_128
#define BY_3 MOVE_192
#define BY_4 MOVE_256

#include "crct10dif_simd.h"

/*
 * Masked-off bytes are never accessed, but if they are in an unmapped page, the masked load is
 * slow. The load therefore stays in the page of the message's first byte.
 */
static __always_inline vec_t load_first(const u8 *p, size_t n)
{
	const __mmask64 top = ~0ull << (64 - n);
	vec_t v;

	if (((size_t)p & 4095) >= 64)
		v = _mm512_maskz_loadu_epi8(top, p - (64 - n));
	else
		v = _mm512_maskz_expand_epi8(top, _mm512_maskz_loadu_epi8(top >> (64 - n), p));
	return REVERSE(v);
}

static __always_inline vec_t put_crc(u32 crc, size_t n)
{
	const __mmask64 high = 1ull << (64 - n);
	const vec_t at = _mm512_maskz_set1_epi8(high, (char)(crc >> 8));

	return REVERSE(_mm512_mask_set1_epi8(at, high << 1, (char)crc));
}

static __always_inline __m128i sum_last(vec_t v)
{
	static const struct move to_last[4] __aligned(64) = { MOVE_48, MOVE_32, MOVE_16 };

	return sum_lanes(v, _mm512_load_si512(to_last));
}

CRC_ENTRIES(crct10dif, avx512, add_bytes)
