// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls one implementation back to back, like a caller that has a list of messages. The loop is
 * compiled once for each kind of function and each kind of section, so that the overhead between
 * two calls is at most that of such a caller.
 */
#include <kiln/abi/bench.h>
#include <kiln/abi/cipher.h>
#include <kiln/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

#include "evict.h"
#include "lap.h"

enum function { CRYPT, SEAL, OPEN, DIGEST };

/* Pointers to the parts of the current message. */
struct at {
	u8 *dst;
	const u8 *src, *aad;
	u8 *iv, *tag;
};

static __always_inline struct at first(const struct kiln_calls *c)
{
	return (struct at){
		.dst = c->m.dst, .src = c->m.src, .aad = c->aad, .iv = c->m.iv_room, .tag = c->tag,
	};
}

static __always_inline void advance(const struct kiln_calls *c, struct at *at)
{
	at->dst += c->m.dst_stride;
	at->src += c->m.src_stride;
	at->aad += c->aad_stride;
	at->iv += c->m.iv_stride;
	at->tag += c->tag_stride;
}

/* Returns whether the implementation's whole-message functions leave the IV unchanged. */
static bool keeps_iv(const struct kiln_calls *c)
{
	return c->impl->kind == KILN_SKCIPHER && c->impl->cipher.first;
}

static __always_inline void begin_section(const u32 sections)
{
	if (sections == KILN_SECTION_EACH)
		kernel_fpu_begin();
	else if (sections == KILN_SECTION_EACH_UNTIMED)
		kernel_fpu_begin_untimed();
}

static __always_inline void end_section(const u32 sections)
{
	if (sections == KILN_SECTION_EACH)
		kernel_fpu_end();
	else if (sections == KILN_SECTION_EACH_UNTIMED)
		kernel_fpu_end_untimed();
}

/*
 * Calls one function for all messages. @function and @sections are compile-time constants. Returns
 * how many messages failed authentication.
 */
static __always_inline u64 call_function(const struct kiln_calls *c, const enum function function,
					 const u32 sections)
{
	const struct kiln_impl *impl = c->impl;
	kiln_crypt_t *const crypt = c->m.decrypt ? impl->cipher.decrypt : impl->cipher.encrypt;
	kiln_seal_t *const seal = impl->aead.seal;
	kiln_open_t *const open = impl->aead.open;
	void (*const digest)(const void *, const u8 *, size_t, u8 *) = impl->hash.digest;
	const bool copies = function == CRYPT && !keeps_iv(c);
	u64 calls, lap, refused = 0, i;

	for (calls = c->m.calls; calls; calls -= lap) {
		struct at at = first(c);

		lap = count_lap(&c->m, calls);
		if (copies)
			copy_ivs(&c->m, lap);
		for (i = lap; i; i--) {
			begin_section(sections);
			switch (function) {
			case CRYPT:
				crypt(c->ctx, at.dst, at.src, c->m.len, at.iv);
				break;
			case SEAL:
				seal(c->ctx, at.dst, at.src, c->m.len, at.aad, c->aadlen, at.iv,
				     at.tag, c->m.tag);
				break;
			case OPEN:
				refused += open(c->ctx, at.dst, at.src, c->m.len, at.aad, c->aadlen,
						at.iv, at.tag, c->m.tag) != 0;
				break;
			case DIGEST:
				digest(c->ctx, at.src, c->m.len, at.dst);
				break;
			}
			end_section(sections);
			advance(c, &at);
		}
	}
	return refused;
}

/*
 * Processes the messages one after another. The beginning of each result becomes the IV of the next
 * message.
 */
static void crypt_chained(const struct kiln_calls *c)
{
	kiln_crypt_t *const crypt = c->m.decrypt ? c->impl->cipher.decrypt :
						   c->impl->cipher.encrypt;
	const bool kept = keeps_iv(c);
	u8 copy[KILN_MAX_IV] __aligned(16);
	u8 *iv = c->m.iv_room;
	u64 calls, lap, i;

	if (!kept)
		copy_ivs(&c->m, 1);
	for (calls = c->m.calls; calls; calls -= lap) {
		struct at at = first(c);

		lap = count_lap(&c->m, calls);
		for (i = lap; i; i--) {
			crypt(c->ctx, at.dst, at.src, c->m.len, iv);
			iv = at.dst;
			if (!kept) {
				memcpy(copy, at.dst, c->impl->ivsize);
				iv = copy;
			}
			advance(c, &at);
		}
	}
}

union queue {
	struct kiln_message m[KILN_QUEUE];
	struct kiln_aead_message sealed[KILN_QUEUE];
};

static __always_inline void add_to_queue(const struct kiln_calls *c, union queue *queue, size_t k,
					 const struct at *at)
{
	if (c->impl->kind == KILN_AEAD)
		queue->sealed[k] = (struct kiln_aead_message){
			.dst = at->dst, .src = at->src, .len = c->m.len, .aad = at->aad,
			.aadlen = c->aadlen, .iv = at->iv, .tag = at->tag,
		};
	else
		queue->m[k] = (struct kiln_message){
			.dst = at->dst, .src = at->src, .len = c->m.len, .iv = at->iv,
		};
}

/* Processes the queue with one call. Returns how many messages failed authentication. */
static u64 process_queue(const struct kiln_calls *c, const union queue *queue, size_t count)
{
	const struct kiln_impl *impl = c->impl;
	u8 state[KILN_MAX_STATE] __aligned(64);
	int err[KILN_QUEUE];

	switch (impl->kind) {
	case KILN_SKCIPHER:
		impl->cipher.encrypt_many(c->ctx, queue->m, count);
		return 0;
	case KILN_AEAD:
		if (c->m.decrypt)
			return impl->aead.open_many(c->ctx, queue->sealed, count, c->m.tag, err);
		impl->aead.seal_many(c->ctx, queue->sealed, count, c->m.tag);
		return 0;
	default:
		impl->hash.init(c->ctx, state);
		impl->hash.finish_many(c->ctx, state, queue->m, count);
		return 0;
	}
}

/*
 * Processes up to KILN_QUEUE messages per call and refills the queue before each call. Returns how
 * many messages failed authentication.
 */
static u64 call_many(const struct kiln_calls *c)
{
	union queue queue;
	u64 calls, lap, refused = 0, i;
	size_t k = 0;

	for (calls = c->m.calls; calls; calls -= lap) {
		struct at at = first(c);

		lap = count_lap(&c->m, calls);
		if (c->impl->kind == KILN_SKCIPHER)
			copy_ivs(&c->m, lap);
		for (i = lap; i; i--) {
			add_to_queue(c, &queue, k, &at);
			advance(c, &at);
			if (++k < KILN_QUEUE && i > 1)
				continue;
			refused += process_queue(c, &queue, k);
			k = 0;
		}
	}
	return refused;
}

static __always_inline u64 call_kind(const struct kiln_calls *c, const u32 sections)
{
	switch (c->impl->kind) {
	case KILN_SKCIPHER:
		return call_function(c, CRYPT, sections);
	case KILN_AEAD:
		return c->m.decrypt ? call_function(c, OPEN, sections) :
				      call_function(c, SEAL, sections);
	default:
		return call_function(c, DIGEST, sections);
	}
}

static noinline u64 call_in_sections(const struct kiln_calls *c)
{
	return call_kind(c, KILN_SECTION_EACH);
}

static noinline u64 call_in_untimed_sections(const struct kiln_calls *c)
{
	return call_kind(c, KILN_SECTION_EACH_UNTIMED);
}

/* Moves the pointers from the associated data to the text. */
static void skip_prefix(struct kiln_calls *c)
{
	c->m.src += c->m.prefix;
	if (c->impl->kind != KILN_HASH)
		c->m.dst += c->m.prefix;
	/* Functions that do not modify the IV can read it in place. */
	if (c->impl->kind == KILN_AEAD || keeps_iv(c))
		c->m.iv_room = (u8 *)c->m.iv;
}

u64 kiln_calls_run(void *arg)
{
	struct kiln_calls c = *(const struct kiln_calls *)arg;
	const u32 sections = c.impl->tier == KILN_TIER_GENERIC ? KILN_NO_SECTION : c.sections;
	u64 refused = 0;

	if (!kiln_text_fits(c.impl, c.m.len))
		return c.m.calls;
	skip_prefix(&c);
	if (sections == KILN_SECTION_EACH)
		return call_in_sections(&c);
	if (sections == KILN_SECTION_EACH_UNTIMED)
		return call_in_untimed_sections(&c);
	if (sections == KILN_ONE_SECTION)
		kernel_fpu_begin();
	if (c.many)
		refused = call_many(&c);
	else if (c.chained)
		crypt_chained(&c);
	else
		refused = call_kind(&c, KILN_NO_SECTION);
	if (sections == KILN_ONE_SECTION)
		kernel_fpu_end();
	return refused;
}

static void crypt_nothing(const void *ctx __maybe_unused, u8 *dst __maybe_unused,
			  const u8 *src __maybe_unused, size_t len __maybe_unused,
			  u8 *iv __maybe_unused)
{
}

static void seal_nothing(const void *ctx __maybe_unused, u8 *dst __maybe_unused,
			 const u8 *src __maybe_unused, size_t len __maybe_unused,
			 const u8 *aad __maybe_unused, size_t aadlen __maybe_unused,
			 const u8 *iv __maybe_unused, u8 *tag __maybe_unused,
			 size_t tagsize __maybe_unused)
{
}

static int open_nothing(const void *ctx __maybe_unused, u8 *dst __maybe_unused,
			const u8 *src __maybe_unused, size_t len __maybe_unused,
			const u8 *aad __maybe_unused, size_t aadlen __maybe_unused,
			const u8 *iv __maybe_unused, const u8 *tag __maybe_unused,
			size_t tagsize __maybe_unused)
{
	return 0;
}

static void digest_nothing(const void *ctx __maybe_unused, const u8 *src __maybe_unused,
			   size_t len __maybe_unused, u8 *out __maybe_unused)
{
}

static void replace_functions(struct kiln_impl *impl)
{
	switch (impl->kind) {
	case KILN_SKCIPHER:
		impl->cipher.encrypt = impl->cipher.decrypt = crypt_nothing;
		break;
	case KILN_AEAD:
		impl->aead.seal = seal_nothing;
		impl->aead.open = open_nothing;
		break;
	default:
		impl->hash.digest = digest_nothing;
		break;
	}
}

static __always_inline u64 read_tsc_fenced(void)
{
	u32 low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

/* Times one call, including the loop around it. Sets @refused to the return value of the loop. */
static noinline u64 time_call(const struct kiln_calls *c, u64 *refused)
{
	const u64 start = read_tsc_fenced();

	*refused = call_kind(c, KILN_NO_SECTION);
	return read_tsc_fenced() - start;
}

/*
 * Times a call whose data, context, tables and code are in neither the first nor the second level
 * of cache. This loop and its stack are warm: after the eviction, two calls to an empty function
 * load them. The second of these calls takes as long as everything around the real call, so its
 * time is subtracted.
 */
u64 kiln_cold_run(void *arg)
{
	struct kiln_cold *const cold = arg;
	struct kiln_calls c = *cold->calls;
	struct kiln_impl impl = *c.impl, real = impl;
	const bool simd = impl.tier != KILN_TIER_GENERIC;
	u64 refused, around, ticks;

	if (!kiln_text_fits(&impl, c.m.len))
		return 1;
	skip_prefix(&c);
	c.impl = &impl;
	c.m.calls = 1;
	if (c.m.iv_room != c.m.iv)
		copy_ivs(&c.m, 1);
	c.m.iv_stride = 0;
	replace_functions(&impl);
	if (simd)
		kernel_fpu_begin();
	cold->executed = evict_code();
	cold->read = evict_data(cold->memory, cold->lines);
	time_call(&c, &refused);
	around = time_call(&c, &refused);
	impl = real;
	ticks = time_call(&c, &refused);
	if (simd)
		kernel_fpu_end();
	cold->ticks = ticks > around ? ticks - around : 0;
	return refused;
}
