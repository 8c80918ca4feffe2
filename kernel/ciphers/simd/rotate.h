/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Left rotations of 32-bit words for tiers without a rotate instruction. Include this after one of
 * vec_*.h.
 */
#ifndef KILN_SIMD_ROTATE_H
#define KILN_SIMD_ROTATE_H

/* Rotates left by n. A rotation by whole bytes takes one instruction instead of three. */
static __always_inline vec_t v_rol32(vec_t v, const int n)
{
	switch (n) {
	case 8:
		return v_shuffle(v, v_set64(0x0e0d0c0f0a09080b, 0x0605040702010003));
	case 16:
		return v_shuffle(v, v_set64(0x0d0c0f0e09080b0a, 0x0504070601000302));
	case 24:
		return v_shuffle(v, v_set64(0x0c0f0e0d080b0a09, 0x0407060500030201));
	default:
		return v_or(V(slli_epi32)(v, n), V(srli_epi32)(v, 32 - n));
	}
}

#endif
