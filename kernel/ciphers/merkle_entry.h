/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The entry points of a SIMD tier of SHA-2 or SM3. The including file defines:
 *
 *	MD, MD_NAME(name)	the struct md; the full name of an entry point
 *	word_t		u32 or u64
 *	struct schedule	the message schedule, computed with vector instructions
 *	run(st, s, data, blocks, last, more)	hashes @blocks blocks at @data, then @more at @last
 *	wipe(s, st)	wipes the schedule, and also the state if it can depend on a key
 *	v_end()		VZEROUPPER, before a function returns
 */

void MD_NAME(blocks)(void *state, const u8 *data, size_t blocks)
{
	struct schedule s __aligned(64);
	word_t st[8];

	assert_fpu_section();
	__builtin_memcpy(st, state, sizeof(st));
	run(st, &s, data, blocks, data, 0);
	__builtin_memcpy(state, st, sizeof(st));
	wipe(&s, st);
	v_end();
}

void MD_NAME(end)(const void *state, const u8 *data, size_t len, u64 bytes, u8 *out)
{
	struct schedule s __aligned(64);
	u8 last[2 * MD_MAX_BLOCK] __aligned(64);
	const size_t rest = len % MD.block;
	size_t more;
	word_t st[8];
	u64 h[8];

	assert_fpu_section();
	more = md_pad(&MD, last, data + len - rest, rest, bytes);
	__builtin_memcpy(st, state, sizeof(st));
	run(st, &s, data, len / MD.block, last, more);
	__builtin_memcpy(h, st, sizeof(st));
	md_put_digest(&MD, h, out);
	wipe_words(h, sizeof(st));
	md_wipe(&MD, last, more);
	wipe(&s, st);
	v_end();
}
