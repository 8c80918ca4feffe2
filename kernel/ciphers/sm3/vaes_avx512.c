/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SM3 with AVX-512, where rotations and three-term XORs are single instructions. */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sm3_##name##_avx512

#define v_rol(v, n) _mm256_rol_epi32(v, n)
#define v_p1(x) v_xor3(x, v_rol(x, 15), v_rol(x, 23))
#define v_zero_64(p) _mm512_store_si512(p, _mm512_setzero_si512())

#include "sm3_simd.h"
