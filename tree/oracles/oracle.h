/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the oracles share. An oracle is a rule that every driver must keep, whatever it computes.
 * Each has a file with a function in the table of examine.c. All is compiled by the tree's own build;
 * the services behind it are services/oracle.c and services/guard.c.
 */
#ifndef KILN_ORACLE_H
#define KILN_ORACLE_H

#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include <crypto/hash.h>

#include "kiln/tree.h"

#define KILN_LONGEST 8192	/* bytes of a message, tag and associated data included */
#define KILN_PIECES_MOST 12
#define KILN_LONGEST_KEY 1088

/* services/oracle.c: what is called next, for the report of whatever happens then. */
struct kiln_case {
	const char *op;
	unsigned long len, aad;
	const char *layout;
	unsigned int number;	/* of what the oracle varies */
	const char *varied;	/* what that is; NULL: nothing */
};
extern struct kiln_case kiln_case;

void kiln_subject_is(const char *oracle, const char *driver);
void kiln_violated(const char *rule, const char *what, const void *frame);
void kiln_violated_at(const char *rule, const char *what, const unsigned long *at,
		      unsigned int n);
/* Return addresses, the innermost first; how many. */
unsigned int kiln_trace(const void *frame, unsigned long *to, unsigned int most);
/* With a format of the tree's own vsnprintf(). The place is the caller's. */
void kiln_violates(const char *rule, const char *format, ...) __printf(2, 3);

/* services/guard.c: blocks that end at an unmapped page, or begin behind one. */
void kiln_guard(bool wanted);
void *kiln_fence(unsigned long size, bool at_start);
void kiln_unfence(void *p);
/* The byte that memory has before it is written, of the heap from now on; -1: whatever was there. */
void kiln_fill(int byte);
/* From now on the allocation of this number fails, counted from 0; -1: none. */
void kiln_fail(long nr);
/* Allocations since kiln_fail() was called, and those that are still there since kiln_mark(). */
unsigned long kiln_allocations(void);
unsigned long kiln_mark(void);
unsigned long kiln_leaked(unsigned long mark, bool tell);

/* What happens where code may not sleep is a violation from now on. */
void kiln_watch_sleep(bool wanted);

/* A driver that is open, with a key and a request. */
struct kiln_subject {
	const struct kiln_examine *order;
	unsigned int type;	/* enum kiln_type */
	void *tfm;
	void *request;		/* exactly as large as the driver asks for */
	u8 *key;
	unsigned int key_len;
	unsigned int iv, block, tag, digest, state;
	unsigned int aad;	/* associated data that it takes */
	bool is_async;
	struct completion done;
	int answer;
	unsigned int completions;
	u32 flags;		/* of requests */
	/* The callback of requests; NULL: what kiln_await() waits for. */
	void (*answered)(struct kiln_subject *s, int answer);
};

int kiln_subject_open(struct kiln_subject *s, const struct kiln_examine *order);
/* The same without a key and without a request. */
int kiln_subject_alloc(struct kiln_subject *s, const struct kiln_examine *order);
int kiln_subject_request(struct kiln_subject *s);
/* The request's flags and callback, as kiln_submit() sets them. */
void kiln_subject_listen(struct kiln_subject *s);
int kiln_subject_setkey(struct kiln_subject *s, const u8 *key, unsigned int len);
void kiln_subject_close(struct kiln_subject *s);
bool kiln_subject_keyed(const struct kiln_subject *s);
/* Keys that could fit, of every form, at most KILN_LONGEST_KEY bytes; 0: no more. */
unsigned int kiln_subject_key(u8 *key, unsigned int number, u64 *draw);
/* Sets the first that fits, and finds out which associated data it takes. */
int kiln_subject_find_key(struct kiln_subject *s);

/* One request. */
struct kiln_call {
	struct scatterlist *src, *dst;
	unsigned int len;	/* of the text, with the tag if it is decrypted */
	unsigned int aad;
	u8 *iv;
	u8 *result;		/* of a hash */
	bool decrypt;
};

/* Submits it, without waiting. */
int kiln_submit(struct kiln_subject *s, const struct kiln_call *c);
/* Waits for the answer to what kiln_submit() returned. */
int kiln_await(struct kiln_subject *s, int result);
int kiln_ask(struct kiln_subject *s, const struct kiln_call *c);
/* A part of a hash, such as crypto_ahash_update(), and its answer. The callback is the one that was set last. */
int kiln_hash_step(struct kiln_subject *s, const u8 *from, unsigned int len, u8 *result,
		   int (*step)(struct ahash_request *request));

u64 kiln_draw_next(u64 *state);
void kiln_draw_bytes(u64 *state, u8 *to, unsigned long n);
u64 kiln_hash(u64 hash, const void *from, unsigned long n);
u64 kiln_seed_of(const struct kiln_examine *order);

/* A message, its encryption (or digest), and what else a request needs; in ordinary memory. */
struct kiln_message {
	u8 *text, *sealed, *room;	/* associated data first; room: for one more */
	u8 *opened;		/* what decryption makes of it, where it writes at all */
	u8 *written;		/* whether it writes each byte */
	u8 iv[64], iv_out[64];
	unsigned int len, aad;
	int error;		/* of encrypting it */
	int open_error;		/* of decrypting that */
};

int kiln_message_alloc(struct kiln_message *m);
void kiln_message_free(struct kiln_message *m);
/* Draws it and lets the driver encrypt it, out of place, in one piece. */
void kiln_message_seal(struct kiln_subject *s, struct kiln_message *m, unsigned int len,
		       unsigned int aad, u64 *draw);
/* Lets the driver decrypt what it encrypted, likewise. */
void kiln_message_open(struct kiln_subject *s, struct kiln_message *m);
/* Bytes of the encrypted message, associated data included, or of the digest. */
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
