// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measures the cost of FPU sections in TSC cycles. The answer has one line `NAME MINIMUM MEDIAN`
 * per subject. Each subject is run many times, and each run is timed individually. The time that
 * two TSC reads take is subtracted.
 */
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#include <asm/fpu/api.h>
#include <asm/msr.h>
#include <crypto/skcipher.h>

#include "fidelity.h"
#include "live.h"

enum { RUNS = 2001, WARM = 50 };

struct subject {
	void (*before)(void *data);
	void (*timed)(void *data);
	void (*after)(void *data);
	void *data;
};

static void nothing(void *data)
{
}

static void begin_end(void *data)
{
	kernel_fpu_begin();
	kernel_fpu_end();
}

static void begin(void *data)
{
	kernel_fpu_begin();
}

static void end(void *data)
{
	kernel_fpu_end();
}

static void (*return_to_user)(void);

/*
 * Finds the address of switch_fpu_return() with a kprobe, because kernels since 2025 export the
 * function only to KVM. If the function begins with ENDBR64, the address of the probe is 4 bytes
 * past the function's address.
 */
static bool find_return_to_user(void)
{
	static const u8 endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	struct kprobe probe = { .symbol_name = "switch_fpu_return" };
	u8 *at;

	if (register_kprobe(&probe))
		return false;
	at = (u8 *)probe.addr;
	unregister_kprobe(&probe);
	if (!memcmp(at - sizeof(endbr), endbr, sizeof(endbr)))
		at -= sizeof(endbr);
	return_to_user = (void (*)(void))at;
	return true;
}

/* Restores the user's FPU registers, as the kernel does before it returns to user mode. */
static void load_user_state(void *data)
{
	return_to_user();
}

static int by_size(const void *a, const void *b)
{
	const u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 time_one(const struct subject *s)
{
	unsigned long flags;
	u64 from, to;

	local_irq_save(flags);
	if (s->before)
		s->before(s->data);
	from = rdtsc_ordered();
	s->timed(s->data);
	to = rdtsc_ordered();
	if (s->after)
		s->after(s->data);
	local_irq_restore(flags);
	return to - from;
}

/* Runs @s RUNS times, and stores the minimum and the median in @result. */
static int time_many(const struct subject *s, u64 *result)
{
	u64 *runs = kmalloc_array(RUNS, sizeof(*runs), GFP_KERNEL);
	int i;

	if (!runs)
		return -ENOMEM;
	for (i = 0; i < WARM; i++)
		time_one(s);
	for (i = 0; i < RUNS; i++)
		runs[i] = time_one(s);
	sort(runs, RUNS, sizeof(*runs), by_size, NULL);
	result[0] = runs[0];
	result[1] = runs[RUNS / 2];
	kfree(runs);
	return 0;
}

/* Encrypts with a request that completes before the call returns. */
static void encrypt(void *data)
{
	crypto_skcipher_encrypt(data);
}

static int time_cipher(const char *driver, u32 type, u32 len, u64 *result)
{
	struct crypto_skcipher *tfm = crypto_alloc_skcipher(driver, type, type);
	struct skcipher_request *request;
	u8 *data, *iv;
	struct scatterlist sg;
	struct subject subject = { .timed = encrypt };
	int err = -ENOMEM;

	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	data = kzalloc(len, GFP_KERNEL);
	iv = kzalloc(16, GFP_KERNEL);
	request = skcipher_request_alloc(tfm, GFP_KERNEL);
	if (data && iv && request) {
		/* XTS's two keys must differ. */
		u8 key[64] = { 1 };

		err = crypto_skcipher_setkey(tfm, key, sizeof(key));
		sg_init_one(&sg, data, len);
		skcipher_request_set_callback(request, 0, NULL, NULL);
		skcipher_request_set_crypt(request, &sg, &sg, len, iv);
		subject.data = request;
		err = err ? err : crypto_skcipher_encrypt(request);
		err = err ? err : time_many(&subject, result);
	}
	skcipher_request_free(request);
	kfree(iv);
	kfree(data);
	crypto_free_skcipher(tfm);
	return err;
}

/* Measures the best driver both through the simd helper and by direct calls. */
static int helper_and_direct(u64 null, struct answer *to)
{
	static const u32 lengths[] = { 16, 512, 4096 };
	struct crypto_skcipher *tfm = crypto_alloc_skcipher("xts(aes)", 0, 0);
	char direct[CRYPTO_MAX_ALG_NAME + 2], *helper = direct + 2;
	size_t i;
	int err = 0;

	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	snprintf(direct, sizeof(direct), "__%s", crypto_skcipher_driver_name(tfm));
	crypto_free_skcipher(tfm);
	for (i = 0; i < ARRAY_SIZE(lengths) && !err; i++) {
		u64 by_helper[2], alone[2];

		err = time_cipher(helper, 0, lengths[i], by_helper);
		if (!err)
			err = time_cipher(direct, CRYPTO_ALG_INTERNAL, lengths[i], alone);
		if (!err)
			answer(to, "helper-%u %llu %llu\ndirect-%u %llu %llu\n", lengths[i],
			       by_helper[0] - null, by_helper[1] - null, lengths[i],
			       alone[0] - null, alone[1] - null);
	}
	/* A driver that does not use the helper has no internal driver to compare it with. */
	return err == -ENOENT ? 0 : err;
}

/* Measures how long Kiln's module takes to save and restore the registers for a nested section. */
static int nested_saves(struct answer *to)
{
	struct kiln_live live[KILN_LIVE_WIDTHS];
	const int n = kiln_live_run(live, RUNS);
	int i;

	for (i = 0; i < n; i++) {
		if (live[i].wrong || live[i].missed)
			return -EIO;
		answer(to, "nested-%s %llu %llu\n", live[i].width, live[i].least, live[i].median);
	}
	/* A CPU without XSAVE cannot run this measurement. That is not an error. */
	return n == -EOPNOTSUPP ? 0 : min(n, 0);
}

int costs_ask(char *question, struct answer *to)
{
	static const struct {
		const char *name;
		struct subject subject;
	} sections[] = {
		{ "pair", { .timed = begin_end } },
		{ "first-begin", { load_user_state, begin, end } },
		{ "begin", { NULL, begin, end } },
		{ "user-restore", { begin_end, load_user_state, NULL } },
	};
	const struct subject empty = { .timed = nothing };
	u64 null[2], result[2];
	size_t i;
	int err;

	if (!find_return_to_user())
		return -ENOENT;
	err = time_many(&empty, null);
	if (err)
		return err;
	answer(to, "clock %llu %llu\n", null[0], null[1]);
	for (i = 0; i < ARRAY_SIZE(sections); i++) {
		err = time_many(&sections[i].subject, result);
		if (err)
			return err;
		answer(to, "%s %llu %llu\n", sections[i].name, result[0] - null[0],
		       result[1] - null[0]);
	}
	err = nested_saves(to);
	return err ? err : helper_and_direct(null[0], to);
}
