// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CRCs as hashes: the list of implementations.
 */
#include "../list.h"
#include "crc.h"

#include <kiln/unaligned.h>

struct crc_state {
	u32 crc;
};

#define crc32c_seed 0xffffffffu
#define crct10dif_seed 0u

/* F(name, bytes, tier's function, tier, constant-time, driver, priority) */
#define CRC_ALL(F)                                                                    \
	F(crc32c, 4, generic, GENERIC, false, "crc32c-generic", 100)                  \
	F(crc32c, 4, sse42, AESNI, true, "crc32c-sse42-aesni", 200)                   \
	F(crc32c, 4, pclmul, AESNI, true, "crc32c-pclmul-aesni", 400)                 \
	F(crc32c, 4, avx512, VAES_AVX512, true, "crc32c-vaes-avx512", 700)            \
	F(crct10dif, 2, generic, GENERIC, false, "crct10dif-generic", 100)            \
	F(crct10dif, 2, pclmul, AESNI, false, "crct10dif-pclmul-aesni", 400)          \
	F(crct10dif, 2, avx512, VAES_AVX512, false, "crct10dif-vaes-avx512", 700)

static __always_inline void put_crc32c(u32 crc, u8 *out)
{
	put_le32(~crc, out);
}

static __always_inline void put_crct10dif(u32 crc, u8 *out)
{
	out[0] = (u8)crc;
	out[1] = (u8)(crc >> 8);
}

/* Every 32-bit value is a valid state. */
#define crc32c_valid NULL

/* The state must fit in 16 bits: its upper 8 select a row of a table. */
static bool crct10dif_valid(const void *state)
{
	const struct crc_state *s = state;

	return s->crc <= 0xffff;
}

#define CRC(name)                                                                     \
static void name##_init(const void *ctx __maybe_unused, void *state)                  \
{                                                                                     \
	((struct crc_state *)state)->crc = name##_seed;                               \
}                                                                                     \
static void name##_final(const void *ctx __maybe_unused, void *state, u8 *out)        \
{                                                                                     \
	put_##name(((struct crc_state *)state)->crc, out);                            \
}
CRC(crc32c)
CRC(crct10dif)

#define TIER(name, bytes, tier, ...)                                                  \
static void name##_update_##tier(const void *ctx __maybe_unused, void *state,         \
				 const u8 *data, size_t len)                          \
{                                                                                     \
	struct crc_state *s = state;                                                  \
										      \
	s->crc = name##_##tier(s->crc, data, len);                                    \
}                                                                                     \
static void name##_digest_##tier(const void *ctx __maybe_unused, const u8 *data,      \
				 size_t len, u8 *out)                                 \
{                                                                                     \
	put_##name(name##_##tier(name##_seed, data, len), out);                       \
}
CRC_ALL(TIER)

/*
 * Only these depend on the data: the table look-ups of the generic implementations and, for
 * CRC-T10-DIF, the look-up for an odd byte and the test whether the CRC so far is zero.
 */
#define IMPL(name, bytes, tier_name, TIER, ct, driver_name, prio)                     \
	{                                                                             \
		.alg = #name, .driver = driver_name, .kind = KILN_HASH,               \
		.tier = KILN_TIER_##TIER, .priority = prio,                           \
		.constant_time = ct,                                                  \
		.digestsize = bytes, .blocksize = 1,                                  \
		.statesize = sizeof(struct crc_state), .class = KILN_FAST,            \
		.hash = { name##_init, name##_update_##tier_name, name##_final,       \
			  name##_digest_##tier_name, name##_valid },                  \
	},

static const struct kiln_impl impls[] = {
	CRC_ALL(IMPL)
};

KILN_IMPLS(crc_impls, impls);
