/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Structures that crates/kiln-tree passes to tree/'s objects, and what they return in them. Plain
 * C types, so that it can be included together with the tree's own headers.
 */
#ifndef KILN_TREE_ABI_H
#define KILN_TREE_ABI_H

#include "abi/audit.h"
#include "abi/messages.h"

/* request.c: requests through the tree's own crypto API. */

enum kiln_engine_kind { KILN_SKCIPHER, KILN_AEAD, KILN_SHASH, KILN_AHASH };

/* Which of the drivers of a name are considered. */
enum kiln_which { KILN_PUBLIC, KILN_INTERNAL, KILN_SYNCHRONOUS };

struct kiln_engine;

struct kiln_engine_open {
	const char *driver;
	unsigned int kind;
	unsigned int which;
	/* results */
	struct kiln_engine *engine;
	void *context;		/* the driver's own, where its expanded key is */
	unsigned int iv;
	unsigned int block;
	unsigned int digest;
	unsigned int tag;	/* the largest */
	unsigned int is_async;
	unsigned int keyed;	/* a hash that needs a key, or a cipher */
};

struct kiln_engine_key {
	struct kiln_engine *engine;
	const unsigned char *key;
	unsigned int len;
	unsigned int tag;	/* size of an AEAD's tags; 0: unchanged */
};

struct kiln_engine_requests {
	struct kiln_engine *engine;
	struct kiln_messages m;
};

struct kiln_engine_piece {
	unsigned char *at;
	unsigned long len;
};

/* One request over pieces. */
struct kiln_engine_request {
	struct kiln_engine *engine;
	const struct kiln_engine_piece *src, *dst;
	unsigned char *iv;
	unsigned char *result;	/* of a hash */
	unsigned long len;	/* without the prefix, with a tag in the source */
	unsigned long prefix;
	unsigned int src_count, dst_count;
	unsigned int decrypt;
};

struct kiln_listed {
	char name[128];
	char driver[128];
	unsigned int kind;
	unsigned int internal;
	int priority;
	unsigned int is_async;
};

struct kiln_list {
	struct kiln_listed *listed;
	unsigned long room;
	unsigned long count;	/* on return: all there are */
};

/* library.c: functions that the tree's library exports. */

enum kiln_library_kind {
	KILN_LIBRARY_CIPHER,
	KILN_LIBRARY_AEAD,
	KILN_LIBRARY_HASH,
	KILN_LIBRARY_AGREEMENT,
	KILN_LIBRARY_PARITY,	/* a result half as long as the message */
};

/* Flags of a function. */
enum kiln_library_flag {
	KILN_LIBRARY_TASK = 1,	/* only tasks may call it, with softirqs and interrupts on */
	KILN_LIBRARY_PAIRS = 2,	/* a call takes two messages, of which the second is the next */
	KILN_LIBRARY_UNASKED = 4,	/* opens a section without asking whether it may */
	KILN_LIBRARY_JUDGES = 8,	/* not exported; has the answers for others */
};

#define KILN_LIBRARY_KEYS 6

struct kiln_function;
struct kiln_library;

struct kiln_library_listed {
	const char *name;	/* as it is exported, or the function that gives a series its name */
	const char *alg;	/* the algorithm's name */
	const char *op;
	const char *judge;	/* another function that gives the same answers, or NULL */
	const struct kiln_function *function;
	unsigned int kind;
	unsigned short keys[KILN_LIBRARY_KEYS];	/* sizes of its key, then 0 */
	unsigned short own_key;	/* size of a key that the algorithm's name does not imply */
	unsigned short iv, prefix, tag, digest;
	unsigned int least, most, multiple;	/* lengths it takes; 0: all */
	unsigned int flags;
};

struct kiln_library_list {
	struct kiln_library_listed *listed;
	unsigned long room;
	unsigned long count;	/* on return: all there are */
};

struct kiln_library_open {
	const struct kiln_function *function;
	const unsigned char *key;
	unsigned long len;
	struct kiln_library *library;	/* result */
};

struct kiln_library_run {
	struct kiln_library *library;
	unsigned long generic;	/* in an FPU section, where the functions use generic code */
	struct kiln_messages m;
};

/* One message. */
struct kiln_library_call {
	const struct kiln_library *library;
	unsigned char *iv;	/* may be changed */
	const unsigned char *src;
	unsigned char *dst;
	unsigned long len, prefix;
};

/* delays.c: from an interrupt to the start of the softirq that it raises. */
struct kiln_library_delays {
	unsigned long *ticks;	/* of the TSC; one entry for each interrupt */
	unsigned long room;
	unsigned long count;
};

/* contexts.c: a driver in every context that may use it. */

enum kiln_where { KILN_IN_TASK, KILN_IN_BH_OFF, KILN_IN_SOFTIRQ, KILN_WHERES };
enum kiln_type { KILN_TYPE_SKCIPHER, KILN_TYPE_AEAD, KILN_TYPE_HASH };

struct kiln_contexts {
	const char *driver, *generic;
	unsigned int type;
	unsigned int rounds;
	unsigned long softirqs;	/* at least, if so many occur in a hundred times the rounds */
	unsigned long seed;
	/* results */
	int error;		/* of opening the driver or setting its key */
	int generic_error;
	unsigned long cases[KILN_WHERES], wrong[KILN_WHERES];
	unsigned long refused;	/* requests of softirqs for which there was no room */
};

/* stream.c: a cipher of the tree's crypto API as an operation of a load. */

struct kiln_stream;

struct kiln_stream_open {
	const char *driver;	/* or an algorithm: its best driver */
	const unsigned char *key;
	unsigned int key_len;
	unsigned int slots;
	unsigned int sleeps;	/* requests come from a task, and may be backlogged */
	struct kiln_stream *stream;	/* result */
	char name[128];		/* result: the driver's */
};

/* services/series.c: calls of the tree's assembly functions. */
struct kiln_primitive {
	unsigned long call;	/* the calling convention: enum call */
	unsigned long fn[4];	/* the function, then those that belong to it */
	unsigned char *key;	/* expanded, or as it is */
	unsigned char *key2;	/* of XTS: for the tweak */
	unsigned long chunk;	/* bytes that a call of the function takes */
	unsigned long block;	/* of a cipher that is chained outside the function */
	unsigned long extra;	/* a number that the convention passes on */
	const unsigned char *start;	/* a state to begin from */
	unsigned long start_size;
	unsigned char *states;	/* room for one per message */
	unsigned long digest;	/* bytes of the result */
	struct kiln_messages m;
};

/* services/service.h: what the loader provides. */
struct boot {
	unsigned long size;	/* of this structure, so that both sides agree */
	char *arena;		/* memory, zero, aligned to the largest block */
	unsigned long arena_size;
	unsigned char *page_class;	/* a byte for each page of the arena, zero */
	unsigned long struct_pages;	/* address space for the array of struct page */
	char *areas;		/* the CPUs' areas */
	unsigned long area_size;
	unsigned long area_used;	/* of each: where allocations begin */
	unsigned long ns_per_tick;	/* of the TSC, times 2^32 */
	unsigned long seed;
	const char *const *skipped;	/* drivers whose tests are not run, then NULL */
	const unsigned short *hidden;	/* numbers of CPU features that the tree does not see, then 0xffff */
	unsigned int cpus;
	int events;		/* the descriptor of the protocol */
	unsigned int tests;	/* whether the tree tests itself */
	unsigned int tiers;	/* a bit for each that the tree may see, enum kiln_tier */
	unsigned int lonely;	/* nobody but the tree's own tasks ends a wait */
};

/* prove.c: functions that are interrupted at every instruction. */

enum kiln_prove_context { KILN_PROVE_TASK, KILN_PROVE_SOFTIRQ, KILN_PROVE_HARDIRQ };

/* One function that was stepped in one context. */
struct kiln_proof {
	char name[128];		/* the case of the suite that calls it */
	unsigned int context;
	unsigned long job;	/* of the audit: its interrupts */
	unsigned int wrong_alone;	/* wrong answers before the first interrupt */
	unsigned long calls;	/* stepped */
	unsigned long addresses, points, injected, masked;	/* see struct kiln_audit */
	unsigned long answers;	/* all that were checked, those of interrupts included */
	unsigned long in_softirqs;	/* those of softirqs that the interrupts raised */
	unsigned long wrong;	/* answers */
	unsigned long wrong_call, wrong_step;	/* when the first wrong one was seen */
	unsigned long changed;	/* interrupts after which an open section had other registers */
	unsigned long changed_call, changed_step, changed_at;
	unsigned long left_open;	/* calls that returned with a section open */
	unsigned long left_open_call, opener;
	unsigned long digest;	/* of the instructions of uninterrupted calls */
	unsigned int same;	/* the digest was known: there were no interrupts */
};

struct kiln_prove {
	struct kiln_audit audit;
	unsigned int contexts;	/* a bit for each, enum kiln_prove_context */
	unsigned int room;	/* of the array */
	unsigned int count;	/* on return: functions times contexts, at most as many as there is room for */
	unsigned long visits;	/* as in struct kiln_audit */
	struct kiln_proof *proofs;
	const unsigned long *known;	/* digests of functions that need no interrupts any more */
	unsigned long known_count;
};

/* A message for a function of the library, and the right result. */
struct kiln_prove_message {
	const struct kiln_library *library;
	const unsigned char *iv, *src;
	const unsigned char *second;	/* of a pair */
	unsigned char *expected;
	unsigned long iv_size, len, prefix, result;
};

#define KILN_PROVE_LEVELS 8	/* how deep calls of a function may interrupt each other */

/* A function of the library that is to be stepped. */
struct kiln_prove_library {
	const char *name;
	struct kiln_prove *prove;
	const struct kiln_prove_message *messages;	/* short ones first */
	unsigned long count;
	unsigned long brief;	/* how many of them interrupts use */
	unsigned char *rooms;	/* for an IV and a result at each level */
	unsigned long room;	/* size of one */
	unsigned int flags;	/* enum kiln_library_flag */
};

/* oracles/: rules that a driver is examined by. */

enum kiln_oracle {
	KILN_ORACLE_MEMORY,
	KILN_ORACLE_CONTEXT,
	KILN_ORACLE_VALUES,
	KILN_ORACLE_LEAKS,
	KILN_ORACLE_FAILURES,
	KILN_ORACLE_FILL,
	KILN_ORACLE_QUEUES,
	KILN_ORACLE_SHARING,
	KILN_ORACLE_REGISTERS,
	KILN_ORACLE_FEATURES,
	KILN_ORACLE_BOUNDS,
	KILN_ORACLE_SEQUENCE,
};

#define KILN_QUEUE_LENGTH 6	/* places in cryptd's queue of each CPU, under the oracle "queues" */

/* context.c: why nothing may sleep. */
enum kiln_atomic {
	KILN_ATOMIC_HARDIRQ = 1,
	KILN_ATOMIC_SOFTIRQ = 2,
	KILN_ATOMIC_BH_OFF = 4,
	KILN_ATOMIC_PREEMPT_OFF = 8,
	KILN_ATOMIC_IRQS_OFF = 16,
};

/* reach.c: makes an instance of each template over each child that fits, and tells all that there is. */
struct kiln_reach {
	void *templates;	/* the tree's list of them, which is its own */
	const char *const *skipped;	/* names that are not asked for, then NULL */
};

/*
 * sharing.c: another CPU, which makes a request each time that it is asked to. It is in
 * kiln_glue_peer() meanwhile.
 */
struct kiln_peer {
	unsigned int asked;	/* how often it was asked */
	unsigned int done;	/* how often it has ended the request */
	unsigned int ends;	/* it returns */
};

/* examine.c: one driver under one oracle. */
struct kiln_examine {
	const char *oracle;	/* its name, for reports */
	const char *name;	/* what the crypto API is asked for */
	const char *alg;	/* what it implements; the messages follow from it */
	unsigned int number;	/* enum kiln_oracle */
	unsigned int type;	/* enum kiln_type */
	unsigned int internal;
	unsigned int thorough;
	unsigned long seed;
	/* The key, then a word for each group of cases: equal words, equal answers; 0: not to be compared. */
	unsigned long *answers;
	unsigned long room;
	struct kiln_audit *audit;	/* single steps; NULL: this oracle has none */
	unsigned long steps;	/* steps are judged now, and nothing else */
	struct kiln_peer *peer;		/* another CPU; NULL: there is none */
	/* results */
	unsigned long count;	/* of the answers */
	unsigned long cases;
	unsigned long refused;	/* cases that the driver refuses in every form */
	int error;		/* of opening the driver or setting its key */
};

/* kunit.c: one of the tree's KUnit suites. */
struct kiln_kunit_order {
	const char *suite;
	const char *cases;	/* a pattern with * and ?; NULL: all */
	unsigned long bench;	/* its benchmarks, too */
	struct kiln_prove *prove;	/* step the functions of its interrupt tests; NULL: just run it */
};

#endif
