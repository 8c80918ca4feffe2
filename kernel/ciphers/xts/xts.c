// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-XTS: the list of its implementations, and calls of them from outside.
 */
#include "xts.h"

#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

#define IMPL(driver_name, func, tier_name, prio, ct)                       \
	{                                                                  \
		.driver = driver_name, .tier = KILN_TIER_##tier_name,      \
		.priority = prio, .constant_time = ct,                     \
		.encrypt = xts_##func##_encrypt, .decrypt = xts_##func##_decrypt, \
		.encrypt_from = xts_##func##_encrypt_from,                 \
		.decrypt_from = xts_##func##_decrypt_from,                 \
		.first_tweak = xts_##func##_first_tweak,                   \
	}

/* Priorities as Linux 6.12 has them, where it has the like. */
static const struct kiln_xts_impl impls[] = {
	IMPL("xts-aes-generic", generic, GENERIC, 100, false),
	IMPL("xts-aes-fixed-time", fixed_time, GENERIC, 110, true),
	IMPL("xts-aes-aesni", aesni, AESNI, 401, true),
	IMPL("xts-aes-vaes-avx2", vaes_avx2, VAES_AVX2, 600, true),
	IMPL("xts-aes-vaes-avx512", vaes_avx512, VAES_AVX512, 800, true),
};

int xts_setkey(struct xts_key *key, const u8 *raw, size_t len)
{
	if (len != 32 && len != 48 && len != 64)
		return -EINVAL;
	aes_expandkey(&key->data, raw, len / 2);
	aes_expandkey(&key->tweak, raw + len / 2, len / 2);
	return 0;
}

struct tweak {
	u64 lo, hi;
};

/*
 * Times x^n, n from 1 to 56: what is shifted out at the top, v of up to 56 bits, comes back
 * as v * (x^7 + x^2 + x + 1): carryless, of less than 64 bits.
 */
static __always_inline struct tweak times(struct tweak t, const unsigned int n)
{
	const u64 out = t.hi >> (64 - n);

	t.hi = t.hi << n | t.lo >> (64 - n);
	t.lo = t.lo << n ^ out ^ out << 1 ^ out << 2 ^ out << 7;
	return t;
}

static __always_inline struct tweak plus(struct tweak a, struct tweak b)
{
	a.lo ^= b.lo;
	a.hi ^= b.hi;
	return a;
}

/* x^128 is x^7 + x^2 + x + 1, and its 2^k-th power has 2^k times these exponents. */
static struct tweak times_128(struct tweak t)
{
	return plus(plus(times(t, 7), times(t, 2)), plus(times(t, 1), t));
}

static struct tweak times_2048(struct tweak t)
{
	return plus(plus(times(times(t, 56), 56), times(t, 32)), plus(times(t, 16), t));
}

static struct tweak times_16384(struct tweak t)
{
	const struct tweak one = times_128(t), two = times_128(one);
	struct tweak seven = two;
	int i;

	for (i = 2; i < 7; i++)
		seven = times_128(seven);
	return plus(plus(seven, two), plus(one, t));
}

/* A long section's worth of blocks takes a few hundred cycles at most. */
void xts_tweak_advance(u8 tweak[AES_BLOCK_SIZE], size_t blocks)
{
	struct tweak t = { .lo = get_le64(tweak), .hi = get_le64(tweak + 8) };

	for (; blocks >= 16384; blocks -= 16384)
		t = times_16384(t);
	for (; blocks >= 2048; blocks -= 2048)
		t = times_2048(t);
	for (; blocks >= 128; blocks -= 128)
		t = times_128(t);
	for (; blocks >= 56; blocks -= 56)
		t = times(t, 56);
	if (blocks)
		t = times(t, blocks);
	put_le64(t.lo, tweak);
	put_le64(t.hi, tweak + 8);
}

size_t kiln_xts_impls(void)
{
	return ARRAY_SIZE(impls);
}

const struct kiln_xts_impl *kiln_xts_impl(size_t i)
{
	return i < ARRAY_SIZE(impls) ? &impls[i] : NULL;
}

size_t kiln_xts_key_size(void)
{
	return sizeof(struct xts_key);
}

int kiln_xts_setkey(struct xts_key *key, const u8 *raw, size_t len)
{
	return xts_setkey(key, raw, len);
}

static bool needs_section(const struct kiln_xts_impl *impl)
{
	return impl->tier != KILN_TIER_GENERIC;
}

u64 kiln_xts_crypt(void *arg)
{
	const struct kiln_xts_call *c = arg;
	xts_crypt_t *crypt = c->decrypt ? c->impl->decrypt : c->impl->encrypt;

	if (c->len < AES_BLOCK_SIZE)
		return -EINVAL;
	if (needs_section(c->impl))
		kernel_fpu_begin();
	crypt(c->key, c->dst, c->src, c->len, c->iv);
	if (needs_section(c->impl))
		kernel_fpu_end();
	return 0;
}

u64 kiln_xts_run(void *arg)
{
	const struct kiln_xts_series s = *(const struct kiln_xts_series *)arg;
	xts_crypt_t *crypt = s.decrypt ? s.impl->decrypt : s.impl->encrypt;
	const bool simd = needs_section(s.impl);
	const bool around = simd && s.sections == KILN_ONE_SECTION;
	const bool each = simd && s.sections == KILN_SECTION_EACH;
	const bool untimed = simd && s.sections == KILN_SECTION_EACH_UNTIMED;
	const u8 *iv = s.iv;
	size_t offset = 0, i = 0;
	u64 n;

	if (around)
		kernel_fpu_begin();
	for (n = s.calls; n; n--) {
		if (each)
			kernel_fpu_begin();
		else if (untimed)
			kernel_fpu_begin_untimed();
		crypt(s.key, s.dst + offset, s.src + offset, s.len, iv);
		if (each)
			kernel_fpu_end();
		else if (untimed)
			kernel_fpu_end_untimed();
		if (s.chained)
			iv = s.dst + offset;
		else
			iv += AES_BLOCK_SIZE;
		offset += s.stride;
		if (++i == s.count) {
			i = 0;
			offset = 0;
			if (!s.chained)
				iv = s.iv;
		}
	}
	if (around)
		kernel_fpu_end();
	return 0;
}
