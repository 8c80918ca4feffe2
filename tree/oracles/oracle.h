/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Declarations shared by the oracles. An oracle checks a rule that every driver must follow,
 * regardless of its algorithm. Each oracle has its own file, and a function in the table in
 * examine.c. The tree's own build compiles the oracles. They use the services in services/oracle.c
 * and services/guard.c.
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

/* services/oracle.c: a description of the next call, for use in reports. */
struct kiln_case {
	const char *op;
	unsigned long len, aad;
	const char *layout;
	unsigned int number;	/* value of the varied parameter */
	const char *varied;	/* name of the varied parameter; NULL if no parameter is varied */
};
extern struct kiln_case kiln_case;

void kiln_subject_is(const char *oracle, const char *driver);
void kiln_violated(const char *rule, const char *what, const void *frame);
void kiln_violated_at(const char *rule, const char *what, const unsigned long *at,
		      unsigned int n);
/* Collects return addresses, innermost first. Returns their number. */
unsigned int kiln_trace(const void *frame, unsigned long *to, unsigned int most);
/* Reports a violation and the caller's backtrace. The tree's vsnprintf() formats the text. */
void kiln_violates(const char *rule, const char *format, ...) __printf(2, 3);

/* services/guard.c: allocates blocks that end at an unmapped page, or begin right after one. */
void kiln_guard(bool wanted);
void *kiln_fence(unsigned long size, bool at_start);
void kiln_unfence(void *p);
/* Sets the fill byte for allocated heap memory; -1 disables filling. */
void kiln_fill(int byte);
/* Makes allocation @nr from now fail, counted from 0. If @nr is -1, no allocation fails. */
void kiln_fail(long nr);
/* Return the number of allocations since kiln_fail(), and of unfreed blocks since kiln_mark(). */
unsigned long kiln_allocations(void);
unsigned long kiln_mark(void);
unsigned long kiln_leaked(unsigned long mark, bool tell);

/* Sets whether sleeping in atomic context is reported as a violation. */
void kiln_watch_sleep(bool wanted);

/* An open driver with a key and a request. */
struct kiln_subject {
	const struct kiln_examine *order;
	unsigned int type;	/* one of enum kiln_type */
	void *tfm;
	void *request;		/* has exactly the size that the driver requires */
	u8 *key;
	unsigned int key_len;
	unsigned int iv, block, tag, digest, state;
	unsigned int aad;	/* an accepted length of associated data */
	bool is_async;
	struct completion done;
	int answer;
	unsigned int completions;
	u32 flags;		/* flags of each request */
	/* Each request's callback. NULL selects the callback that kiln_await() waits for. */
	void (*answered)(struct kiln_subject *s, int answer);
};

int kiln_subject_open(struct kiln_subject *s, const struct kiln_examine *order);
/* Opens a driver without setting a key or allocating a request. */
int kiln_subject_alloc(struct kiln_subject *s, const struct kiln_examine *order);
int kiln_subject_request(struct kiln_subject *s);
/* Sets the request's flags and callback. kiln_submit() does this too. */
void kiln_subject_listen(struct kiln_subject *s);
int kiln_subject_setkey(struct kiln_subject *s, const u8 *key, unsigned int len);
void kiln_subject_close(struct kiln_subject *s);
bool kiln_subject_keyed(const struct kiln_subject *s);
/*
 * Generates a candidate for a key, of at most KILN_LONGEST_KEY bytes. The candidates are numbered
 * from 0 and cover every key format. Returns the key's length, or 0 after the last candidate.
 */
unsigned int kiln_subject_key(u8 *key, unsigned int number, u64 *draw);
/* Sets the first accepted key, and finds an accepted length of associated data. */
int kiln_subject_find_key(struct kiln_subject *s);

/* The arguments of one request. */
struct kiln_call {
	struct scatterlist *src, *dst;
	unsigned int len;	/* length of the text; if decrypt is set, includes the tag */
	unsigned int aad;
	u8 *iv;
	u8 *result;		/* buffer for a hash's digest */
	bool decrypt;
};

/* Submits a request without waiting for its completion. */
int kiln_submit(struct kiln_subject *s, const struct kiln_call *c);
/* Waits until the request is complete. @result is the value that kiln_submit() returned. */
int kiln_await(struct kiln_subject *s, int result);
int kiln_ask(struct kiln_subject *s, const struct kiln_call *c);
/*
 * Executes one step of a hash, such as crypto_ahash_update(), waits until it completes, and returns
 * its result. The request's completion callback must already be set (kiln_subject_listen()).
 */
int kiln_hash_step(struct kiln_subject *s, const u8 *from, unsigned int len, u8 *result,
		   int (*step)(struct ahash_request *request));

u64 kiln_draw_next(u64 *state);
void kiln_draw_bytes(u64 *state, u8 *to, unsigned long n);
u64 kiln_hash(u64 hash, const void *from, unsigned long n);
u64 kiln_seed_of(const struct kiln_examine *order);

/*
 * A message, its ciphertext or digest, and other buffers for a request. All are in ordinary memory.
 */
struct kiln_message {
	u8 *text, *sealed, *room;	/* all begin with associated data; room is spare */
	u8 *opened;		/* result of decryption; valid where written[] is set */
	u8 *written;		/* for each byte, whether decryption writes it */
	u8 iv[64], iv_out[64];
	unsigned int len, aad;
	int error;		/* result of encryption: 0 or an error */
	int open_error;		/* result of decryption: 0 or an error */
};

int kiln_message_alloc(struct kiln_message *m);
void kiln_message_free(struct kiln_message *m);
/* Generates a message and encrypts it with the driver, out of place, in one piece. */
void kiln_message_seal(struct kiln_subject *s, struct kiln_message *m, unsigned int len,
		       unsigned int aad, u64 *draw);
/* Decrypts the ciphertext with the driver, out of place, in one piece. */
void kiln_message_open(struct kiln_subject *s, struct kiln_message *m);
/* Returns the size in bytes of the ciphertext with associated data, or of the digest. */
unsigned int kiln_message_sealed(const struct kiln_subject *s, const struct kiln_message *m);

/* Record the reference counts of all drivers, and later check that they have not changed. */
void kiln_note_references(void);
void kiln_check_references(void);
void kiln_settle(void);		/* workqueue.c: waits until all queued work is done */

/*
 * Defines a jump through which other objects call a function of the tree (link.rs lists these
 * functions). The jump normally leads directly to the tree's own function, so calls are not slowed
 * down. kiln_turn() redirects it to Kiln's function.
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

/* Directs the jump to Kiln's function @check if @wanted, otherwise to the tree's function @past. */
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
