/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-XTS with vector registers: the tweaks. Included by xts_simd.h, after simd/vec_*.h. */
#ifndef KILN_XTS_SIMD_TWEAKS_H
#define KILN_XTS_SIMD_TWEAKS_H

/* x^7 + x^2 + x + 1, which is congruent to x^128, in the lower half of every block. */
#define v_poly() v_all(_mm_set_epi64x(0, 0x87))

/* Multiplies one block by x. */
static __always_inline __m128i mul_x(__m128i t)
{
	/*
	 * The bit shifted out of the lower half is carried into the upper half. The bit shifted out
	 * of the upper half is folded back as 0x87.
	 */
	const __m128i carry = _mm_and_si128(
		_mm_shuffle_epi32(_mm_srai_epi32(t, 31), 0x13),
		_mm_set_epi32(0, 1, 0, 0x87));

	return _mm_xor_si128(_mm_add_epi64(t, t), carry);
}

/*
 * The tweak of block i of a message is the first tweak times x^i, in GF(2^128) with the polynomial
 * x^128 + x^7 + x^2 + x + 1. A tier that has a faster method than shifts and a multiplication
 * defines TIER_TWEAKS and also:
 *
 *	struct tweaks	with @tw and @next, which point to buffers for the tweaks of MAIN vectors
 *	tweaks_begin	writes the tweaks of the first n blocks to @tw; n is at most MAIN vectors
 *	tweaks_next	writes the tweaks of vector j of the next step to @next; called for each j
 *			from 0 to MAIN - 1 between the rounds of the main loop's current step
 */
#ifndef TIER_TWEAKS
struct tweaks {
	u8 *tw;		/* tweaks of this step */
	u8 *next;	/* tweaks of the next step */
	vec_t poly;
};

/* Multiplies every block by x^n, 0 < n < 64. */
static __always_inline vec_t mul_xn(vec_t t, const int n, vec_t poly)
{
	const vec_t carry = v_srl(t, 64 - n);

	return v_xor3(v_sll(t, n), v_bsll(carry, 8), v_clmul(carry, poly, 0x01));
}

static __always_inline void tweaks_begin(struct tweaks *tk, __m128i first, size_t n)
{
#if VBLOCKS == 1
	const vec_t t = first;
#else
	const vec_t t = v_pair(first, mul_x(first));
#endif

	tk->poly = v_poly();
	v_store(tk->tw, t);
#define TWEAK(j) \
	v_store(tk->tw + (j) * VBYTES, mul_xn(t, (j) * VBLOCKS, tk->poly));
	TWEAK(1)
	if (n > 2 * VBLOCKS) {
		TWEAK(2) TWEAK(3)
	}
	if (n > 4 * VBLOCKS) {
		TWEAK(4) TWEAK(5) TWEAK(6) TWEAK(7)
	}
#undef TWEAK
}

static __always_inline void tweaks_next(struct tweaks *tk, const int j)
{
	const vec_t t = v_load(tk->tw + j * VBYTES);
	enum { BYTES = MAIN * VBLOCKS / 8 };

	v_store(tk->next + j * VBYTES,
		v_xor(v_bsll(t, BYTES),
		      v_clmul(v_bsrl(t, 16 - BYTES), tk->poly, 0x00)));
}

#endif

#endif
