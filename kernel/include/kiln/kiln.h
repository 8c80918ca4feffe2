/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border: every function that crosses from kernel/ to the world around it.
 * crates/kiln-kernel binds this file and nothing else.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/cpufeature.h>
#include <kiln/types.h>

struct xts_key;

/* One implementation of AES-XTS. */
struct kiln_xts_impl {
	const char *driver;	/* "xts-aes-vaes-avx512" */
	u32 tier;		/* enum kiln_tier */
	u32 priority;		/* the usable one with the highest is chosen */
	bool constant_time;
	void (*encrypt)(const struct xts_key *key, u8 *dst, const u8 *src,
			size_t len, const u8 *iv);
	void (*decrypt)(const struct xts_key *key, u8 *dst, const u8 *src,
			size_t len, const u8 *iv);
};

/*
 * A series of calls of one primitive with nothing between them, inside one FPU
 * section, as a caller with a list of messages makes them: message i (of @count,
 * then from the start again until @calls are made) is at src + i * stride, its
 * result goes to dst + i * stride, its IV is iv + 16 * i. With @chained each
 * call's IV is the first 16 bytes of the previous call's output instead, so that
 * no two calls overlap in time.
 */
struct kiln_xts_series {
	const struct xts_key *key;
	u8 *dst;
	const u8 *src;
	const u8 *iv;
	size_t len;
	size_t stride;
	size_t count;
	u64 calls;
	bool decrypt;
	bool chained;
};

/* cpu/feature.c: as the functions of cpufeature.h */
KILN_EXPORT u32 kiln_tiers_present(void);
KILN_EXPORT u32 kiln_tiers(void);
KILN_EXPORT const char *kiln_tier_lacks(u32 tier);
KILN_EXPORT void kiln_tiers_mask(u32 mask);

/* ciphers/xts/xts.c */
KILN_EXPORT size_t kiln_xts_impls(void);
KILN_EXPORT const struct kiln_xts_impl *kiln_xts_impl(size_t i);
KILN_EXPORT size_t kiln_xts_key_size(void);
KILN_EXPORT int kiln_xts_setkey(struct xts_key *key, const u8 *raw, size_t len);
/*
 * One message, in an FPU section of its own if @impl needs one. Return 0, or
 * -EINVAL if @len is under 16, with nothing written.
 */
KILN_EXPORT int kiln_xts_crypt(const struct kiln_xts_impl *impl, bool decrypt,
			       const struct xts_key *key, u8 *dst, const u8 *src,
			       size_t len, const u8 *iv);
KILN_EXPORT void kiln_xts_run(const struct kiln_xts_impl *impl,
			      const struct kiln_xts_series *series);

#endif
