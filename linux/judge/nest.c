// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A separate module that tests nested sections at a higher rate than IPsec reaches in a translated
 * guest. The task that loads the module encrypts and decrypts long messages and also, like
 * dm-crypt, disk sectors. A timer interrupts the task, and a tasklet on the same CPU then encrypts
 * and decrypts packet-sized messages, as IPsec does. Each result is compared with one computed
 * before the timer started. Loading ends after `sections` nested sections.
 */
#include <crypto/aead.h>
#include <crypto/skcipher.h>
#include <linux/bitmap.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <asm/fpu/api.h>
#include <asm/irq_regs.h>

static ulong sections = 1000;
module_param(sections, ulong, 0444);
MODULE_PARM_DESC(sections, "number of nested sections after which loading ends");

static uint burst = 8;
module_param(burst, uint, 0444);
MODULE_PARM_DESC(burst, "maximum number of messages per softirq");

static uint gap_us = 100;
module_param(gap_us, uint, 0444);
MODULE_PARM_DESC(gap_us, "maximum time from a softirq's end to the next interrupt");

#define PREFIX "kiln-"

enum {
	AAD = 16,	/* SPI, sequence number and IV, as for RFC 4106 */
	TAG = 16,
	MAX_IV = 16,
	SECTOR = 4096,
	SHORTEST = 40,
	SHORT = 256,
	LONGEST = 1372,
	/* One message in LONG_EVERY has any length up to LONGEST. The others are short. */
	LONG_EVERY = 8,
	MESSAGES = 64,
	/* The task's messages have any length up to the size of a sector. */
	TASK_MESSAGES = 16,
	SECTORS = 16,
	MAX_KEY = 64,
	RESCHED_EVERY = 16,
};

/*
 * AES-GCM has code for 128-bit registers and ChaCha20-Poly1305 for 256-bit registers, so the test
 * uses registers of both widths.
 */
static const struct {
	const char *name;
	u32 key;
} aeads[] = {
	{ "rfc4106(gcm(aes))", 16 + 4 },
	{ "rfc7539(chacha20,poly1305)", 32 },
};

/* A message, laid out as in the requests: associated data, text, tag. */
struct message {
	u8 *plain, *sealed;
	u32 len;
	u8 iv[MAX_IV];
};

struct sector {
	u8 *plain, *sealed;
	u8 iv[MAX_IV];
};

/*
 * What a context needs to make its own requests. There is one for the task and one for the tasklet.
 */
struct side {
	struct aead_request *aead[ARRAY_SIZE(aeads)];
	u8 *out;
	struct rnd_state random;
};

static struct crypto_aead *aead_tfms[ARRAY_SIZE(aeads)];
static struct crypto_skcipher *xts;
static struct skcipher_request *xts_req;
static struct message messages[ARRAY_SIZE(aeads)][MESSAGES], long_messages[TASK_MESSAGES];
static struct sector sector_table[SECTORS];
static struct side task, softirq;
static struct hrtimer timer;
static struct tasklet_struct tasklet;
static bool stopping;
static unsigned long interrupted_at;

/* The tasklet updates the first four counters, and the task updates the rest. */
static struct {
	u64 sent, wrong, interrupted, nested;
	u64 pieces, pieces_wrong, ms;
} counts;

/*
 * The instructions at which sections were interrupted: one bit per address, indexed by the low bits
 * of the address.
 */
enum { ADDRESSES = 1 << 20 };
static DECLARE_BITMAP(addresses, ADDRESSES);

static int result_get(char *to, const struct kernel_param *param)
{
	return sysfs_emit(to,
			  "sent %llu wrong %llu interrupted %llu nested %llu pieces %llu "
			  "pieces_wrong %llu addresses %u ms %llu\n",
			  counts.sent, counts.wrong, counts.interrupted, counts.nested,
			  counts.pieces, counts.pieces_wrong,
			  bitmap_weight(addresses, ADDRESSES), counts.ms);
}

static const struct kernel_param_ops result_ops = { .get = result_get };
module_param_cb(result, &result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "names and values of all counters");

static u32 below(struct side *side, u32 n)
{
	return prandom_u32_state(&side->random) % n;
}

/* Seals or opens a message. The result is in side->out, which is zeroed first. */
static int crypt_message(struct side *side, u32 alg, struct message *m, bool open)
{
	struct aead_request *req = side->aead[alg];
	struct scatterlist src, dst;
	u8 iv[MAX_IV];

	memset(side->out, 0, AAD + m->len + TAG);
	memcpy(iv, m->iv, sizeof(iv));
	sg_init_one(&src, open ? m->sealed : m->plain, AAD + m->len + (open ? TAG : 0));
	sg_init_one(&dst, side->out, AAD + m->len + TAG);
	aead_request_set_ad(req, AAD);
	aead_request_set_crypt(req, &src, &dst, m->len + (open ? TAG : 0), iv);
	return open ? crypto_aead_decrypt(req) : crypto_aead_encrypt(req);
}

static bool is_right(struct side *side, u32 alg, struct message *m)
{
	const bool open = below(side, 2);

	return !crypt_message(side, alg, m, open) &&
	       !memcmp(side->out + AAD, (open ? m->plain : m->sealed) + AAD,
		       m->len + (open ? 0 : TAG));
}

static int crypt_sector(struct sector *s, bool open)
{
	struct scatterlist src, dst;
	u8 iv[MAX_IV];

	memset(task.out, 0, SECTOR);
	memcpy(iv, s->iv, sizeof(iv));
	sg_init_one(&src, open ? s->sealed : s->plain, SECTOR);
	sg_init_one(&dst, task.out, SECTOR);
	skcipher_request_set_crypt(xts_req, &src, &dst, SECTOR, iv);
	return open ? crypto_skcipher_decrypt(xts_req) : crypto_skcipher_encrypt(xts_req);
}

static bool is_sector_right(struct sector *s)
{
	const bool open = below(&task, 2);

	return !crypt_sector(s, open) && !memcmp(task.out, open ? s->plain : s->sealed, SECTOR);
}

static ktime_t gap(void)
{
	return ns_to_ktime(1000 + below(&softirq, 1000 * gap_us));
}

/* The softirq runs when this interrupt returns, on top of the interrupted code. */
static enum hrtimer_restart on_timer(struct hrtimer *unused)
{
	struct pt_regs *regs = get_irq_regs();

	interrupted_at = regs ? instruction_pointer(regs) : 0;
	tasklet_schedule(&tasklet);
	return HRTIMER_NORESTART;
}

/*
 * Restarts the timer only at the end. Otherwise the task might make no progress, and the tasklet
 * might run in ksoftirqd, where it would not interrupt a section.
 */
static void on_softirq(struct tasklet_struct *unused)
{
	const bool interrupts_section = !irq_fpu_usable();
	u32 i, n = 1 + below(&softirq, burst);

	if (interrupts_section) {
		counts.interrupted++;
		__set_bit(interrupted_at % ADDRESSES, addresses);
	}
	for (i = 0; i < n; i++) {
		/* Use the IPsec algorithm for three out of four messages. */
		const u32 alg = !below(&softirq, 4);

		counts.wrong += !is_right(&softirq, alg,
					  &messages[alg][below(&softirq, MESSAGES)]);
		counts.sent++;
		if (interrupts_section)
			WRITE_ONCE(counts.nested, counts.nested + 1);
	}
	if (!READ_ONCE(stopping))
		hrtimer_start(&timer, gap(), HRTIMER_MODE_REL_PINNED_HARD);
}

static void run_task(void)
{
	const ktime_t began = ktime_get();

	/* Stay on this CPU, because the timer interrupts the CPU that started it. */
	migrate_disable();
	hrtimer_start(&timer, gap(), HRTIMER_MODE_REL_PINNED_HARD);
	while (READ_ONCE(counts.nested) < sections && !signal_pending(current)) {
		const bool is_sector = below(&task, 4);

		if (is_sector)
			counts.pieces_wrong +=
				!is_sector_right(&sector_table[below(&task, SECTORS)]);
		else
			counts.pieces_wrong +=
				!is_right(&task, 1, &long_messages[below(&task, TASK_MESSAGES)]);
		if (++counts.pieces % RESCHED_EVERY == 0)
			cond_resched();
	}
	WRITE_ONCE(stopping, true);
	hrtimer_cancel(&timer);
	tasklet_kill(&tasklet);
	/* A tasklet that ran in the meantime may have restarted the timer. */
	hrtimer_cancel(&timer);
	tasklet_kill(&tasklet);
	migrate_enable();
	counts.ms = ktime_ms_delta(ktime_get(), began);
}

/* Fills a buffer with random bytes, and allocates another for the ciphertext. */
static int fill(u8 **plain, u8 **sealed, u32 len)
{
	*plain = kmalloc(AAD + len + TAG, GFP_KERNEL);
	*sealed = kmalloc(AAD + len + TAG, GFP_KERNEL);
	if (!*plain || !*sealed)
		return -ENOMEM;
	get_random_bytes(*plain, AAD + len + TAG);
	return 0;
}

/* Seals a message while the timer is off. Later results are compared with this one. */
static int make_message(struct message *m, u32 alg, u32 len)
{
	int err = fill(&m->plain, &m->sealed, len);

	if (err)
		return err;
	m->len = len;
	get_random_bytes(m->iv, sizeof(m->iv));
	err = crypt_message(&task, alg, m, false);
	memcpy(m->sealed, m->plain, AAD);
	memcpy(m->sealed + AAD, task.out + AAD, len + TAG);
	return err;
}

static int make_sector(struct sector *s)
{
	int err = fill(&s->plain, &s->sealed, SECTOR);

	if (err)
		return err;
	get_random_bytes(s->iv, sizeof(s->iv));
	err = crypt_sector(s, false);
	memcpy(s->sealed, task.out, SECTOR);
	return err;
}

static int make_answers(void)
{
	u32 i, alg;
	int err = 0;

	for (alg = 0; alg < ARRAY_SIZE(aeads); alg++) {
		for (i = 0; i < MESSAGES && !err; i++) {
			const u32 most = below(&task, LONG_EVERY) ? SHORT : LONGEST;

			err = make_message(&messages[alg][i], alg,
					   SHORTEST + below(&task, most - SHORTEST + 1));
		}
	}
	for (i = 0; i < TASK_MESSAGES && !err; i++)
		err = make_message(&long_messages[i], 1, 1 + below(&task, SECTOR));
	for (i = 0; i < SECTORS && !err; i++)
		err = make_sector(&sector_table[i]);
	return err;
}

/* A control for the comparisons: they must detect one flipped bit. */
static int check_comparisons(void)
{
	struct message *m = &messages[0][0];
	struct sector *s = &sector_table[0];
	bool missed;

	m->sealed[AAD + m->len - 1] ^= 1;
	s->sealed[SECTOR - 1] ^= 1;
	missed = is_right(&softirq, 0, m) || is_sector_right(s);
	m->sealed[AAD + m->len - 1] ^= 1;
	s->sealed[SECTOR - 1] ^= 1;
	if (!missed && is_right(&softirq, 0, m) && is_sector_right(s))
		return 0;
	pr_err("nest: the comparisons do not find a flipped bit\n");
	return -EINVAL;
}

static int make_side(struct side *side)
{
	u32 i;

	side->out = kmalloc(AAD + SECTOR + TAG, GFP_KERNEL);
	if (!side->out)
		return -ENOMEM;
	prandom_seed_state(&side->random, get_random_u64());
	for (i = 0; i < ARRAY_SIZE(aeads); i++) {
		side->aead[i] = aead_request_alloc(aead_tfms[i], GFP_KERNEL);
		if (!side->aead[i])
			return -ENOMEM;
	}
	return 0;
}

/* Returns an error unless the driver is Kiln's. Another driver could defer requests to cryptd. */
static int check_driver(struct crypto_tfm *tfm)
{
	if (strstarts(crypto_tfm_alg_driver_name(tfm), PREFIX))
		return 0;
	pr_err("nest: %s is not a driver of Kiln's\n", crypto_tfm_alg_driver_name(tfm));
	return -ENOENT;
}

static int make_tfms(void)
{
	u8 key[MAX_KEY];
	u32 i;
	int err;

	get_random_bytes(key, sizeof(key));
	for (i = 0; i < ARRAY_SIZE(aeads); i++) {
		struct crypto_aead *tfm = crypto_alloc_aead(aeads[i].name, 0, CRYPTO_ALG_ASYNC);

		if (IS_ERR(tfm))
			return PTR_ERR(tfm);
		aead_tfms[i] = tfm;
		err = check_driver(crypto_aead_tfm(tfm)) ?:
		      crypto_aead_setkey(tfm, key, aeads[i].key) ?:
		      crypto_aead_setauthsize(tfm, TAG);
		if (err)
			return err;
	}
	xts = crypto_alloc_skcipher("xts(aes)", 0, CRYPTO_ALG_ASYNC);
	if (IS_ERR(xts)) {
		err = PTR_ERR(xts);
		xts = NULL;
		return err;
	}
	xts_req = skcipher_request_alloc(xts, GFP_KERNEL);
	if (!xts_req)
		return -ENOMEM;
	return check_driver(crypto_skcipher_tfm(xts)) ?: crypto_skcipher_setkey(xts, key, MAX_KEY);
}

static void free_side(struct side *side)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(aeads); i++)
		if (side->aead[i])
			aead_request_free(side->aead[i]);
	kfree(side->out);
}

static void free_message(struct message *m)
{
	kfree(m->plain);
	kfree(m->sealed);
}

static void free_all(void)
{
	u32 i, alg;

	for (alg = 0; alg < ARRAY_SIZE(aeads); alg++)
		for (i = 0; i < MESSAGES; i++)
			free_message(&messages[alg][i]);
	for (i = 0; i < TASK_MESSAGES; i++)
		free_message(&long_messages[i]);
	for (i = 0; i < SECTORS; i++) {
		kfree(sector_table[i].plain);
		kfree(sector_table[i].sealed);
	}
	free_side(&task);
	free_side(&softirq);
	if (xts_req)
		skcipher_request_free(xts_req);
	if (xts)
		crypto_free_skcipher(xts);
	for (i = 0; i < ARRAY_SIZE(aeads); i++)
		if (aead_tfms[i])
			crypto_free_aead(aead_tfms[i]);
}

static int __init nest_init(void)
{
	int err;

	if (!burst || !gap_us || gap_us > USEC_PER_SEC)
		return -EINVAL;
	err = make_tfms() ?: make_side(&task) ?: make_side(&softirq) ?: make_answers() ?:
	      check_comparisons();
	if (!err) {
		hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		timer.function = on_timer;
		tasklet_setup(&tasklet, on_softirq);
		run_task();
	}
	/*
	 * The module stays loaded so that its results can be read, but it must not hold on to
	 * Kiln's drivers.
	 */
	free_all();
	return err;
}

static void __exit nest_exit(void)
{
}

module_init(nest_init);
module_exit(nest_exit);

MODULE_DESCRIPTION("Nested FPU sections at a high rate");
MODULE_LICENSE("Dual MIT/GPL");
