/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Declarations shared by the oracles. An oracle is a rule for every driver, whatever it computes.
 * Each has a file, and a function in the table of examine.c. All are compiled by the tree's own
 * build. The services they use are services/oracle.c and services/guard.c.
 */
#ifndef KILN_ORACLE_H
#define KILN_ORACLE_H

#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include <crypto/hash.h>

#include "kiln/tree.h"

#define KILN_LONGEST 8192	/* maximum message size in bytes, with tag and associated data */
#define KILN_PIECES_MOST 12
#define KILN_LONGEST_KEY 1088

/* services/oracle.c: describes the next call, for reports. */
struct kiln_case {
	const char *op;
	unsigned long len, aad;
	const char *layout;
	unsigned int number;	/* value of the varied parameter */
	const char *varied;	/* name of that parameter; NULL: none */
};
extern struct kiln_case kiln_case;

void kiln_subject_is(const char *oracle, const char *driver);
void kiln_violated(const char *rule, const char *what, const void *frame);
void kiln_violated_at(const char *rule, const char *what, const unsigned long *at,
		      unsigned int n);
/* Collects return addresses, innermost first; returns how many. */
unsigned int kiln_trace(const void *frame, unsigned long *to, unsigned int most);
/* Reports a violation at the caller's location. The format is the tree's own vsnprintf()'s. */
void kiln_violates(const char *rule, const char *format, ...) __printf(2, 3);

/* services/guard.c: blocks that end at an unmapped page, or begin right after one. */
void kiln_guard(bool wanted);
void *kiln_fence(unsigned long size, bool at_start);
void kiln_unfence(void *p);
/* Sets the byte with which the heap is filled on allocation; -1: leave it as it is. */
void kiln_fill(int byte);
/* Makes the allocation with this number fail, counted from 0; -1: none. */
void kiln_fail(long nr);
/* Number of allocations since kiln_fail(), and of blocks still allocated since kiln_mark(). */
unsigned long kiln_allocations(void);
unsigned long kiln_mark(void);
unsigned long kiln_leaked(unsigned long mark, bool tell);

/* Sets whether sleeping in atomic context is reported as a violation. */
void kiln_watch_sleep(bool wanted);

/* An open driver with a key and a request. */
struct kiln_subject {
	const struct kiln_examine *order;
	unsigned int type;	/* enum kiln_type */
	void *tfm;
	void *request;		/* exactly as large as the driver requires */
	u8 *key;
	unsigned int key_len;
	unsigned int iv, block, tag, digest, state;
	unsigned int aad;	/* length of associated data it accepts */
	bool is_async;
	struct completion done;
	int answer;
	unsigned int completions;
	u32 flags;		/* flags for its requests */
	/* Callback of requests; NULL: the one that kiln_await() waits for. */
	void (*answered)(struct kiln_subject *s, int answer);
};

int kiln_subject_open(struct kiln_subject *s, const struct kiln_examine *order);
/* Opens a driver without setting a key or allocating a request. */
int kiln_subject_alloc(struct kiln_subject *s, const struct kiln_examine *order);
int kiln_subject_request(struct kiln_subject *s);
/* Sets the request's flags and callback, as kiln_submit() does. */
void kiln_subject_listen(struct kiln_subject *s);
int kiln_subject_setkey(struct kiln_subject *s, const u8 *key, unsigned int len);
void kiln_subject_close(struct kiln_subject *s);
bool kiln_subject_keyed(const struct kiln_subject *s);
/*
 * Generates the key candidates one by one, in every format and at most KILN_LONGEST_KEY bytes long.
 * Returns 0 when there are no more.
 */
unsigned int kiln_subject_key(u8 *key, unsigned int number, u64 *draw);
/* Sets the first accepted key, and determines the accepted length of associated data. */
int kiln_subject_find_key(struct kiln_subject *s);

/* One request. */
struct kiln_call {
	struct scatterlist *src, *dst;
	unsigned int len;	/* text length; including the tag for decryption */
	unsigned int aad;
	u8 *iv;
	u8 *result;		/* a hash's digest */
	bool decrypt;
};

/* Submits a request without waiting. */
int kiln_submit(struct kiln_subject *s, const struct kiln_call *c);
/* Waits for completion, given what kiln_submit() returned. */
int kiln_await(struct kiln_subject *s, int result);
int kiln_ask(struct kiln_subject *s, const struct kiln_call *c);
/* A part of a hash, such as crypto_ahash_update(), and its answer. The callback is the one that was set last. */
int kiln_hash_step(struct kiln_subject *s, const u8 *from, unsigned int len, u8 *result,
		   int (*step)(struct ahash_request *request));

u64 kiln_draw_next(u64 *state);
void kiln_draw_bytes(u64 *state, u8 *to, unsigned long n);
u64 kiln_hash(u64 hash, const void *from, unsigned long n);
u64 kiln_seed_of(const struct kiln_examine *order);

/* A message, its encryption or digest, and the other buffers of a request, in ordinary memory. */
struct kiln_message {
	u8 *text, *sealed, *room;	/* starting with associated data; room: a spare buffer */
	u8 *opened;		/* result of decryption, where it writes */
	u8 *written;		/* whether it writes each byte */
	u8 iv[64], iv_out[64];
	unsigned int len, aad;
	int error;		/* from encryption */
	int open_error;		/* from decrypting the result */
};

int kiln_message_alloc(struct kiln_message *m);
void kiln_message_free(struct kiln_message *m);
/* Draws a message and lets the driver encrypt it, out of place, in one piece. */
void kiln_message_seal(struct kiln_subject *s, struct kiln_message *m, unsigned int len,
		       unsigned int aad, u64 *draw);
/* Lets the driver decrypt what it encrypted, in the same way. */
void kiln_message_open(struct kiln_subject *s, struct kiln_message *m);
/* Size in bytes of the encrypted message, including associated data, or of the digest. */
unsigned int kiln_message_sealed(const struct kiln_subject *s, const struct kiln_message *m);

/* References to all drivers, which are compared with what they were. */
void kiln_note_references(void);
void kiln_check_references(void);
void kiln_settle(void);		/* services/workqueue.c: waits until no work is pending */

/*
 * A function of the tree that calls of other objects reach by a jump (link.rs has their names), which leads past
 * Kiln's function until kiln_turn() turns it, so that nothing takes longer.
 */
#define KILN_JUMP(fn)                                                                             \
	extern u8 __wrap_##fn[];                                                                  \
	__asm__(".pushsection .text\n"                                                            \
		".globl __wrap_" #fn "\n"                                                         \
		".weak __real_" #fn "\n"                                                          \
		".type __wrap_" #fn ", @function\n"                                               \
		"__wrap_" #fn ":\n"                                                               \
		"	.byte 0xe9\n"                                                             \
		"	.long __real_" #fn " - . - 4\n"                                           \
		"	ret\n	int3\n"                                                           \
		".size __wrap_" #fn ", . - __wrap_" #fn "\n"                                      \
		".popsection\n");

/* @past: the function; @check: Kiln's, which is called instead if it is @wanted. */
void kiln_turn(u8 *jump, const void *past, const void *check, bool wanted);

void kiln_examine_memory(struct kiln_examine *order);
void kiln_examine_context(struct kiln_examine *order);
void kiln_examine_values(struct kiln_examine *order);
void kiln_examine_leaks(struct kiln_examine *order);
void kiln_examine_failures(struct kiln_examine *order);
void kiln_examine_fill(struct kiln_examine *order);
void kiln_examine_queues(struct kiln_examine *order);
void kiln_examine_sharing(struct kiln_examine *order);
void kiln_examine_registers(struct kiln_examine *order);
void kiln_examine_features(struct kiln_examine *order);
void kiln_examine_bounds(struct kiln_examine *order);
void kiln_examine_sequence(struct kiln_examine *order);

#endif
