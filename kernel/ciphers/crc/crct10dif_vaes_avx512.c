/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CRC-16/T10-DIF with VPCLMULQDQ on 512-bit vectors: two multiplications for 64 bytes.
 */
#include "sum_lanes.h"

#define CRC crct10dif_avx512
#define CRC_SHORT crct10dif_pclmul
#define VBYTES 64
#define BY_1 MOVE_64
#define BY_2 MOVE_128
#define BY_3 MOVE_192
#define BY_4 MOVE_256

typedef __m512i vec_t;

#define v_reverse()                                                           \
	_mm512_broadcast_i32x4(_mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f))
#define v_load(p) _mm512_shuffle_epi8(_mm512_loadu_si512(p), v_reverse())
#define v_top(n) (~0ull << (64 - (n)))
#define v_wide(p) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(p)))
#define v_clmul_lo(a, b) _mm512_clmulepi64_epi128(a, b, 0x00)
#define v_clmul_hi(a, b) _mm512_clmulepi64_epi128(a, b, 0x11)
#define v_xor(a, b) _mm512_xor_si512(a, b)
#define v_xor3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define v_end() _mm256_zeroupper()

static inline __attribute__((always_inline)) vec_t v_load_first(const u8 *p, size_t n);
static inline __attribute__((always_inline)) vec_t v_crc(u32 crc, size_t n);
static inline __attribute__((always_inline)) __m128i v_last(vec_t v);

#include "crct10dif_simd.h"

/*
 * What the mask leaves out is not accessed, whatever is there; but it takes the CPU long to
 * find out that nothing is, so the load stays in the page of the message's first byte.
 */
static inline __attribute__((always_inline)) vec_t v_load_first(const u8 *p, size_t n)
{
	const __mmask64 top = v_top(n);
	vec_t v;

	if (((size_t)p & 4095) >= 64)
		v = _mm512_maskz_loadu_epi8(top, p - (64 - n));
	else
		v = _mm512_maskz_expand_epi8(top, _mm512_maskz_loadu_epi8(top >> (64 - n), p));
	return _mm512_shuffle_epi8(v, v_reverse());
}

static inline __attribute__((always_inline)) vec_t v_crc(u32 crc, size_t n)
{
	const __mmask64 high = 1ull << (64 - n);
	const vec_t at = _mm512_maskz_set1_epi8(high, (char)(crc >> 8));

	return _mm512_shuffle_epi8(_mm512_mask_set1_epi8(at, high << 1, (char)crc), v_reverse());
}

static inline __attribute__((always_inline)) __m128i v_last(vec_t v)
{
	static const struct move to_last[4] __aligned(64) = { MOVE_48, MOVE_32, MOVE_16 };

	return sum_lanes(v, _mm512_load_si512(to_last));
}
