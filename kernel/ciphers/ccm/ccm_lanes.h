/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CCM of several messages at a time (RFC 3610, SP 800-38C): the second part of the template in
 * ccm_simd.h.
 *
 * CBC-MAC, which is serial within a message, runs in lanes, one message per lane. CTR mode is
 * parallel within a message, so a separate pass handles it: before the MAC when decrypting, after
 * it when encrypting. Two passes are simpler than one, because a lane's MAC begins with blocks that
 * CTR does not process, and ends with a padded block.
 *
 * Limits on Zen 5 with AVX-512, AES-256: the MAC and CTR each need 14 AES instructions per vector
 * of 64 bytes, which take 7 cycles, or 0.1094 cycles per byte. Together they take 0.219 cycles per
 * byte. Each message adds at least 14 AES instructions for the mask of its tag. Each MAC block that
 * precedes the text takes one step of 56 cycles. Since 32 lanes share the step, such a block adds
 * about 2 cycles to a message.
 */
#include <kiln/string.h>

#include "../modes/modes.h"
#include "../simd/cbc_lanes.h"
#include "../lanes.h"
#include "ccm_blocks.h"

/*
 * A lane's head holds B_0 and up to two blocks of encoded associated data. These have room for 30
 * bytes of associated data, which is enough for IPsec, TLS and IEEE 802.11. Any associated data
 * beyond that is read from @aad in further runs.
 */
#define HEAD (3 * AES_BLOCK_SIZE)
#define HEAD_AAD (HEAD - AES_BLOCK_SIZE)

struct lanes {
	u8 chain[LANES][AES_BLOCK_SIZE] __aligned(64);
	u8 head[LANES][HEAD] __aligned(64);	/* the first blocks, later a padded block */
	u32 now[LANES];				/* index of the lane's message */
	const struct kiln_aead_message *m;
	const struct aes_key *key;
	size_t tagsize, wrong;
	int *err;				/* NULL when encrypting */
	struct runs r;
};

CBC_LANES(mac_lanes, EACH_8, CBC_DROP)

static inline void begin_message(void *lanes, u32 i, const void *state __maybe_unused, size_t n)
{
	struct lanes *const l = lanes;
	const struct kiln_aead_message *const m = &l->m[n];
	u8 *const head = l->head[i];
	u8 a0[AES_BLOCK_SIZE], ctr[AES_BLOCK_SIZE];
	size_t blocks, taken;

	l->now[i] = n;
	if (l->err) {
		counters(a0, ctr, m->iv);
		CCM_CTR(l->key, m->dst, m->src, m->len, ctr);
	}
	if (m->aadlen <= HEAD_AAD - 2) {
		blocks = first_blocks(head, m->iv, m->aad, m->aadlen, m->len, l->tagsize);
		taken = m->aadlen;
	} else {
		first_block(head, m->iv, m->aadlen, m->len, l->tagsize);
		taken = HEAD_AAD - aad_length(head + AES_BLOCK_SIZE, m->aadlen);
		memcpy(head + HEAD - taken, m->aad, taken);
		blocks = HEAD / AES_BLOCK_SIZE;
	}
	store1(l->chain[i], _mm_setzero_si128());
	l->r.text[i] = m->aad + taken;
	l->r.len[i] = m->aadlen - taken;
	begin_run(&l->r, i, STAGE_AAD, head, blocks);
}

/* Compares the tag when decrypting. When encrypting, writes the tag and encrypts the text. */
static __always_inline void end_message(struct lanes *l, u32 i)
{
	const struct kiln_aead_message *const m = &l->m[l->now[i]];
	u8 a0[AES_BLOCK_SIZE], ctr[AES_BLOCK_SIZE], tag[AES_BLOCK_SIZE];
	int err;

	counters(a0, ctr, m->iv);
	store1(tag, _mm_xor_si128(encrypt1(l->key, load_halves(a0)), load1(l->chain[i])));
	if (l->err) {
		err = verdict(tag, m->tag, l->tagsize, m->dst, m->len);
		l->err[l->now[i]] = err;
		l->wrong += err != 0;
	} else {
		memcpy(m->tag, tag, l->tagsize);
		CCM_CTR(l->key, m->dst, m->src, m->len, ctr);
	}
}

static inline void next_run(void *lanes, u32 i)
{
	struct lanes *const l = lanes;
	struct runs *const r = &l->r;
	const struct kiln_aead_message *const m = &l->m[l->now[i]];

	if (!r->len[i]) {
		if (r->stage[i] == STAGE_TEXT || !m->len) {
			end_message(l, i);
			r->stage[i] = STAGE_IDLE;
			return;
		}
		r->stage[i] = STAGE_TEXT;
		r->text[i] = l->err ? m->dst : m->src;
		r->len[i] = m->len;
	}
	if (r->len[i] >= AES_BLOCK_SIZE) {
		begin_blocks(r, i, r->stage[i], r->len[i] / AES_BLOCK_SIZE, AES_BLOCK_SIZE);
		return;
	}
	store1(l->head[i], load_part(r->text[i], r->len[i]));
	r->len[i] = 0;
	begin_run(r, i, r->stage[i], l->head[i], 1);
}

static inline void run_blocks(void *lanes, size_t blocks)
{
	struct lanes *const l = lanes;

	mac_lanes(l->key, l->chain, l->r.src, NULL, blocks * AES_BLOCK_SIZE);
}

static noinline size_t crypt_messages(const struct aes_key *key, const struct kiln_aead_message *m,
				      size_t count, size_t tagsize, int *err)
{
	static const struct lane_ops ops = { begin_message, next_run, run_blocks,
					     AES_BLOCK_SIZE };
	struct lanes l;

	l.m = m;
	l.key = key;
	l.tagsize = tagsize;
	l.wrong = 0;
	l.err = err;
	memset(l.chain, 0, sizeof(l.chain));
	process_messages(&ops, &l, &l.r, NULL, count);
	wipe_words(l.chain, sizeof(l.chain));
	wipe_words(l.head, sizeof(l.head));
	v_end();
	return l.wrong;
}

void CCM(seal_many)(const void *ctx, const struct kiln_aead_message *m, size_t count,
		    size_t tagsize)
{
	assert_fpu_section();
	crypt_messages(ctx, m, count, tagsize, NULL);
}

size_t CCM(open_many)(const void *ctx, const struct kiln_aead_message *m, size_t count,
		      size_t tagsize, int *err)
{
	assert_fpu_section();
	return crypt_messages(ctx, m, count, tagsize, err);
}
