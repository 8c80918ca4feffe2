// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calibration at startup: measures how fast each implementation is, which implementation of an
 * algorithm is the fastest, and how long a message must be for SIMD code to be worth an FPU
 * section.
 *
 * Disturbances (an interrupt, an SMI, preemption by the host) can only lengthen a run, so the
 * shortest of several runs counts. Each round runs every implementation once, so that a long
 * disturbance affects one run each of many implementations instead of many runs of one
 * implementation. Implementations whose two shortest runs still differ get more rounds.
 */
#include <kiln/budget.h>
#include <kiln/cpu.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

enum {
	ROUNDS = 8,		/* minimum number of rounds per implementation */
	MORE_ROUNDS = 24,	/* maximum for an implementation whose two shortest runs differ */
	ALL_ROUNDS = 40,	/* maximum number of rounds in total */
	APART = 32,		/* a round with fewer runs than this ends with a pause */
	AGREE = 64,		/* two times agree if they differ by at most 1/AGREE */
	FAR = 64 * 1024,	/* maximum message length of a long run, in bytes */
	FAR_NS = 3000,		/* approximate duration of a long run in nanoseconds */
	CHAIN = 400,		/* dependent multiplications, timed to find the clock speed */
	CHAIN_RUNS = 16,
	CHANGED = 20,		/* recalibrate if the clock speed differs by over 1/CHANGED */
	SHORT_CALLS = 4,	/* calls per run in the search for min_bytes */
	SHORT_RUNS = 8,
	SHORT_MOST = 2048,	/* longest message in bytes in the search for min_bytes */
	ROUND_TRIP = 4096,	/* message length in bytes at which implementations are compared */
	AAD = 16,
};

/* Buffers for keys, messages and results. The host allocates this memory. */
struct room {
	u8 ctx[KILN_MAX_CTX] __aligned(64);
	u8 key[KILN_MAX_CTX];
	u8 iv[KILN_MAX_IV * SHORT_CALLS];
	u8 iv_room[KILN_MAX_IV * SHORT_CALLS];
	u8 aad[AAD * SHORT_CALLS];
	u8 tag[KILN_MAX_DIGEST * SHORT_CALLS];
	u8 plain[FAR] __aligned(64);
	u8 sealed[FAR] __aligned(64);
};

_Static_assert(sizeof(struct room) <= KILN_CALIBRATION_BYTES, "the host's memory is enough");

/* The two shortest times of one measurement. */
struct best {
	u64 first, second;
};

/*
 * The times of one implementation in one direction. @near is the time of a call that processes one
 * granule, and @far the time of a call that processes @far_bytes.
 */
struct subject {
	struct best near, far;
	u32 far_bytes;
	u32 rounds;		/* rounds since @far_bytes was last changed */
};

static struct subject subjects[KILN_MAX_IMPLS][2];
static u64 chain_at_start;
/*
 * Total length of the pauses, counted in runs. Tests plant stalls by run number, and a pause must
 * advance this number as much as the runs that it replaces.
 */
static u32 idle_runs;

static void keep(struct best *b, u64 took)
{
	if (took < b->first) {
		b->second = b->first;
		b->first = took;
	} else if (took < b->second) {
		b->second = took;
	}
}

static bool agree(const struct best *b)
{
	return b->second - b->first <= b->first / AGREE;
}

u64 kiln_budget_chain(u64 n)
{
	u64 best = ~0ull, i, k, x = 3;

	for (i = 0; i < CHAIN_RUNS; i++) {
		const u64 start = rdtsc();

		for (k = n; k; k--)
			__asm__ volatile("imulq %0, %0" : "+r"(x));
		k = rdtsc() - start;
		best = k < best ? k : best;
	}
	return best;
}

static u64 chain_now(const struct kiln_calibration *c)
{
	return c->chain ? c->chain : kiln_budget_chain(CHAIN);
}

static u32 number_of(const struct kiln_impl *wanted)
{
	const struct kiln_impl *impl;
	u32 i;

	for (i = 0; (impl = kiln_impl(i)) && impl != wanted; i++)
		;
	return i;
}

/* Returns the ticks that @calls consecutive calls take, each in its own FPU section. */
static u64 time_calls(struct kiln_calibration *c, const struct kiln_impl *impl, bool decrypt,
		 u32 len, u32 calls)
{
	struct room *room = (struct room *)c->memory;
	struct kiln_calls all = {
		.impl = impl,
		.ctx = room->ctx,
		.m = {
			.dst = decrypt ? room->plain : room->sealed,
			.src = decrypt ? room->sealed : room->plain,
			.iv = room->iv,
			.iv_room = room->iv_room,
			.iv_stride = impl->ivsize,
			.len = len,
			.tag = impl->digestsize,
			.count = calls,
			.calls = calls,
			.decrypt = decrypt,
		},
		.aad = room->aad,
		.tag = room->tag,
		.aadlen = AAD,
		.aad_stride = AAD,
		.sections = KILN_SECTION_EACH_UNTIMED,
	};
	const u64 stall = c->nr_stalls ? c->stalls[(c->runs + idle_runs) % c->nr_stalls] : 0;
	u64 start;

	c->runs++;
	if (c->rates)
		return 64 + (c->rates[number_of(impl)] * len * calls >> 16) + stall;
	start = rdtsc();
	kiln_calls_run(&all);
	return rdtsc() - start + stall;
}

/*
 * Sets a key of the maximum length, which is the slowest for ciphers and makes no difference to
 * HMAC. The two halves of a key for xts(aes) must differ, so fill() uses random bytes.
 */
static void set_key(struct kiln_calibration *c, const struct kiln_impl *impl)
{
	struct room *room = (struct room *)c->memory;

	if (impl->setkey && !c->rates)
		impl->setkey(room->ctx, room->key,
			     impl->key_max == KILN_ANY_KEY ? impl->key_min : impl->key_max);
}

static u32 near_bytes(const struct kiln_impl *impl)
{
	struct kiln_budget b;

	kiln_budget_get(impl, &b);
	return b.granule;
}

static void forget(struct best *b)
{
	b->first = b->second = ~0ull;
}

/* Finds the length, in whole granules, of a message that takes clearly longer than one granule. */
static void find_far(struct kiln_calibration *c, u32 i, bool decrypt)
{
	const struct kiln_impl *impl = kiln_impl(i);
	const u32 near = near_bytes(impl);
	struct subject *s = &subjects[i][decrypt];

	forget(&s->near);
	forget(&s->far);
	s->rounds = 0;
	for (s->far_bytes = 8 * near; s->far_bytes <= FAR / 2; s->far_bytes *= 2)
		if (time_calls(c, impl, decrypt, s->far_bytes, 1) >= c->enough)
			break;
}

/* Returns whether find_far() chose too short a length because a stall made one run seem long. */
static bool was_too_short(const struct kiln_calibration *c, const struct subject *s)
{
	return s->rounds >= 2 && s->far.first < c->enough - c->enough / 4 &&
	       s->far_bytes <= FAR / 2;
}

static bool is_done(const struct subject *s)
{
	return s->rounds >= MORE_ROUNDS ||
	       (s->rounds >= ROUNDS && agree(&s->near) && agree(&s->far));
}

/* Times one call. For AEAD decryption, the message is first sealed so that its tag is valid. */
static u64 time_with_tag(struct kiln_calibration *c, const struct kiln_impl *impl, bool decrypt,
			 u32 len)
{
	struct room *room = (struct room *)c->memory;

	if (decrypt && impl->kind == KILN_AEAD && !c->rates) {
		kernel_fpu_begin_untimed();
		impl->aead.seal(room->ctx, room->sealed, room->plain, len, room->aad, AAD,
				room->iv, room->tag, impl->digestsize);
		kernel_fpu_end_untimed();
	}
	return time_calls(c, impl, decrypt, len, 1);
}

static void make_run(struct kiln_calibration *c, u32 i, bool decrypt)
{
	const struct kiln_impl *impl = kiln_impl(i);
	struct subject *s = &subjects[i][decrypt];

	if (was_too_short(c, s)) {
		s->far_bytes *= 2;
		forget(&s->far);
		s->rounds = 0;
	}
	s->rounds++;
	keep(&s->far, time_with_tag(c, impl, decrypt, s->far_bytes));
	keep(&s->near, time_with_tag(c, impl, decrypt, near_bytes(impl)));
}

static bool usable(const struct kiln_calibration *c, const struct kiln_impl *impl)
{
	return c->rates || cpu_tiers() & 1u << impl->tier;
}

static u32 directions(const struct kiln_impl *impl)
{
	return impl->kind == KILN_HASH ? 1 : 2;
}

static void settle(u32 i)
{
	const struct kiln_impl *impl = kiln_impl(i);
	struct fpu_budget *b = fpu_budget_of(impl);
	const u32 near = near_bytes(impl);
	u32 d;

	for (d = 0; d < 2; d++) {
		const struct subject *s = &subjects[i][d < directions(impl) ? d : 0];
		const u64 more = s->far.first > s->near.first ? s->far.first - s->near.first : 0;
		const u64 rate = (more << 16) / (s->far_bytes - near);
		const u64 of_near = rate * near >> 16;

		b[d].rate = rate ? rate : 1;
		b[d].start = s->near.first > of_near ? s->near.first - of_near : 0;
	}
}

/* Returns the estimated ticks for ROUND_TRIP bytes. Implementations are compared by this value. */
static u64 trip(u32 i)
{
	const struct fpu_budget *b = fpu_budget_of(kiln_impl(i));

	return b->start + (b->rate * ROUND_TRIP >> 16);
}

/*
 * Chooses the fastest implementation of the algorithm that implementation @i belongs to. If the
 * implementation with the highest priority is constant-time, only constant-time implementations are
 * considered. If the fastest one leads by less than a thirtieth, the one with the highest priority
 * is chosen instead.
 */
static void choose(const struct kiln_calibration *c, u32 i)
{
	const struct kiln_impl *top = kiln_impl(i), *impl;
	u32 k, at = i, by_priority = i;

	for (k = i; (impl = kiln_impl(k)); k++) {
		if (streq(impl->alg, top->alg) && usable(c, impl) &&
		    impl->priority > top->priority) {
			top = impl;
			by_priority = k;
		}
	}
	at = by_priority;
	for (k = i; (impl = kiln_impl(k)); k++) {
		if (streq(impl->alg, top->alg) && usable(c, impl) &&
		    impl->constant_time >= top->constant_time && trip(k) < trip(at))
			at = k;
	}
	if (trip(by_priority) - trip(at) < trip(at) / 30)
		at = by_priority;
	fpu_fastest_set(kiln_impl(at));
}

static u32 first_of(const char *alg)
{
	const struct kiln_impl *impl;
	u32 i;

	for (i = 0; (impl = kiln_impl(i)); i++)
		if (streq(impl->alg, alg))
			return i;
	return 0;
}

static void find_min_bytes(struct kiln_calibration *c, u32 i)
{
	const struct kiln_impl *impl = kiln_impl(i), *scalar = kiln_best_scalar(impl->alg);
	u32 *const min_bytes = fpu_min_bytes_of(impl);
	u32 len, n;

	/* Code that is not constant-time must not replace constant-time code. */
	if (impl->tier == KILN_TIER_GENERIC || !scalar || !scalar->constant_time)
		return;
	for (len = impl->blocksize > 16 ? impl->blocksize : 16; len <= SHORT_MOST; len *= 2) {
		u64 with = ~0ull, without = ~0ull, took;

		for (n = 0; n < SHORT_RUNS; n++) {
			took = time_calls(c, impl, false, len, SHORT_CALLS);
			with = took < with ? took : with;
			took = time_calls(c, scalar, false, len, SHORT_CALLS);
			without = took < without ? took : without;
		}
		if (with <= without)
			return;
		*min_bytes = len + 1;
	}
}

/* Returns how many TSC ticks it takes to read and write each cache line of @plain once. */
static u64 touch(struct room *room)
{
	const u64 start = rdtsc();
	u32 i;

	for (i = 0; i < FAR; i += 64)
		__asm__ volatile("addq $1, %0" : "+m"(room->plain[i]) : : "cc");
	__asm__ volatile("mfence" : : : "memory");
	return rdtsc() - start;
}

/* Returns the extra ticks for reading and writing 65536 bytes that are not in any cache. */
static u64 miss_rate(struct kiln_calibration *c)
{
	struct room *room = (struct room *)c->memory;
	u64 cold = ~0ull, warm = ~0ull, took;
	u32 n, i;

	for (n = 0; n < 8; n++) {
		for (i = 0; i < FAR; i += 64)
			__asm__ volatile("clflush %0" : "+m"(room->plain[i]));
		__asm__ volatile("mfence" : : : "memory");
		took = touch(room);
		cold = took < cold ? took : cold;
		took = touch(room);
		warm = took < warm ? took : warm;
	}
	/* touch() processes FAR bytes, so scale the difference to 65536 bytes. */
	return cold > warm ? (cold - warm) * (65536 / FAR) : 0;
}

static void fill(struct room *room)
{
	u64 x = 0x9e3779b97f4a7c15;
	u8 *const at = (u8 *)room;
	size_t i;

	for (i = 0; i < sizeof(*room); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at[i] = x >> 32;
	}
	/*
	 * The first byte of a CCM IV is L - 1, where L is the width of the length field in bytes.
	 * Here, L is 4.
	 */
	for (i = 0; i < sizeof(room->iv); i++)
		room->iv[i] = 3;
}

/*
 * Pauses after a short round. Only a few implementations are left in the last rounds, and without
 * the pauses, a single long stall, such as an SMI, could affect several runs of each of them.
 */
static void pause_after_round(struct kiln_calibration *c, u32 first_run)
{
	const u32 made = c->runs - first_run;
	const u64 start = rdtsc();

	if (made >= APART)
		return;
	while (!c->rates && rdtsc() - start < (APART - made) * c->enough)
		__asm__ volatile("pause");
	idle_runs += APART - made;
}

static void all_rounds(struct kiln_calibration *c)
{
	u32 round, i, d;
	bool again = true;

	for (round = 0; round < ALL_ROUNDS && again; round++) {
		const u32 first_run = c->runs;

		again = false;
		for (i = 0; kiln_impl(i); i++) {
			const struct kiln_impl *impl = kiln_impl(i);
			bool keyed = false;

			for (d = 0; usable(c, impl) && d < directions(impl); d++) {
				if (round && is_done(&subjects[i][d]))
					continue;
				if (!keyed)
					set_key(c, impl);
				keyed = true;
				if (!round)
					find_far(c, i, d);
				make_run(c, i, d);
				again |= !is_done(&subjects[i][d]);
			}
		}
		if (again)
			pause_after_round(c, first_run);
	}
}

u64 kiln_calibrate(void *arg)
{
	struct kiln_calibration *c = arg;
	const u64 start = rdtsc();
	u32 i;

	c->runs = idle_runs = 0;
	c->enough = FAR_NS * this_cpu()->ticks_per_us / 1000;
	if (kiln_impls() > KILN_MAX_IMPLS)
		return 1;
	fpu_budgets_init();
	if (!c->rates)
		fill((struct room *)c->memory);
	chain_at_start = chain_now(c);
	all_rounds(c);
	for (i = 0; kiln_impl(i); i++) {
		const struct kiln_impl *impl = kiln_impl(i);

		if (!usable(c, impl))
			continue;
		settle(i);
		*fpu_min_bytes_of(impl) = 0;
		if (!c->rates) {
			set_key(c, impl);
			find_min_bytes(c, i);
		}
	}
	fpu_miss_rate_set(c->rates ? 0 : miss_rate(c));
	for (i = 0; kiln_impl(i); i++)
		if (first_of(kiln_impl(i)->alg) == i)
			choose(c, i);
	fpu_budgets_settle();
	c->ticks = rdtsc() - start;
	return 0;
}

u64 kiln_calibrate_again(void *arg)
{
	struct kiln_calibration *c = arg;
	const u64 now = chain_now(c), then = chain_at_start;
	const u64 moved = now > then ? now - then : then - now;

	if (then && moved <= then / CHANGED)
		return 0;
	kiln_calibrate(c);
	return 1;
}
