// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <immintrin.h>

#include <kiln/fpu.h>

#include "toy.h"

#define TOY(name, operation)                                                          \
void name(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)                \
{                                                                                     \
	const __m128i key = _mm_loadu_si128(ctx);                                     \
	size_t i;                                                                     \
										      \
	(void)iv;                                                                     \
	assert_fpu_section();                                                         \
	for (i = 0; i < len; i += TOY_BLOCK) {                                        \
		const __m128i block = _mm_loadu_si128((const __m128i *)(src + i));    \
										      \
		_mm_storeu_si128((__m128i *)(dst + i), operation(block, key));        \
	}                                                                             \
}
TOY(toy_encrypt_aesni, _mm_add_epi8)
TOY(toy_decrypt_aesni, _mm_sub_epi8)
