/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Operations for hashes that process one message per lane: each word of a vector belongs to a
 * different message. Include this after vec_ymm.h or vec_zmm.h, with WORD_BITS defined as 32 or 64.
 *
 * A rotation or a three-input operation takes one instruction with AVX-512, and three or four with
 * AVX2.
 */
#ifndef KILN_SIMD_WORDS_H
#define KILN_SIMD_WORDS_H

#include "gather.h"

#define LANES (VBYTES * 8 / WORD_BITS)
/* The number of words in a 16-byte block. */
#define WORDS_IN_BLOCK (128 / WORD_BITS)
/* The index of a lane's word in an array of vectors; see load_some(). */
#define AT(lane, word)                                                        \
	((word) * LANES + (lane) % VBLOCKS * WORDS_IN_BLOCK + (lane) / VBLOCKS)

#if WORD_BITS == 32
typedef u32 word_t;
#define W(op) V(op##_epi32)
#define w_all(x) V(set1_epi32)((int)(x))
#define SWAP_WORDS v_set64(0x0c0d0e0f08090a0b, 0x0405060700010203)
#else
typedef u64 word_t;
#define W(op) V(op##_epi64)
#if VBLOCKS == 4
#define w_all(x) _mm512_set1_epi64((long long)(x))
#else
#define w_all(x) _mm256_set1_epi64x((long long)(x))
#endif
#define SWAP_WORDS v_set64(0x08090a0b0c0d0e0f, 0x0001020304050607)
#endif

#define w_add(a, b) W(add)(a, b)
#define w_sub(a, b) W(sub)(a, b)
#define w_shr(v, n) W(srli)(v, n)
#if VBLOCKS == 4
#define w_ror(v, n) W(ror)(v, n)
#define w_choose(x, y, z) _mm512_ternarylogic_epi64(x, y, z, 0xca)
#define w_majority(x, y, z) _mm512_ternarylogic_epi64(x, y, z, 0xe8)
#else
#define w_ror(v, n) v_or(W(srli)(v, n), W(slli)(v, WORD_BITS - (n)))
#define w_choose(x, y, z) v_xor(z, v_and(x, v_xor(y, z)))
/* In a hash, x ^ y is the next round's y ^ z, so compilers compute it only once. */
#define w_majority(x, y, z) v_xor(y, v_and(v_xor(x, y), v_xor(y, z)))
#endif
#define w_rol(v, n) w_ror(v, WORD_BITS - (n))

/* Prevents the compiler from reordering additions. */
#if VBLOCKS == 4
#define IN_ORDER(v) __asm__("" : "+v"(v))
#else
#define IN_ORDER(v) __asm__("" : "+x"(v))
#endif

/*
 * Loads 16 bytes of words, starting with word @w, from each lane's block at offset @o, and converts
 * them from big-endian order. Each gathered vector holds 16 bytes from each of VBLOCKS consecutive
 * lanes. AT() numbers the lanes such that words need to be transposed only within 16-byte blocks.
 */
static __always_inline void load_some(vec_t *x, const u8 *const *src, size_t o, const int w)
{
#define GATHERED(n) \
	v_shuffle(gather(src + (n) * VBLOCKS, o + (size_t)w * sizeof(word_t)), SWAP_WORDS)
#if WORD_BITS == 32
	const vec_t a = GATHERED(0), b = GATHERED(1), c = GATHERED(2), d = GATHERED(3);
	const vec_t ab = v_lo32(a, b), cd = v_lo32(c, d);
	const vec_t ab_hi = v_hi32(a, b), cd_hi = v_hi32(c, d);

	x[w] = v_lo64(ab, cd);
	x[w + 1] = v_hi64(ab, cd);
	x[w + 2] = v_lo64(ab_hi, cd_hi);
	x[w + 3] = v_hi64(ab_hi, cd_hi);
#else
	const vec_t a = GATHERED(0), b = GATHERED(1);

	x[w] = v_lo64(a, b);
	x[w + 1] = v_hi64(a, b);
#endif
#undef GATHERED
}

/* Loads the 16 words of each lane's block. */
static __always_inline void load_words(vec_t *x, const u8 *const *src, size_t o)
{
	load_some(x, src, o, 0);
	load_some(x, src, o, 4);
	load_some(x, src, o, 8);
	load_some(x, src, o, 12);
#if WORD_BITS == 64
	load_some(x, src, o, 2);
	load_some(x, src, o, 6);
	load_some(x, src, o, 10);
	load_some(x, src, o, 14);
#endif
}

#endif
