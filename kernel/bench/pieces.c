// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Passes one message in pieces directly to the functions of an implementation, without the crypto
 * API.
 */
#include <kiln/abi/bench.h>
#include <kiln/abi/cipher.h>
#include <kiln/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

static kiln_crypt_t *crypt_function(const struct kiln_impl *impl, bool decrypt)
{
	const struct kiln_cipher_ops *ops = &impl->cipher;

	if (ops->first)
		return decrypt ? ops->decrypt_piece : ops->encrypt_piece;
	return decrypt ? ops->decrypt : ops->encrypt;
}

u64 kiln_pieces_run(void *arg)
{
	const struct kiln_pieces *p = arg;
	u8 state[KILN_MAX_STATE] __aligned(64);
	u8 iv[KILN_MAX_IV] __aligned(16);
	const u8 *src = p->src, *aad = p->aad;
	u8 *dst = p->dst;
	u32 i;

	if (!kiln_text_fits(p->impl, p->len))
		return -EINVAL;
	memset(state, 0, sizeof(state));
	memset(iv, 0, sizeof(iv));
	if (p->impl->ivsize)
		memcpy(iv, p->iv, p->impl->ivsize);
	/*
	 * Run two more steps than there are pieces: the first step begins the message, and the last
	 * one finishes it.
	 */
	for (i = 0; i < p->pieces + 2; i++) {
		const struct kiln_impl *impl = i % 2 && p->other ? p->other : p->impl;
		const bool simd = impl->tier != KILN_TIER_GENERIC;
		const bool begin = i == 0, end = i == p->pieces + 1;
		const size_t n = begin || end ? 0 : p->piece[i - 1];
		const bool is_aad = !begin && !end && i <= p->aad_pieces;

		if (simd)
			kernel_fpu_begin();
		switch (impl->kind) {
		case KILN_SKCIPHER:
			if (begin && impl->cipher.first)
				impl->cipher.first(p->ctx, iv);
			else if (!begin && !end)
				crypt_function(impl, p->decrypt)(p->ctx, dst, src, n, iv);
			break;
		case KILN_AEAD:
			if (begin)
				impl->aead.begin(p->ctx, state, iv, p->aadlen, p->len,
						 p->tagsize);
			else if (end)
				impl->aead.end(p->ctx, state, p->tag, p->tagsize);
			else if (is_aad)
				impl->aead.aad(p->ctx, state, aad, n);
			else
				(p->decrypt ? impl->aead.decrypt : impl->aead.encrypt)(
					p->ctx, state, dst, src, n);
			break;
		default:
			if (begin)
				impl->hash.init(p->ctx, state);
			else if (end)
				impl->hash.final(p->ctx, state, p->tag);
			else
				impl->hash.update(p->ctx, state, src, n);
		}
		if (simd)
			kernel_fpu_end();
		if (is_aad) {
			aad += n;
		} else {
			src += n;
			dst += n;
		}
	}
	memzero_explicit(state, sizeof(state));
	memzero_explicit(iv, sizeof(iv));
	return 0;
}
