/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Cyclic redundancy checks: CRC-32C (RFC 3720, 12.1; least significant bit first, initial value and
 * final XOR all ones) and CRC-16/T10-DIF (SBC-3, 4.22.4; most significant bit first, initial value
 * zero). The digest is the CRC as a little-endian number, as in Linux's shashes.
 *
 * crc.c			the table of implementations
 * table.h			look-up tables for the generic tiers, computed by the compiler
 * crc32c_TIER.c, crct10dif_TIER.c	pieces and whole messages
 * crc32c_stream.h		CRC-32C with the CRC32 instruction, for the SIMD tiers
 * crct10dif_simd.h		the template of the SIMD tiers of CRC-16/T10-DIF
 * fold.h				folding of vectors
 *
 * The CRC of a short message takes only a few cycles, so every additional call matters. Each tier's
 * file therefore defines its own update and digest functions, with the code for short messages
 * inlined, so that a digest is a single call.
 */
#ifndef KILN_CRC_H
#define KILN_CRC_H

#include <kiln/types.h>
#include <kiln/unaligned.h>

struct crc_state {
	u32 crc;
};

#define crc32c_seed 0xffffffffu
#define crct10dif_seed 0u

static __always_inline void put_crc32c(u32 crc, u8 *out)
{
	put_le32(~crc, out);
}

static __always_inline void put_crct10dif(u32 crc, u8 *out)
{
	out[0] = (u8)crc;
	out[1] = (u8)(crc >> 8);
}

/*
 * Calls F once for each tier, with these arguments: name of the algorithm, digest size in bytes,
 * suffix of function names, tier, whether the tier is constant-time, driver name, priority.
 */
#define CRC_ALL(F)                                                                    \
	F(crc32c, 4, generic, GENERIC, false, "crc32c-generic", 100)                  \
	F(crc32c, 4, sse42, AESNI, true, "crc32c-sse42-aesni", 200)                   \
	F(crc32c, 4, pclmul, AESNI, true, "crc32c-pclmul-aesni", 400)                 \
	F(crc32c, 4, avx512, VAES_AVX512, true, "crc32c-vaes-avx512", 700)            \
	F(crct10dif, 2, generic, GENERIC, false, "crct10dif-generic", 100)            \
	F(crct10dif, 2, pclmul, AESNI, false, "crct10dif-pclmul-aesni", 400)          \
	F(crct10dif, 2, avx512, VAES_AVX512, false, "crct10dif-vaes-avx512", 700)

#define CRC_DECLARE(name, bytes, tier, ...)                                           \
void name##_update_##tier(const void *ctx, void *state, const u8 *data, size_t len);  \
void name##_digest_##tier(const void *ctx, const u8 *data, size_t len, u8 *out);
CRC_ALL(CRC_DECLARE)

/*
 * Defines the update and digest functions of a tier. add(crc, data, len) returns the CRC after @len
 * more bytes; neither @crc nor the result is inverted.
 */
#define CRC_ENTRIES(name, tier, add)                                                  \
CRC_UPDATE(name, tier, add)                                                           \
CRC_DIGEST(name, tier, add)
#define CRC_UPDATE(name, tier, add)                                                   \
void name##_update_##tier(const void *ctx __maybe_unused, void *state,                \
			  const u8 *data, size_t len)                                 \
{                                                                                     \
	struct crc_state *s = state;                                                  \
										      \
	s->crc = add(s->crc, data, len);                                              \
}
#define CRC_DIGEST(name, tier, add)                                                   \
void name##_digest_##tier(const void *ctx __maybe_unused, const u8 *data,             \
			  size_t len, u8 *out)                                        \
{                                                                                     \
	put_##name(add(name##_seed, data, len), out);                                 \
}

/* Adds one byte by table look-up. The SIMD tiers use this function for an odd byte. */
u32 crct10dif_byte(u32 crc, u8 byte);

#endif
