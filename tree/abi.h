/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Structures that crates/kiln-tree uses to pass arguments to the objects in tree/ and to get
 * results from them. They use only plain C types, so that this header can be included together with
 * the kernel's own headers.
 */
#ifndef KILN_TREE_ABI_H
#define KILN_TREE_ABI_H

#include "abi/audit.h"
#include "abi/messages.h"

/* request.c: makes requests through the tree's own crypto API. */

enum kiln_engine_kind { KILN_SKCIPHER, KILN_AEAD, KILN_SHASH, KILN_AHASH };

/* Which drivers of an algorithm to list or open. */
enum kiln_which { KILN_PUBLIC, KILN_INTERNAL, KILN_SYNCHRONOUS };

struct kiln_engine;

struct kiln_engine_open {
	const char *driver;
	unsigned int kind;
	unsigned int which;
	/* The following fields are results. */
	struct kiln_engine *engine;
	void *context;		/* the driver's own context, which holds its expanded key */
	unsigned int iv;
	unsigned int block;
	unsigned int digest;
	unsigned int tag;	/* largest tag size in bytes */
	unsigned int is_async;
	unsigned int keyed;	/* set for a cipher, and for a hash that requires a key */
};

struct kiln_engine_key {
	struct kiln_engine *engine;
	const unsigned char *key;
	unsigned int len;
	unsigned int tag;	/* AEAD tag size in bytes; 0 leaves it unchanged */
};

struct kiln_engine_requests {
	struct kiln_engine *engine;
	struct kiln_messages m;
};

struct kiln_engine_piece {
	unsigned char *at;
	unsigned long len;
};

/* One request whose source and destination are split into pieces. */
struct kiln_engine_request {
	struct kiln_engine *engine;
	const struct kiln_engine_piece *src, *dst;
	unsigned char *iv;
	unsigned char *result;	/* buffer for a hash's digest */
	unsigned long len;	/* excludes the prefix; for the source, includes the tag */
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
	unsigned long count;	/* on return: number of drivers */
};

/* library.c: calls functions that the tree's crypto library exports. */

enum kiln_library_kind {
	KILN_LIBRARY_CIPHER,
	KILN_LIBRARY_AEAD,
	KILN_LIBRARY_HASH,
	KILN_LIBRARY_AGREEMENT,
	KILN_LIBRARY_PARITY,	/* the result is half as long as the message */
};

/* Properties of a library function. */
enum kiln_library_flag {
	KILN_LIBRARY_TASK = 1,	/* call only from a task with softirqs and interrupts enabled */
	KILN_LIBRARY_PAIRS = 2,	/* each call takes two messages of the same length */
	KILN_LIBRARY_UNASKED = 4,	/* opens an FPU section without checking irq_fpu_usable() */
	KILN_LIBRARY_JUDGES = 8,	/* not exported; serves only to compute reference answers */
};

#define KILN_LIBRARY_KEYS 6

struct kiln_function;
struct kiln_library;

struct kiln_library_listed {
	const char *name;	/* exported name; for a series of calls, the first function */
	const char *alg;	/* algorithm name in the crypto API */
	const char *op;
	const char *judge;	/* another function that gives the same answers, or NULL */
	const struct kiln_function *function;
	unsigned int kind;
	unsigned short keys[KILN_LIBRARY_KEYS];	/* accepted key sizes in bytes, 0-terminated */
	unsigned short own_key;	/* key size, if it does not follow from the algorithm's name */
	unsigned short iv, prefix, tag, digest;
	unsigned int least, most, multiple;	/* accepted message lengths; 0 means no limit */
	unsigned int flags;
};

struct kiln_library_list {
	struct kiln_library_listed *listed;
	unsigned long room;
	unsigned long count;	/* on return: number of functions */
};

struct kiln_library_open {
	const struct kiln_function *function;
	const unsigned char *key;
	unsigned long len;
	struct kiln_library *library;	/* result */
};

struct kiln_library_run {
	struct kiln_library *library;
	unsigned long generic;	/* call inside an FPU section, which forces generic code */
	unsigned long timed;	/* measure the time, with preemption off, as KUnit's benchmarks do */
	unsigned long ns;	/* result: time of all calls; written only if @timed is set */
	struct kiln_messages m;
};

/* A call to a library function for one message. */
struct kiln_library_call {
	const struct kiln_library *library;
	unsigned char *iv;	/* the call may modify it */
	const unsigned char *src;
	unsigned char *dst;
	unsigned long len, prefix;
};

/*
 * The delays that delays.c measures, each from an interrupt to the start of the softirq that it
 * raises.
 */
struct kiln_library_delays {
	unsigned long *ticks;	/* delays in TSC ticks, one entry per interrupt */
	unsigned long room;
	unsigned long count;
};

/* contexts.c: runs a driver in every context from which it may be called. */

enum kiln_where { KILN_IN_TASK, KILN_IN_BH_OFF, KILN_IN_SOFTIRQ, KILN_WHERES };
enum kiln_type { KILN_TYPE_SKCIPHER, KILN_TYPE_AEAD, KILN_TYPE_HASH };

struct kiln_contexts {
	const char *driver, *generic;
	unsigned int type;
	unsigned int rounds;
	unsigned long softirqs;	/* minimum number of softirqs; gives up after 100 * rounds */
	unsigned long seed;
	/* The following fields are results. */
	int error;		/* error of opening the driver or setting its key, or 0 */
	int generic_error;
	unsigned long cases[KILN_WHERES], wrong[KILN_WHERES];
	unsigned long refused;	/* softirq requests that failed with -ENOSPC */
};

/* stream.c: makes a cipher of the tree's crypto API available as a load operation. */

struct kiln_stream;

struct kiln_stream_open {
	const char *driver;	/* a driver, or an algorithm to get its highest-priority driver */
	const unsigned char *key;
	unsigned int key_len;
	unsigned int slots;
	unsigned int sleeps;	/* whether requests come from a task and may be backlogged */
	struct kiln_stream *stream;	/* result */
	char name[128];		/* result: the driver's name */
};

/* Arguments of services/series.c, which calls the tree's assembly functions. */
struct kiln_primitive {
	unsigned long call;	/* calling convention, one of enum call */
	unsigned long fn[4];	/* addresses of the function and its companions */
	unsigned char *key;	/* expanded or raw key, depending on the convention */
	unsigned char *key2;	/* the tweak key, for XTS */
	unsigned long chunk;	/* number of bytes to process per call */
	unsigned long block;	/* block size, if the caller does the chaining */
	unsigned long extra;	/* an extra argument, whose meaning depends on the convention */
	const unsigned char *start;	/* initial state */
	unsigned long start_size;
	unsigned char *states;	/* space for one state per message */
	unsigned long digest;	/* result size in bytes */
	struct kiln_messages m;
};

/* services/service.h: parameters that the loader passes to the image. */
struct boot {
	unsigned long size;	/* size of this structure; must match the image's sizeof */
	char *arena;		/* zeroed memory, aligned to the largest block */
	unsigned long arena_size;
	unsigned char *page_class;	/* one byte per page of the arena, zeroed */
	unsigned long struct_pages;	/* address space reserved for the struct page array */
	char *areas;		/* the per-CPU areas, one after another */
	unsigned long area_size;
	unsigned long area_used;	/* offset in each area at which dynamic data begin */
	unsigned long ns_per_tick;	/* nanoseconds per TSC tick, multiplied by 2^32 */
	unsigned long seed;
	const char *const *skipped;	/* drivers whose self-tests are skipped, NULL-terminated */
	const unsigned short *hidden;	/* CPU features to hide, terminated by 0xffff */
	unsigned int cpus;
	int events;		/* file descriptor to which events are written */
	unsigned int tests;	/* whether the tree runs its self-tests */
	unsigned int tiers;	/* bit mask of enum kiln_tier: tiers visible to the tree */
	unsigned int lonely;	/* whether a wait can be ended only by the tree's own tasks */
};

/* prove.c: interrupts functions at every instruction. */

enum kiln_prove_context { KILN_PROVE_TASK, KILN_PROVE_SOFTIRQ, KILN_PROVE_HARDIRQ };

/* The result of stepping one function in one context. */
struct kiln_proof {
	char name[128];		/* the suite's case that calls the function */
	unsigned int context;
	unsigned long job;	/* number of the audit job that recorded the interrupts */
	unsigned int wrong_alone;	/* number of wrong answers before the first interrupt */
	unsigned long calls;	/* number of calls that were single-stepped */
	unsigned long addresses, points, injected, masked;	/* see struct kiln_audit */
	unsigned long answers;	/* answers checked, including the answers of interrupting calls */
	unsigned long in_softirqs;	/* answers checked in softirqs raised by the interrupts */
	unsigned long wrong;	/* answers that were wrong */
	unsigned long wrong_call, wrong_step;	/* call and step of the first wrong answer */
	unsigned long changed;	/* interrupts that changed registers of an open section */
	unsigned long changed_call, changed_step, changed_at;
	unsigned long left_open;	/* number of calls that returned with an FPU section open */
	unsigned long left_open_call, opener;
	unsigned long digest;	/* digest of the instructions in calls without interrupts */
	unsigned int same;	/* whether the digest was known; if so, there were no interrupts */
};

struct kiln_prove {
	struct kiln_audit audit;
	unsigned int contexts;	/* bit mask of enum kiln_prove_context */
	unsigned int room;	/* capacity of proofs */
	unsigned int count;	/* on return: number of entries in proofs */
	unsigned long visits;	/* interrupts per instruction, see struct kiln_audit */
	struct kiln_proof *proofs;
	const unsigned long *known;	/* digests of functions that were interrupted before */
	unsigned long known_count;
};

/* A message for a library function, with the expected result. */
struct kiln_prove_message {
	const struct kiln_library *library;
	const unsigned char *iv, *src;
	const unsigned char *second;	/* second message, if a call takes two */
	unsigned char *expected;
	unsigned long iv_size, len, prefix, result;
};

#define KILN_PROVE_LEVELS 8	/* maximum nesting depth of interrupting calls */

/* A library function to be single-stepped. */
struct kiln_prove_library {
	const char *name;
	struct kiln_prove *prove;
	const struct kiln_prove_message *messages;	/* sorted, the shortest first */
	unsigned long count;
	unsigned long brief;	/* number of messages that calls in interrupts use */
	unsigned char *rooms;	/* buffers for an IV and a result, one per nesting level */
	unsigned long room;	/* size in bytes of one of these buffers */
	unsigned int flags;	/* bits of enum kiln_library_flag */
};

/* oracles/: checks rules that every driver must follow. */

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

#define KILN_QUEUE_LENGTH 6	/* length of cryptd's per-CPU queue under the oracle "queues" */

/* context.c: reasons why the current context may not sleep. */
enum kiln_atomic {
	KILN_ATOMIC_HARDIRQ = 1,
	KILN_ATOMIC_SOFTIRQ = 2,
	KILN_ATOMIC_BH_OFF = 4,
	KILN_ATOMIC_PREEMPT_OFF = 8,
	KILN_ATOMIC_IRQS_OFF = 16,
};

/*
 * Arguments of reach.c, which instantiates each template over each child that fits, and then
 * reports all available algorithms.
 */
struct kiln_reach {
	void *templates;	/* the tree's own list of templates */
	const char *const *skipped;	/* names that must not be instantiated, NULL-terminated */
};

/*
 * sharing.c: a second CPU, which stays in kiln_glue_peer() until `ends` is set. It makes one
 * request each time `asked` is increased.
 */
struct kiln_peer {
	unsigned int asked;	/* total number of requests to make; increase it to start one */
	unsigned int done;	/* total number of requests completed */
	unsigned int ends;	/* set to make kiln_glue_peer() return */
};

/* Arguments of examine.c, which checks one driver with one oracle. */
struct kiln_examine {
	const char *oracle;	/* name of the oracle, for reports */
	const char *name;	/* name under which to allocate the driver */
	const char *alg;	/* algorithm of the driver, which determines the messages */
	unsigned int number;	/* one of enum kiln_oracle */
	unsigned int type;	/* one of enum kiln_type */
	unsigned int internal;
	unsigned int thorough;
	unsigned long seed;
	/*
	 * One hash word for the key, followed by one word per group of cases. Drivers with equal
	 * answers have equal words; 0 means that the group is not compared.
	 */
	unsigned long *answers;
	unsigned long room;
	struct kiln_audit *audit;	/* single-step audit, or NULL if the oracle does not step */
	unsigned long steps;	/* whether to single-step only, without any other checks */
	struct kiln_peer *peer;		/* second CPU, or NULL if the oracle does not use one */
	/* The following fields are results. */
	unsigned long count;	/* number of answers */
	unsigned long cases;
	unsigned long refused;	/* cases that the driver refuses even with ordinary buffers */
	int error;		/* error of opening the driver or setting its key, or 0 */
};

/* Arguments of kunit.c, which runs one of the tree's KUnit suites. */
struct kiln_kunit_order {
	const char *suite;
	const char *cases;	/* pattern with * and ?; NULL selects all cases */
	unsigned long bench;	/* whether to run the suite's benchmarks as well */
	struct kiln_prove *prove;	/* how to single-step functions; NULL disables stepping */
	unsigned char *timer_armed;	/* 1 while a timer of the suite is armed, otherwise 0 */
};

#endif
