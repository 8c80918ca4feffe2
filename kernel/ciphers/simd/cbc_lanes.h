/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CBC with one message per 16-byte lane and one key for all lanes: the loop that CBC encryption and
 * CBC-MAC share.
 *
 * Within one message, each block waits for all rounds of the previous block, four cycles per round,
 * and the AES unit is idle for seven eighths of the time. Eight vectors keep it busy. Each 16-byte
 * lane of these vectors processes a different message.
 *
 * All messages have the same key, like the packets of one IPsec SA or the sectors of one disk, so
 * one vector per round key serves all lanes. If the lanes had different keys, each of the up to 15
 * round-key vectors would have to be assembled from several keys.
 */
#ifndef KILN_SIMD_CBC_LANES_H
#define KILN_SIMD_CBC_LANES_H

#include "gather.h"
#include "rounds.h"

#define LANES (8 * VBLOCKS)

/*
 * All sources are read before any result is written, because unused lanes repeat another lane's
 * message, which may be processed in place.
 */
#define CHAIN_IN(j) d##j = v_load(chain[j * VBLOCKS]);
#define CHAIN_OUT(j) v_store(chain[j * VBLOCKS], d##j);
#define ADD(j) d##j = v_xor3(d##j, gather(src + j * VBLOCKS, o), k0);
#define FINISH(j) d##j = v_enclast(d##j, k);
#define SCATTER(j) scatter(dst + j * VBLOCKS, o, d##j);

/*
 * CBC_STORE stores the ciphertext at @dst, and CBC_DROP discards it. In either case, @chain
 * receives the last ciphertext block of each lane.
 */
#define CBC_STORE(EACH) EACH(SCATTER)
#define CBC_DROP(EACH) (void)dst;

#define CBC_LANES(name, EACH, STORE)                                                  \
static noinline void name(const struct aes_key *key, u8 (*chain)[AES_BLOCK_SIZE],     \
			  const u8 *const *src, u8 *const *dst, size_t bytes)         \
{                                                                                     \
	const bool decrypt = false, wide = false;                                     \
	const u32 rounds = key->rounds;                                               \
	const vec_t k0 = v_key(key->enc[0]), k = v_key(key->enc[rounds]);             \
	u8 *keep = NULL;                                                              \
	size_t o;                                                                     \
	EACH(DECLARE)                                                                 \
										      \
	EACH(CHAIN_IN)                                                                \
	for (o = 0; o < bytes; o += AES_BLOCK_SIZE) {                                 \
		const u8 *rk = key->enc[0];                                           \
										      \
		EACH(ADD)                                                             \
		ROUNDS(EACH, NO_STEP);                                                \
		EACH(FINISH)                                                          \
		STORE(EACH)                                                           \
	}                                                                             \
	EACH(CHAIN_OUT)                                                               \
}

#endif
