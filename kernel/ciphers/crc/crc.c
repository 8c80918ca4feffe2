// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CRCs as hashes: the list of implementations.
 */
#include "../list.h"
#include "crc.h"

/* Every 32-bit value is a valid state, so no check is needed. */
#define crc32c_valid NULL

/* The upper byte of the CRC is used as a table index, so a valid state must fit in 16 bits. */
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

/*
 * @ct is false if the running time depends on the data. Generic implementations use table look-ups.
 * All implementations of CRC-T10-DIF process an odd byte by table look-up and test whether the CRC
 * so far is zero.
 */
#define IMPL(name, bytes, tier_name, TIER, ct, driver_name, prio)                     \
	{                                                                             \
		.alg = #name, .driver = driver_name, .kind = KILN_HASH,               \
		.tier = KILN_TIER_##TIER, .priority = prio,                           \
		.constant_time = ct,                                                  \
		.digestsize = bytes, .blocksize = 1,                                  \
		.statesize = sizeof(struct crc_state), .class = KILN_FAST,            \
		.hash = { .init = name##_init, .update = name##_update_##tier_name,   \
			  .final = name##_final, .digest = name##_digest_##tier_name, \
			  .valid = name##_valid },                                    \
	},

static const struct kiln_impl impls[] = {
	CRC_ALL(IMPL)
};

KILN_IMPLS(crc_impls, impls);
