/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CRC-16/T10-DIF with PCLMULQDQ, SSE-encoded. */
#include "../simd/vec_xmm.h"

#define CRC crct10dif_pclmul
#define BY_1 MOVE_16
#define BY_2 MOVE_32
#define BY_3 MOVE_48
#define BY_4 MOVE_64
#define sum_last(v) (v)

#include "crct10dif_simd.h"

/*
 * At from_top + 16 - n: a PSHUFB pattern that moves bytes down by n and fills the top with
 * zeros.
 */
static const u8 from_top[32] __aligned(16) = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

static __always_inline vec_t put_crc(u32 crc, size_t n)
{
	const vec_t top = _mm_slli_si128(_mm_cvtsi32_si128((int)crc), 14);

	return v_shuffle(top, v_load(from_top + 16 - n));
}

/* Loads two overlapping words through general registers. */
static __always_inline vec_t load_first(const u8 *p, size_t n)
{
	u64 hi = 0, lo;

	if (n >= 8) {
		/* The n - 8 bytes that precede the last 8. */
		hi = n == 8 ? 0 : __builtin_bswap64(get_le64(p)) >> 8 * (16 - n);
		lo = __builtin_bswap64(get_le64(p + n - 8));
	} else if (n >= 4) {
		lo = (u64)__builtin_bswap32(get_le32(p)) << 8 * (n - 4) |
		     __builtin_bswap32(get_le32(p + n - 4));
	} else {
		lo = (u64)p[0] << 8 * (n - 1) | (u64)p[n / 2] << 8 * (n - 1 - n / 2) |
		     p[n - 1];
	}
	return _mm_set_epi64x((long long)hi, (long long)lo);
}
