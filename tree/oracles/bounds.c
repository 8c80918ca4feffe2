// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Bounds: FPU sections must be short even if a message is long, because nothing else can run on the
 * CPU during a section. The oracle counts sections: for a message of 16 MiB, there must be at least
 * one section per KILN_LIMIT bytes. A driver with fewer sections is reported only if one of the
 * sections lasted long enough to have read its share of the message. Otherwise the sections process
 * something short, such as the IV of essiv, and the message is processed outside of them. The
 * report includes the duration of the longest section.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/hash.h>

#include "kiln/oracle.h"

#define KILN_LIMIT SZ_128K
/* More bytes per nanosecond than one core can stream from its L3 cache or from memory. */
#define KILN_FASTEST 200
/* Space in bytes for associated data and a tag. */
#define MORE 256

extern void (*kiln_before_section)(void);	/* defined in fpu.c */
extern void (*kiln_in_section)(void);
extern void (*kiln_ends_section)(void);

static unsigned long kiln_sections, kiln_few, kiln_many;
static u64 kiln_start, kiln_longest;
static bool kiln_tells;

static void kiln_before(void)
{
	kiln_sections++;
}

static void kiln_begun(void)
{
	kiln_start = ktime_get();
}

/*
 * Reports the violation here, at the end of a section, so that the backtrace contains the function
 * that ends the section.
 */
static void kiln_ends(void)
{
	const u64 ns = ktime_get() - kiln_start;

	kiln_longest = max(kiln_longest, ns);
	if (!kiln_tells)
		return;
	kiln_tells = false;
	if (kiln_many > 2 * kiln_few)
		kiln_violates("long-section", "processes %lu KiB in one section: %lu sections for 16 MiB, the longest of %llu us",
			      (unsigned long)SZ_16M / kiln_many / 1024, kiln_many, kiln_longest / 1000);
	else
		kiln_violates("unbounded-section",
			      "processes a message of any length in one section: %lu sections for 1 MiB, %lu for 16 MiB, the longest of %llu us",
			      kiln_few, kiln_many, kiln_longest / 1000);
}

/*
 * Sets or clears the hooks. They are set only during the request, because setting a key also opens
 * sections.
 */
static void kiln_watch(bool wanted)
{
	kiln_before_section = wanted ? kiln_before : NULL;
	kiln_in_section = wanted ? kiln_begun : NULL;
	kiln_ends_section = wanted ? kiln_ends : NULL;
}

/*
 * Hashes the message with an shash, because an ahash would split the message into pages. The
 * callers of an shash may pass memory of any length.
 */
static int kiln_digest_at_once(struct kiln_subject *s, const u8 *src, unsigned long len, u8 *digest)
{
	struct crypto_shash *tfm = crypto_alloc_shash(s->order->name, 0, 0);
	struct shash_desc *desc;
	int error;

	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	desc = kzalloc(sizeof(*desc) + crypto_shash_descsize(tfm), GFP_KERNEL);
	error = desc ? 0 : -ENOMEM;
	if (!error && s->key)
		error = crypto_shash_setkey(tfm, s->key, s->key_len);
	if (!error) {
		desc->tfm = tfm;
		kiln_watch(true);
		error = crypto_shash_digest(desc, src, len, digest);
		kiln_watch(false);
	}
	kfree(desc);
	crypto_free_shash(tfm);
	return error;
}

static int kiln_ask_watched(struct kiln_subject *s, const struct kiln_call *call)
{
	int error;

	kiln_watch(true);
	error = kiln_ask(s, call);
	kiln_watch(false);
	return error;
}

/*
 * Returns the number of sections that a message of this length takes, or 0 if the driver rejects
 * the message.
 */
static unsigned long kiln_count(struct kiln_subject *s, unsigned long len)
{
	u8 *src = kiln_fence(s->aad + len + MORE, false), *dst = kiln_fence(s->aad + len + MORE, false);
	struct scatterlist from, to;
	u8 iv[64] = { 3 }, digest[128];
	struct kiln_call call = { .src = &from, .dst = &to, .len = len, .aad = s->aad, .iv = iv,
				  .result = digest };

	kiln_sections = 0;
	if (!kiln_tells)
		kiln_longest = 0;
	kiln_case.len = len;
	if (src && dst) {
		/*
		 * RFC 4106 and similar templates read the IV from the end of the associated data.
		 */
		if (s->aad >= s->iv)
			memcpy(src + s->aad - s->iv, iv, s->iv);
		sg_init_one(&from, src, s->aad + len);
		sg_init_one(&to, dst, s->aad + len + s->tag);
		if (s->type == KILN_TYPE_HASH ? kiln_digest_at_once(s, src, len, digest) :
						kiln_ask_watched(s, &call))
			kiln_sections = 0;
	}
	kiln_unfence(dst);
	kiln_unfence(src);
	return kiln_sections;
}

void kiln_examine_bounds(struct kiln_examine *order)
{
	struct kiln_subject s;

	order->error = kiln_subject_open(&s, order);
	if (order->error)
		return;
	kiln_case.op = s.type == KILN_TYPE_HASH ? "digest" : "encrypt";
	kiln_case.layout = "in one piece";
	/*
	 * Skip the longer messages if the driver opens no sections, or if it opens enough sections
	 * for 1 MiB.
	 */
	order->cases++;
	if (kiln_count(&s, 4096)) {
		kiln_few = kiln_count(&s, SZ_1M);
		order->cases++;
		if (kiln_few && kiln_few < SZ_1M / KILN_LIMIT) {
			kiln_many = kiln_count(&s, SZ_16M);
			order->cases++;
			kiln_tells = kiln_many && kiln_many < SZ_16M / KILN_LIMIT &&
				     kiln_longest >= SZ_16M / kiln_many / KILN_FASTEST;
			if (kiln_tells)
				kiln_count(&s, SZ_16M);
			kiln_tells = false;
		}
	}
	kiln_subject_close(&s);
}
