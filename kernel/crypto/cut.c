// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Divides long messages into FPU sections: seven chunking strategies behind one interface.
 *
 * Callers first compare a request with its budget. Only longer requests use this code.
 */
#include <kiln/budget.h>
#include <kiln/cpu.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

static const char *const names[KILN_NR_WAYS] = {
	[KILN_UNBOUNDED] = "unbounded",
	[KILN_PAGE] = "page",
	[KILN_FIXED] = "fixed",
	[KILN_CLASS] = "class",
	[KILN_CALIBRATED] = "calibrated",
	[KILN_CLOCKED] = "clocked",
	[KILN_ON_DEMAND] = "on-demand",
};

enum { KIB = 1024 };

/* A limit from posted.def for one driver. It applies to both encryption and decryption. */
struct posted {
	const char *driver;	/* NULL: the limit is for an ISA level that Kiln does not have */
	u32 bytes;
};

#define POSTED(alg, level, kib, driver_name, message_id)                       \
	{ .driver = driver_name, .bytes = FPU_BUDGET(kib * KIB, 1024) },

static const struct posted posted[] = {
#include "posted.def"
};

#undef POSTED

enum {
	/* "clocked" reads the TSC for the first time after 1/SHARE of the target. */
	SHARE = 2,
	/* "on-demand" checks for pending work after every 1/LOOKS of the target. */
	LOOKS = 6,
	/*
	 * 1/SPARE of the time between two checks is kept as a margin: the clock speed of a virtual
	 * CPU varies by more than a tenth with the load of other virtual CPUs.
	 */
	SPARE = 5,
	/* Upper limit of a measured budget in bytes. */
	MAX_STEP = 1 << 20,
	/* Budgets of 8 * LANES bytes or more are multiples of LANES, so that vectors are full. */
	LANES = 1024,
};

struct entry {
	struct fpu_budget of[2];	/* for encryption and decryption */
	u32 min_bytes;
	bool fastest;			/* measured as the fastest implementation of its algorithm */
};

static struct entry entries[KILN_MAX_IMPLS];
static u64 miss_rate;
static u32 way = KILN_CLOCKED;
static u64 target;
static u32 forced;

static struct entry *entry(const struct kiln_impl *impl)
{
	size_t i;

	for (i = 0; i < kiln_impls() && i < KILN_MAX_IMPLS; i++)
		if (kiln_impl(i) == impl)
			return &entries[i];
	return NULL;
}

struct fpu_budget *fpu_budget_of(const struct kiln_impl *impl)
{
	struct entry *e = entry(impl);

	return e ? e->of : NULL;
}

u32 *fpu_min_bytes_of(const struct kiln_impl *impl)
{
	struct entry *e = entry(impl);

	return e ? &e->min_bytes : NULL;
}

const struct kiln_impl *fpu_fastest(const char *alg)
{
	size_t i;

	for (i = 0; i < kiln_impls() && i < KILN_MAX_IMPLS; i++)
		if (entries[i].fastest && streq(kiln_impl(i)->alg, alg))
			return kiln_impl(i);
	return NULL;
}

void fpu_fastest_set(const struct kiln_impl *impl)
{
	size_t i;

	for (i = 0; i < kiln_impls() && i < KILN_MAX_IMPLS; i++)
		if (streq(kiln_impl(i)->alg, impl->alg))
			entries[i].fastest = kiln_impl(i) == impl;
}

/*
 * The length of every piece except the last is a multiple of this many bytes: the block size, but
 * at least 16 for hashes and WALK_MAX_BLOCK for other algorithms.
 */
static u32 granule(const struct kiln_impl *impl)
{
	const u32 least = impl->kind == KILN_HASH ? 16 : WALK_MAX_BLOCK;

	return impl->blocksize > least ? impl->blocksize : least;
}

static u64 whole(u64 n, u32 granule)
{
	return n - n % (n >= 8 * LANES ? LANES : granule);
}

u32 fpu_bytes_in(const struct kiln_impl *impl, const struct fpu_budget *b, u64 ticks)
{
	const u32 block = granule(impl);
	u64 n;

	if (!b->rate || ticks <= b->start)
		return 0;
	n = ((ticks - b->start) << 16) / (b->rate + miss_rate);
	if (n > MAX_STEP)
		n = MAX_STEP;
	return whole(n, block);
}

/* Returns the posted limit of @impl in bytes, or 0 if no limit was posted. */
static u32 posted_bytes(const struct kiln_impl *impl)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(posted); i++)
		if (posted[i].driver && streq(posted[i].driver, impl->driver))
			return posted[i].bytes;
	return 0;
}

static u32 measured_bytes(const struct kiln_impl *impl, const struct fpu_budget *b, u64 ticks)
{
	const u32 n = fpu_bytes_in(impl, b, ticks - ticks / SPARE);

	if (n)
		return n;
	return b->rate ? granule(impl) : WALK_PAGE;
}

static u32 most(const struct kiln_impl *impl, const struct fpu_budget *b)
{
	const u32 up = granule(impl) - 1;

	if (impl->tier == KILN_TIER_GENERIC || way == KILN_UNBOUNDED)
		return ~0u;
	if (forced)
		return (forced + up) / (up + 1) * (up + 1);
	switch (way) {
	case KILN_FIXED:
		/*
		 * If no limit was posted for this code, use pieces of one page, like Linux's walks.
		 */
		return posted_bytes(impl) ?: WALK_PAGE;
	case KILN_CLASS:
		return impl->class ?: WALK_PAGE;
	case KILN_CALIBRATED:
		return measured_bytes(impl, b, target);
	case KILN_CLOCKED:
		return measured_bytes(impl, b, target / SHARE);
	case KILN_ON_DEMAND:
		return measured_bytes(impl, b, target / LOOKS);
	default:
		return WALK_PAGE;
	}
}

void fpu_budgets_settle(void)
{
	size_t i, d;

	for (i = 0; i < kiln_impls() && i < KILN_MAX_IMPLS; i++)
		for (d = 0; d < 2; d++) {
			entries[i].of[d].granule = granule(kiln_impl(i));
			entries[i].of[d].most = most(kiln_impl(i), &entries[i].of[d]);
		}
}

void fpu_budgets_init(void)
{
	/* The default target comes from the mail thread that posted.def cites. */
	enum { TARGET_US = 30 };

	if (kiln_impls() > KILN_MAX_IMPLS)
		__builtin_trap();
	if (!target)
		target = TARGET_US * this_cpu()->ticks_per_us;
	fpu_budgets_settle();
}

void fpu_miss_rate_set(u64 rate)
{
	miss_rate = rate;
}

const char *kiln_cut_way(u32 i)
{
	return i < KILN_NR_WAYS ? names[i] : NULL;
}

void kiln_cut_set(u32 new_way, u64 ticks)
{
	if (new_way >= KILN_NR_WAYS)
		return;
	way = new_way;
	target = ticks;
	fpu_budgets_settle();
}

u32 kiln_cut_get(u64 *ticks)
{
	*ticks = target;
	return way;
}

void kiln_cut_force(u32 bytes)
{
	forced = bytes;
	fpu_budgets_settle();
}

void kiln_budget_get(const struct kiln_impl *impl, struct kiln_budget *out)
{
	const struct entry *e = entry(impl);
	u32 d;

	if (!e)
		return;
	for (d = 0; d < 2; d++) {
		out->most[d] = e->of[d].most;
		out->start[d] = e->of[d].start;
		out->rate[d] = e->of[d].rate;
	}
	out->miss_rate = miss_rate;
	out->granule = granule(impl);
	out->posted = posted_bytes(impl);
	out->min_bytes = e->min_bytes;
	out->fastest = e->fastest;
}

u32 kiln_budget_bytes(const struct kiln_impl *impl, bool decrypt, u64 ticks)
{
	const struct entry *e = entry(impl);

	return e ? fpu_bytes_in(impl, &e->of[decrypt], ticks - ticks / SPARE) : 0;
}

static void begin(struct fpu_cut *cut)
{
	kernel_fpu_begin();
	cut->given = cut->left = cut->step;
	if (cut->way == KILN_CLOCKED)
		cut->begun = cut->then = rdtsc();
}

static void renew(struct fpu_cut *cut)
{
	kernel_fpu_end();
	begin(cut);
}

void fpu_cut_open(struct fpu_cut *cut, struct fpu_budget *budget)
{
	cut->budget = budget;
	cut->way = way;
	cut->given = cut->left = cut->step = budget ? budget->most : ~0u;
	cut->least = 0;
	if (!budget)
		return;
	/*
	 * Never leave a remainder smaller than two granules: it could not form a piece of its own.
	 */
	cut->least = cut->step < 2 * budget->granule ? cut->step : 2 * budget->granule;
	begin(cut);
}

/*
 * Adjusts the budget for later requests so that their first step takes between a quarter and three
 * quarters of the target. The new budget is kept even if this request is interrupted.
 */
static void learn(const struct fpu_cut *cut, u64 took)
{
	struct fpu_budget *b = cut->budget;
	const u32 half = cut->step / 2;

	/*
	 * Do not learn from a forced budget or if another request has changed the budget in the
	 * meantime.
	 */
	if (forced || cut->step != b->most)
		return;
	if (took < target / 4 && cut->step <= MAX_STEP / 2)
		b->most = 2 * cut->step;
	else if (took > target / 4 * 3 && half >= b->granule)
		b->most = half - half % b->granule;
}

/*
 * Returns how many bytes fit in the rest of the section, extrapolated from the time spent on the
 * bytes processed since the last TSC reading. That time reflects this CPU, its clock speed and the
 * caches, so two readings are enough for most sections. If less than half a step was processed, for
 * example only associated data, the time is not representative; a step is then assumed to take
 * 1/SHARE of the target.
 */
static u64 rest(const struct fpu_cut *cut, u64 took, u64 left)
{
	const u32 done = cut->given - cut->left;
	u64 n;

	if (done < cut->step / 2)
		n = cut->step * left * SHARE / target;
	else
		n = done * left / (took + 1);
	if (n > 2ull * cut->step)
		n = 2ull * cut->step;
	return whole(n - n / 8, cut->budget->granule);
}

static void look_at_clock(struct fpu_cut *cut)
{
	const u64 now = rdtsc(), took = now - cut->then, age = now - cut->begun;
	u64 n;

	if (cut->then == cut->begun && cut->given - cut->left >= cut->step / 2)
		learn(cut, took * cut->step / (cut->given - cut->left));
	n = age < target ? rest(cut, took, target - age) : 0;
	if (n < cut->step / 8 || n < cut->least) {
		renew(cut);
		return;
	}
	cut->given = cut->left = n;
	cut->then = now;
}

void fpu_cut_look(struct fpu_cut *cut)
{
	switch (cut->way) {
	case KILN_CLOCKED:
		look_at_clock(cut);
		break;
	case KILN_ON_DEMAND:
		if (this_cpu_read(softirq_pending) || need_resched())
			renew(cut);
		else
			cut->given = cut->left = cut->step;
		break;
	default:
		renew(cut);
	}
}

void fpu_cut_close(struct fpu_cut *cut)
{
	if (cut->budget)
		kernel_fpu_end();
}
