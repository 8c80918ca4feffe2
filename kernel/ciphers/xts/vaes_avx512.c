/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-XTS with VAES, 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define XTS(name) xts_##name##_vaes_avx512
#define TIER_TWEAKS

#include "simd_tweaks.h"

/*
 * Tweaks by permutation. Let b0..b15 be the bytes of a tweak t. When t is multiplied by x^64, its
 * upper half is shifted out and must be folded back: a carryless multiplication by 0x87 turns each
 * byte v of the upper half into a low byte L(v) and seven bits H(v), which are XORed into the next
 * higher byte:
 *
 *	tx^64 = L(b8), L(b9)^H(b8) ... L(b15)^H(b14), H(b15)^b0, b1 ... b7
 *	tx^8m = L(b[16-m]), then the end of tx^64, starting with the byte
 *		L(b[17-m])^H(b[16-m]), then b8 ... b[15-m]
 *
 * For each m from 1 to 7, a single byte permutation yields tx^8m. Its two sources are tx^64 and a
 * vector of L(b8)..L(b15) and b8..b15. Shifting and multiplying would take three operations, one of
 * them on a port that AES needs.
 */
struct tweaks {
	u8 *tw;			/* tweaks of this step */
	u8 *next;		/* tweaks of the next step */
	vec_t t[2];		/* tweaks of blocks 0-3 and 4-7 of the step being computed */
	vec_t t64[2];		/* t times x^64 */
	vec_t fold[2];		/* L(b8)..L(b15), b8..b15 of t */
};

/* Row m - 1 is the permutation that yields tx^8m; indices from 64 on select the second source. */
static const u8 window[7][64] __aligned(64) = {
#define ROW(m) { LANE(m, 0), LANE(m, 16), LANE(m, 32), LANE(m, 48) }
#define BYTE(m, l, i) \
	((i) == 0 ? 72 + (l) - (m) : \
	 (i) <= 7 + (m) ? 8 + (l) - (m) + (i) : 64 + (l) - (m) + (i))
#define LANE(m, l)                                                          \
	BYTE(m, l, 0), BYTE(m, l, 1), BYTE(m, l, 2), BYTE(m, l, 3),         \
	BYTE(m, l, 4), BYTE(m, l, 5), BYTE(m, l, 6), BYTE(m, l, 7),         \
	BYTE(m, l, 8), BYTE(m, l, 9), BYTE(m, l, 10), BYTE(m, l, 11),       \
	BYTE(m, l, 12), BYTE(m, l, 13), BYTE(m, l, 14), BYTE(m, l, 15)
	ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)
};

/* For each block, returns L(b8)..L(b15), followed by the bytes b8..b15 themselves. */
static __always_inline vec_t fold_upper(vec_t t)
{
	/* GF2P8AFFINEQB matrices: L in the lower half of a block, identity in the upper half. */
	const vec_t fold = _mm512_broadcast_i32x4(
		_mm_set_epi64x(0x0102040810204080, 0x0103070e1c3870e1));

	return _mm512_gf2p8affine_epi64_epi8(_mm512_shuffle_epi32(t, 0xee), fold, 0);
}

static __always_inline vec_t mul_x64(vec_t t)
{
	return v_xor(v_bsll(t, 8), v_clmul(t, v_poly(), 0x01));
}

/* Derives the values that the permutations need from tk->t[h]. */
static __always_inline void tweaks_derive(struct tweaks *tk, const int h)
{
	tk->t64[h] = mul_x64(tk->t[h]);
	tk->fold[h] = fold_upper(tk->t[h]);
}

/* Computes vector j of the step being prepared. */
static __always_inline vec_t tweaks_vector(const struct tweaks *tk, const int j)
{
	if (j < 2)
		return tk->t[j];
	return _mm512_permutex2var_epi8(tk->t64[j & 1], v_load(window[j / 2 - 1]),
					tk->fold[j & 1]);
}

/*
 * Multiplies the first tweak, which is in every block of @all, by x^(4j) to x^(4j+3). The bits
 * shifted out of each lower half are carried into the upper half, and those shifted out of the
 * upper half are folded back.
 */
static __always_inline vec_t tweaks_from(vec_t all, const int j)
{
	const vec_t left = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
	const vec_t right = _mm512_set_epi64(61, 61, 62, 62, 63, 63, 64, 64);
	const vec_t more = _mm512_set1_epi64(4 * j);
	const vec_t carry = _mm512_srlv_epi64(all, _mm512_sub_epi64(right, more));

	return v_xor3(_mm512_sllv_epi64(all, _mm512_add_epi64(left, more)),
		      v_bsll(carry, 8), v_clmul(carry, v_poly(), 0x01));
}

static __always_inline void tweaks_begin(struct tweaks *tk, __m128i first, size_t n)
{
	const vec_t all = _mm512_broadcast_i32x4(first);

	tk->t[0] = tweaks_from(all, 0);
	tk->t[1] = tweaks_from(all, 1);
#define STORE(j, t) v_store(tk->tw + (j) * sizeof(vec_t), t);
#define DIRECT(j) STORE(j, tweaks_from(all, j))
#define WINDOW(j) STORE(j, tweaks_vector(tk, j))
	STORE(0, tk->t[0])
	STORE(1, tk->t[1])
	if (n > 32) {
		tweaks_derive(tk, 0);
		tweaks_derive(tk, 1);
		WINDOW(2) WINDOW(3) WINDOW(4) WINDOW(5) WINDOW(6) WINDOW(7)
		WINDOW(8) WINDOW(9) WINDOW(10) WINDOW(11)
		WINDOW(12) WINDOW(13) WINDOW(14) WINDOW(15)
		return;
	}
	/*
	 * The code above computes many tweaks with as few operations as possible. The code below
	 * computes a few tweaks with the lowest possible latency.
	 */
	if (n > 8) {
		DIRECT(2) DIRECT(3)
	}
	if (n > 16) {
		DIRECT(4) DIRECT(5) DIRECT(6) DIRECT(7)
	}
#undef STORE
#undef DIRECT
#undef WINDOW
}

static __always_inline void tweaks_next(struct tweaks *tk, const int j)
{
	if (j < 2) {
		tk->t[j] = tk->t64[j];
		tweaks_derive(tk, j);
	}
	v_store(tk->next + j * sizeof(vec_t), tweaks_vector(tk, j));
}

#include "xts_simd.h"
