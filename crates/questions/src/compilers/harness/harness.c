// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs one cell: computes the results of one subject, built by one compiler with one set of flags,
 * and times the subject.
 *
 *	cell SEED LENGTH MESSAGES MILLISECONDS [ITERATIONS]
 *
 * The messages are generated from the seed. First, each message is processed once, and a digest of
 * all results is printed ("answer"). Then samples are taken for MILLISECONDS. For each sample, one
 * line with the core cycles and TSC ticks per message is printed ("sample"). The compiler under
 * test compiles only the subject, not this file.
 *
 * Core cycles are measured without a performance counter, by timing a chain of dependent
 * multiplications, which takes 3 cycles per link on every x86 core of the last 15 years. Three
 * chains run before each sample and three after it. If the results before and after differ by more
 * than 1 %, the clock frequency has changed, and the sample is discarded. TSC ticks measure time.
 * Code that makes the core lower its clock frequency takes more ticks, but not more cycles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum {
	LINKS = 12288,		/* about 9 us: accurate to 0.1 % even if the TSC advances in steps */
	CHAINS = 3,
	SAMPLE_US = 100,
	MOST_SAMPLES = 100000,
	PATIENCE = 20,		/* seconds; miscompiled code may never end */
};

static const double LINK_CYCLES = 3.0, AGREE = 1.01;

struct message {
	uint8_t *src, *dst, iv[LARGEST_IV], tag[LARGEST_TAG];
};

static uint64_t rng_state;

/* Returns the next random number, generated with SplitMix64 (Steele, Lea, Flood, 2014). */
static uint64_t next(void)
{
	uint64_t z = rng_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void fill(uint8_t *p, size_t n)
{
	while (n) {
		uint64_t v = next();
		int i;

		for (i = 0; i < 8 && n; i++, n--, v >>= 8)
			*p++ = (uint8_t)v;
	}
}

/* Adds n bytes to the hash h with FNV-1a. */
static uint64_t digest(uint64_t h, const uint8_t *p, size_t n)
{
	while (n--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

static inline uint64_t tsc_start(void)
{
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

static inline uint64_t tsc_stop(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtscp; lfence" : "=a"(lo), "=d"(hi) : : "ecx", "memory");
	return (uint64_t)hi << 32 | lo;
}

static double read_cost;

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Measures how many ticks it takes to read the TSC. The result is the mean of the fastest 90% of
 * the readings; the slowest 10% may include interrupts.
 */
static void find_read_cost(void)
{
	enum { READS = 2000, USED = READS / 10 * 9 };
	static uint64_t reads[READS];
	double sum = 0;
	int i;

	for (i = 0; i < READS; i++) {
		uint64_t start = tsc_start();

		reads[i] = tsc_stop() - start;
	}
	qsort(reads, READS, sizeof(reads[0]), by_value);
	for (i = 0; i < USED; i++)
		sum += (double)reads[i];
	read_cost = sum / USED;
}

/*
 * Returns the ticks of the fastest of three chains. Disturbances such as interrupts only make a
 * chain slower, so the fastest is the most accurate.
 */
static double chain(void)
{
	uint64_t best = UINT64_MAX;
	int c;

	for (c = 0; c < CHAINS; c++) {
		unsigned long x = 0x01234567, y = 0x4f4a7c15;
		uint64_t start = tsc_start(), ticks;
		int i;

		for (i = 0; i < LINKS / 16; i++)
			__asm__ volatile(".rept 16\n\timul %1, %0\n\t.endr" : "+r"(x) : "r"(y));
		ticks = tsc_stop() - start;
		best = ticks < best ? ticks : best;
	}
	return (double)best - read_cost;
}

static void die(const char *why)
{
	fprintf(stderr, "cell: %s\n", why);
	exit(2);
}

static struct message *messages;
static size_t count, length;

static void run(uint64_t iterations)
{
	const struct subject *const s = cell_subject();
	static size_t at;

	for (; iterations; iterations--) {
		struct message *const m = &messages[at];

		s->run(m->dst, m->src, length, m->iv, m->tag);
		at = at + 1 == count ? 0 : at + 1;
	}
}

static double timed(uint64_t iterations)
{
	uint64_t start = tsc_start();

	run(iterations);
	return (double)(tsc_stop() - start) - read_cost;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the number of iterations that take about SAMPLE_US. */
static uint64_t choose_iterations(void)
{
	uint64_t n, begin, ns;

	for (n = 1;; n *= 2) {
		int i;

		ns = UINT64_MAX;
		for (i = 0; i < 3; i++) {
			uint64_t took;

			begin = now_ns();
			run(n);
			took = now_ns() - begin;
			ns = took < ns ? took : ns;
		}
		if (ns >= SAMPLE_US * 1000u / 4)
			break;
	}
	n = (uint64_t)((double)n * SAMPLE_US * 1000 / (double)ns);
	return n ? n : 1;
}

static void take_samples(uint64_t milliseconds, uint64_t iterations)
{
	const uint64_t end = now_ns() + milliseconds * 1000000u;
	unsigned kept = 0, rejected = 0;
	static double cycles[MOST_SAMPLES], tsc[MOST_SAMPLES];
	unsigned i;

	find_read_cost();
	if (!iterations)
		iterations = choose_iterations();
	do {
		double before, after, ticks, least, most;

		run(iterations / 16 + 1);
		before = chain();
		ticks = timed(iterations);
		after = chain();
		least = before < after ? before : after;
		most = before < after ? after : before;
		if (least > 0 && most <= least * AGREE) {
			tsc[kept] = ticks / (double)iterations;
			cycles[kept++] = ticks * LINK_CYCLES * LINKS / least / (double)iterations;
		} else {
			rejected++;
		}
	} while (now_ns() < end && kept < MOST_SAMPLES);
	printf("iterations %llu\nrejected %u\n", (unsigned long long)iterations, rejected);
	for (i = 0; i < kept; i++)
		printf("sample %.3f %.3f\n", cycles[i], tsc[i]);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (end == text || *end)
		die("usage: cell SEED LENGTH MESSAGES MILLISECONDS [ITERATIONS]");
	return n;
}

int main(int argc, char **argv)
{
	const struct subject *const s = cell_subject();
	uint64_t milliseconds, iterations, answer = 0xcbf29ce484222325u;
	uint8_t key[LARGEST_KEY];
	uint8_t *memory;
	size_t room, i;

	if (argc < 5 || argc > 6)
		die("usage: cell SEED LENGTH MESSAGES MILLISECONDS [ITERATIONS]");
	alarm(PATIENCE);
	rng_state = number(argv[1]);
	length = number(argv[2]);
	count = number(argv[3]);
	milliseconds = number(argv[4]);
	iterations = argc > 5 ? number(argv[5]) : 0;
	if (!count || count > 4096 || length > 1 << 24)
		die("too long, or too many");

	/* Leave a cache line between buffers, so that they do not all begin at the same page offset. */
	room = (length + 127) / 64 * 64;
	if (posix_memalign((void **)&memory, 4096, 2 * room * count))
		die("no memory");
	messages = calloc(count, sizeof(*messages));
	if (!messages)
		die("no memory");
	memset(memory, 0, 2 * room * count);
	fill(key, s->key);
	for (i = 0; i < count; i++) {
		messages[i].src = memory + 2 * room * i;
		messages[i].dst = messages[i].src + room;
		fill(messages[i].src, length);
		fill(messages[i].iv, s->iv);
	}
	if (s->setkey && s->setkey(key, s->key))
		die("the key is refused");

	for (i = 0; i < count; i++)
		s->run(messages[i].dst, messages[i].src, length, messages[i].iv, messages[i].tag);
	for (i = 0; i < count; i++) {
		if (s->writes)
			answer = digest(answer, messages[i].dst, length);
		answer = digest(answer, messages[i].tag, s->tag);
	}
	printf("answer %016llx\n", (unsigned long long)answer);
	if (milliseconds)
		take_samples(milliseconds, iterations);
	return 0;
}
