/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Access to one 16-byte block at each of VBLOCKS addresses: gather() loads the blocks at offset @o
 * from the pointers at @p, and scatter() stores blocks there. Include this after one of vec_*.h.
 */
#ifndef KILN_SIMD_GATHER_H
#define KILN_SIMD_GATHER_H

#define v_load1(p) _mm_loadu_si128((const __m128i *)(p))
#define v_store1(p, v) _mm_storeu_si128((__m128i *)(p), v)

#if VBLOCKS == 4
static __always_inline vec_t gather(const u8 *const *p, size_t o)
{
	vec_t v = v_one(v_load1(p[0] + o));

	/* A masked broadcast load puts the block into its lane without a shuffle. */
	v = _mm512_mask_broadcast_i32x4(v, 0x00f0, v_load1(p[1] + o));
	v = _mm512_mask_broadcast_i32x4(v, 0x0f00, v_load1(p[2] + o));
	return _mm512_mask_broadcast_i32x4(v, 0xf000, v_load1(p[3] + o));
}

static __always_inline void scatter(u8 *const *p, size_t o, vec_t v)
{
	v_store1(p[0] + o, v_first(v));
	v_store1(p[1] + o, _mm512_extracti32x4_epi32(v, 1));
	v_store1(p[2] + o, _mm512_extracti32x4_epi32(v, 2));
	v_store1(p[3] + o, _mm512_extracti32x4_epi32(v, 3));
}
#elif VBLOCKS == 2
static __always_inline vec_t gather(const u8 *const *p, size_t o)
{
	return v_pair(v_load1(p[0] + o), v_load1(p[1] + o));
}

static __always_inline void scatter(u8 *const *p, size_t o, vec_t v)
{
	v_store1(p[0] + o, v_first(v));
	v_store1(p[1] + o, _mm256_extracti128_si256(v, 1));
}
#else
static __always_inline vec_t gather(const u8 *const *p, size_t o)
{
	return v_load1(p[0] + o);
}

static __always_inline void scatter(u8 *const *p, size_t o, vec_t v)
{
	v_store1(p[0] + o, v);
}
#endif

#endif
