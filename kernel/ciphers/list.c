// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * All implementations, and calls of them from outside. Each folder NAME of ciphers/ that has a
 * file NAME.c is a cipher, whose table is NAME_impls; kiln-kbuild lists the folders at build time.
 */
#include "list.h"

#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/string.h>

#define CIPHER(folder) extern const struct kiln_impls folder##_impls;
#include <kiln/generated/ciphers.h>
#undef CIPHER

static const struct {
	const char *folder;
	const struct kiln_impls *impls;
} ciphers[] = {
#define CIPHER(folder) { #folder, &folder##_impls },
#include <kiln/generated/ciphers.h>
#undef CIPHER
};

size_t kiln_impls(void)
{
	size_t n = 0, i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++)
		n += ciphers[i].impls->count;
	return n;
}

const struct kiln_impl *kiln_impl(size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++) {
		if (n < ciphers[i].impls->count)
			return &ciphers[i].impls->impl[n];
		n -= ciphers[i].impls->count;
	}
	return NULL;
}

const char *kiln_impl_folder(const struct kiln_impl *impl)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++) {
		const struct kiln_impls *impls = ciphers[i].impls;

		if (impl >= impls->impl && impl < impls->impl + impls->count)
			return ciphers[i].folder;
	}
	return NULL;
}

static bool needs_section(const struct kiln_impl *impl)
{
	return impl->tier != KILN_TIER_GENERIC;
}

/* A message of a series. */
struct message {
	u8 *dst;
	const u8 *src, *iv, *aad;
	u8 *tag;
};

static __always_inline int call(const struct kiln_series *s, const struct message *m)
{
	const struct kiln_impl *impl = s->impl;
	u8 iv[KILN_MAX_IV] __aligned(16);

	switch (impl->kind) {
	case KILN_SKCIPHER:
		/* The function leaves another IV than it found. */
		memcpy(iv, m->iv, impl->ivsize);
		(s->decrypt ? impl->cipher.decrypt : impl->cipher.encrypt)(
			s->ctx, m->dst, m->src, s->len, iv);
		return 0;
	case KILN_AEAD:
		if (s->decrypt)
			return impl->aead.open(s->ctx, m->dst, m->src, s->len, m->aad,
					       s->aadlen, m->iv, m->tag, s->tagsize);
		impl->aead.seal(s->ctx, m->dst, m->src, s->len, m->aad, s->aadlen,
				m->iv, m->tag, s->tagsize);
		return 0;
	default:
		impl->hash.digest(s->ctx, m->src, s->len, m->tag);
		return 0;
	}
}

u64 kiln_impl_series(void *arg)
{
	struct kiln_series *const out = arg;
	const struct kiln_series s = *out;
	const bool simd = needs_section(s.impl);
	const bool around = simd && s.sections == KILN_ONE_SECTION;
	const bool each = simd && s.sections == KILN_SECTION_EACH;
	const bool untimed = simd && s.sections == KILN_SECTION_EACH_UNTIMED;
	const struct message first = {
		.dst = s.dst, .src = s.src, .iv = s.iv, .aad = s.aad, .tag = s.tag,
	};
	struct message m = first;
	u64 n, refused = 0;
	size_t i = 0;

	if (!kiln_text_fits(s.impl, s.len)) {
		out->refused = s.calls;
		return s.calls;
	}
	if (around)
		kernel_fpu_begin();
	for (n = s.calls; n; n--) {
		if (each)
			kernel_fpu_begin();
		else if (untimed)
			kernel_fpu_begin_untimed();
		refused += call(&s, &m) != 0;
		if (each)
			kernel_fpu_end();
		else if (untimed)
			kernel_fpu_end_untimed();
		m.dst += s.stride;
		m.src += s.stride;
		m.iv += s.impl->ivsize;
		m.aad += s.aadlen;
		m.tag += s.tag_stride;
		if (++i == s.count) {
			i = 0;
			m = first;
		}
	}
	if (around)
		kernel_fpu_end();
	out->refused = refused;
	return refused;
}

static kiln_crypt_t *piece_of(const struct kiln_impl *impl, bool decrypt)
{
	const struct kiln_cipher_ops *ops = &impl->cipher;

	if (ops->first)
		return decrypt ? ops->decrypt_piece : ops->encrypt_piece;
	return decrypt ? ops->decrypt : ops->encrypt;
}

/* Piece by piece, in the sections of whoever does it. */
u64 kiln_impl_pieces(void *arg)
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
	/* The first step is the beginning, the last one the end. */
	for (i = 0; i < p->pieces + 2; i++) {
		const struct kiln_impl *impl = i % 2 && p->other ? p->other : p->impl;
		const bool begin = i == 0, end = i == p->pieces + 1;
		const size_t n = begin || end ? 0 : p->piece[i - 1];
		const bool of_aad = !begin && !end && i <= p->aad_pieces;

		if (needs_section(impl))
			kernel_fpu_begin();
		switch (impl->kind) {
		case KILN_SKCIPHER:
			if (begin && impl->cipher.first)
				impl->cipher.first(p->ctx, iv);
			else if (!begin && !end)
				piece_of(impl, p->decrypt)(p->ctx, dst, src, n, iv);
			break;
		case KILN_AEAD:
			if (begin)
				impl->aead.begin(p->ctx, state, iv, p->aadlen, p->len,
						 p->tagsize);
			else if (end)
				impl->aead.end(p->ctx, state, p->tag, p->tagsize);
			else if (of_aad)
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
		if (needs_section(impl))
			kernel_fpu_end();
		if (of_aad) {
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
