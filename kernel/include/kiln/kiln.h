/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border: every function that crosses from kernel/ to the world around it.
 * crates/kiln-kernel binds this file, hosted.h, esp.h and nothing else.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <kiln/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/hosted.h>
#include <kiln/types.h>

struct cpu;
struct cpu_stats;
struct task;
struct histogram;

enum kiln_sections {
	KILN_ONE_SECTION,	/* around all calls */
	KILN_SECTION_EACH,	/* one for each call */
	KILN_SECTION_EACH_UNTIMED,	/* the same without the section clock */
};

/* Whose rules choose the task that runs: cpu/sched.c. */
enum kiln_scheduler { KILN_CFS_6_1, KILN_EEVDF_6_12, KILN_EEVDF_7_3 };
/* Up to so many tasks share one period of CFS. */
enum { KILN_CFS_LATENCY_TASKS = 8 };

/* How an emulated CPU is to behave, and what it may use. */
struct kiln_cpu_config {
	u32 number;
	bool preempt_full;	/* else voluntary */
	u64 ticks_per_us;	/* of the TSC */
	u32 scheduler;		/* enum kiln_scheduler */
	u64 tick_us;
	u64 slice_us;		/* EEVDF: base slice; CFS: minimal granularity */
	u64 latency_us;		/* CFS: the period that tasks share */
	u64 wakeup_us;		/* CFS: a woken task so far behind preempts */
	u64 switch_ns;		/* charged for each switch of tasks */
	struct task *tasks;	/* kiln_task_size() bytes each, zero, aligned to 64 */
	u32 nr_tasks;
	u8 *kstacks;		/* as many stacks, lowest address first */
	u64 kstack_size, kstack_stride;
	/*
	 * A word that the host overwrites when it takes the CPU away, and what to
	 * write there so that this can be seen; NULL where there is no such word.
	 */
	volatile u64 *witness;
	u64 witness_armed;
};

enum { KILN_HISTOGRAM_SECTION, KILN_HISTOGRAM_SOFTIRQ_LATENCY };

/*
 * cpu/cpu.c. The host allocates kiln_cpu_size() bytes, aligned to 64, and points the
 * thread's GS base to them after kiln_cpu_init(); then kiln_cpu_start(), in kernel
 * mode, makes the kthreads every CPU has.
 */
KILN_EXPORT size_t kiln_cpu_size(void);
KILN_EXPORT size_t kiln_task_size(void);
KILN_EXPORT void kiln_cpu_init(struct cpu *cpu, const struct kiln_cpu_config *config);
KILN_EXPORT void kiln_cpu_configure(struct cpu *cpu,
				    const struct kiln_cpu_config *config);
KILN_EXPORT void kiln_cpu_start(void);
/* Before its memory goes; no interrupt comes any more. */
KILN_EXPORT void kiln_cpu_stop(struct cpu *cpu);
KILN_EXPORT struct cpu_stats *kiln_cpu_stats(struct cpu *cpu);
KILN_EXPORT struct histogram *kiln_cpu_histogram(struct cpu *cpu, u32 which);
KILN_EXPORT void kiln_cpu_reset_stats(struct cpu *cpu);
/* A control: nested saves of @cpu go to the area of @owner. */
KILN_EXPORT void kiln_cpu_share_area(struct cpu *cpu, struct cpu *owner);

/* cpu/entry.S: kernel mode, by call and by interrupt; see there */
KILN_EXPORT u64 kiln_gate(u64 (*fn)(void *arg), void *arg);
KILN_EXPORT extern const u8 kiln_irq_trampoline[];

/*
 * fpu/section.c: so many policies are Kiln's own, those of hosted trees follow. By
 * number, NULL after the last; set while no section is open.
 */
KILN_EXPORT u32 kiln_fpu_policies(void);
KILN_EXPORT const char *kiln_fpu_policy(u32 i);
KILN_EXPORT void kiln_fpu_policy_set(u32 i);
/* fpu/xstate.c: bytes a save takes on this CPU */
KILN_EXPORT u32 kiln_fpstate_size(void);
/* A control: leave these features (bits of XCR0) out of every save from now on. */
KILN_EXPORT void kiln_fpstate_forget(u32 features);

/* cpu/feature.c: as the functions of cpufeature.h */
KILN_EXPORT u32 kiln_tiers_present(void);
KILN_EXPORT u32 kiln_tiers(void);
KILN_EXPORT const char *kiln_tier_lacks(u32 tier);
KILN_EXPORT void kiln_tiers_mask(u32 mask);

/*
 * An operation of other code that may answer later, as a request to the kernel's crypto
 * API does: 0 when it is done; -EINPROGRESS, or -EBUSY when it waits for a place in a
 * queue, if @done will be called with the answer (and with -EINPROGRESS before that
 * when it has got a place); another error, -ENOSPC when a queue is full, if it will not.
 * @slot, below the operation's @slots, is not in flight when it is called.
 */
struct kiln_op {
	int (*crypt)(void *ctx, u32 slot, u8 *dst, const u8 *src, size_t len,
		     const u8 *iv, bool decrypt,
		     void (*done)(void *data, int answer), void *data);
	void *ctx;
	u32 slots;
};

/* What a load keeps of an operation in flight; the host provides one for each slot. */
struct kiln_op_slot {
	struct kiln_load_side *side;
	struct kiln_op_slot *next;	/* of those that are free */
	u64 seq;
	u32 message;
};

/*
 * ciphers/list.c: the implementations of all algorithms (kiln/cipher.h), by number. NULL
 * after the last.
 */
KILN_EXPORT size_t kiln_impls(void);
KILN_EXPORT const struct kiln_impl *kiln_impl(size_t i);
/* The folder of ciphers/ whose table @impl is in; NULL if none has it. */
KILN_EXPORT const char *kiln_impl_folder(const struct kiln_impl *impl);

/*
 * Calls of one implementation with nothing between them: message i (of @count, round and
 * round) is at src + i * stride, its result goes to dst + i * stride, its IV is iv + i *
 * ivsize, its associated data aad + i * aadlen, its tag or digest tag + i * tag_stride.
 */
struct kiln_series {
	const struct kiln_impl *impl;
	const void *ctx;
	u8 *dst;
	const u8 *src, *iv, *aad;
	u8 *tag;
	size_t len, stride, aadlen, tagsize, tag_stride;
	size_t count;
	u64 calls;
	bool decrypt;
	u32 sections;		/* enum kiln_sections */
	u64 refused;		/* out: tags that were wrong */
};

/* For kiln_gate(): 0, or how many were refused. */
KILN_EXPORT u64 kiln_impl_series(void *series);

/*
 * load/calls.c: calls to be timed, in one FPU section, or with @sections, which skciphers
 * have, in a section each. Message i (of @count, then from the
 * start again until @calls are made) is at src + i * src_stride, its result at dst + i *
 * dst_stride, and so on; what an algorithm does not have is not read. IVs are in @fresh and
 * are copied to @iv before they are used, for functions leave others than they found. With
 * @chained, which skciphers have, each IV is the beginning of the last result instead.
 */
struct kiln_calls {
	const struct kiln_impl *impl;
	const void *ctx;
	u8 *dst;
	const u8 *src, *fresh, *aad;
	u8 *iv, *tag;
	size_t len, src_stride, dst_stride, iv_stride, aad_stride, tag_stride;
	size_t aadlen, tagsize;
	size_t count;
	u64 calls;
	bool decrypt, chained;
	bool many;		/* encrypt_many() of up to KILN_QUEUE messages at a time */
	u32 sections;		/* enum kiln_sections */
};

/* What a network device's poll hands on at most. */
enum { KILN_QUEUE = 64 };

/* For kiln_gate(): 0, or how many were refused for a wrong tag. */
KILN_EXPORT u64 kiln_calls_run(void *calls);

/*
 * One message in pieces. The first @aad_pieces of them are of the associated data. With
 * @other the two implementations take turns, step by step, on one state. The tag is
 * written, whether the message is en- or decrypted.
 */
struct kiln_pieces {
	const struct kiln_impl *impl, *other;
	const void *ctx;
	u8 *dst;
	const u8 *src, *iv, *aad;
	u8 *tag;
	size_t len, aadlen, tagsize;
	bool decrypt;
	const u32 *piece;
	u32 pieces, aad_pieces;
};

/* For kiln_gate(). */
KILN_EXPORT u64 kiln_impl_pieces(void *pieces);

/*
 * A load: a task that encrypts while interrupts come, and what they do.
 *
 * Message i of the task (of @count, round and round) is at src + i * stride; with the
 * right answer at want + i * stride. Softirqs have messages of their own. The answer
 * comes to dst + i * stride; that of an operation in slot i, whatever its message. The
 * algorithm is xts(aes), which does not modify IVs.
 */
struct kiln_load_side {
	const struct kiln_impl *impl;	/* of xts(aes); NULL: keep patterns in all registers */
	const struct kiln_op *op;	/* if not NULL, instead of both */
	struct kiln_op_slot *slots;
	u32 depth;		/* a task has so many in flight before it waits */
	const void *ctx;
	const u8 *src, *want;
	u8 *dst, *iv;
	u32 len, stride, count;
	u32 next;
	bool decrypt;
	u64 ops, corrupted;
	/* Of operations that may answer later: */
	u64 async_punts;	/* they did */
	u64 dropped;		/* a queue was full, or all slots in flight */
	u64 reordered;		/* answered after one that was put later */
	u64 errors;		/* any other answer, which counts as corrupted, too */
	struct kiln_op_slot *free;
	u32 in_flight;
	u64 put, answered;	/* sequence numbers */
};

struct kiln_load {
	struct kiln_load_side task, softirq;
	struct kiln_load_side second;	/* of a kthread beside the task, if impl */
	bool stop_second, second_stopped;
	const struct kiln_impl *fallback;	/* where SIMD is not usable */
	bool empty;		/* the control: interrupts do nothing */
	bool hardirq_fpu;	/* the hardirq handler uses the FPU, too, where it may */
	bool step;		/* single-step each of the task's sections ... */
	bool step_softirq;	/* ... or each of the softirqs' */
	void (*hardirq_hook)(void);	/* the host's, a control: breaks law 2 */
	u64 ops;		/* operations of one kiln_load_run() */
	u64 spins;		/* how long patterns are kept */
	const u8 *pattern;
	u8 *found;
	u64 scalar_fallbacks, hardirq_sections;
};

/* load/load.c: functions for kiln_gate(); arg is the load */
KILN_EXPORT u64 kiln_load_attach(void *load);
KILN_EXPORT u64 kiln_load_run(void *load);
KILN_EXPORT u64 kiln_load_detach(void *load);
/*
 * While interrupts do nothing (empty): wait for what is under way; get ready after the
 * host has changed task and softirq.
 */
KILN_EXPORT u64 kiln_load_drain(void *load);
KILN_EXPORT u64 kiln_load_ready(void *load);
/* Bytes of a pattern: see load.c */
KILN_EXPORT size_t kiln_pattern_size(void);

/*
 * load/call.c, for kiln_gate(): one call of one function of an implementation, in a context
 * and in a section of its own.
 */
struct kiln_call {
	const void *fn;
	const void *scalar;	/* in its place where no section may be opened, or NULL */
	u64 arg[9];
	/* If not NULL, makes the call: a host's look at the registers before and after it. */
	u64 (*through)(void *registers, const void *fn, const u64 *arg);
	void *registers;
	u32 context;		/* enum kiln_context */
	bool section;		/* @fn needs one */
	bool step;		/* single-step the section */
	bool done;		/* out: false where there was no way to call it */
	bool fell_back;		/* out: @scalar was called */
	u32 preempt_count;	/* out: there */
	u64 result;		/* out */
};

KILN_EXPORT u64 kiln_call(void *call);

/*
 * load/guest.c, for kiln_gate(): from attach to detach each interrupt raises a softirq that
 * serves one of the first @softirqs guests, and itself serves one of the @hardirqs after them.
 */
struct kiln_guest {
	const void *fn, *scalar;	/* as above */
	u64 arg[9];
	bool section;
	u8 *iv;			/* written from @iv_of before each call: functions change it */
	const u8 *iv_of;
	u32 ivsize;
	u8 *got;		/* the answer, @len bytes, at least one */
	const u8 *want;
	u32 len;
};

struct kiln_guests {
	struct kiln_guest *guest;
	u32 softirqs, hardirqs;
	u32 next, next_hardirq;
	u64 interrupts;
	u64 into_sections;	/* of them */
	u64 served, sections, scalar_fallbacks, corrupted;
};

KILN_EXPORT u64 kiln_guests_attach(void *guests);
KILN_EXPORT u64 kiln_guests_detach(void *guests);

/* load/context.c: what irq_fpu_usable() and begin say in each context, for kiln_gate() */
struct kiln_usable {
	u32 context;		/* enum kiln_context */
	bool in_section;	/* with a section of the context below in progress ... */
	bool over_section;	/* ... when the question was put */
	bool usable;
	u64 warnings;		/* of opening one there all the same, if usable or task */
	u32 preempt_count;	/* there, before it is opened */
	u32 preempt_after;	/* in the task, when all is over */
};

enum kiln_context {
	KILN_TASK,
	KILN_TASK_BH_OFF,
	KILN_SOFTIRQ,
	KILN_HARDIRQ,
	KILN_HARDIRQ_OVER_BH_OFF,
	KILN_HARDIRQ_OVER_SOFTIRQ,
	KILN_NMI,
	KILN_NR_CONTEXTS
};

KILN_EXPORT u64 kiln_usable(void *usable);

/* load/scene_cpu.c: a scene (kiln/scene.h), for kiln_gate() */
KILN_EXPORT u64 kiln_scene(void *scene);

/*
 * load/storm.c, for kiln_gate(): a softirq that raises itself again, and work it queues.
 * Returns when all of it is done, non-zero if there was no task for the bystander.
 */
struct kiln_storm {
	u32 raises;		/* so many softirqs in all */
	u32 spin_us;		/* that each takes at least */
	bool interrupt;		/* a hardirq comes into each of them */
	bool bystander;		/* another task wants the CPU all the time */
	bool queue_works;	/* each queues four works, if they are not queued yet */
	bool raise_in_irq;	/* that hardirq raises the next one, not the softirq */
	u32 served;
	u32 first_loop;		/* of them, before the task went on */
	u32 by_ksoftirqd;	/* of them, while ksoftirqd was the task */
	u32 works_accepted, works_refused, works_run;
	u32 works_misplaced;	/* not in the kworker, or in atomic context */
	u32 count_before, count_after;	/* preempt counts */
};

KILN_EXPORT u64 kiln_storm(void *storm);

/*
 * load/wakeup.c, for kiln_gate(): one task sleeps, an interrupt over another wakes it. Use it
 * once per CPU, with full preemption. Returns non-zero if all tasks were in use.
 */
struct kiln_wakeup {
	u32 wait_us;		/* that the sleeper is runnable before it runs first */
	u32 busy_us;		/* that it runs before it sleeps */
	u32 asleep_us;		/* that the other task runs meanwhile */
	bool preempted;		/* the woken task ran before the interrupt returned */
	u64 busy_for, asleep_for;	/* TSC ticks it took */
	s64 slice_left;		/* of the other task at the wake-up, TSC ticks */
};

KILN_EXPORT u64 kiln_wakeup(void *wakeup);

/* Empty pairs of begin and end, for kiln_gate(). */
struct kiln_fpu_pairs {
	u64 pairs;
	bool timed;	/* with the section clock, as ever, or without */
};

KILN_EXPORT u64 kiln_fpu_pairs(void *pairs);

/* The registers saved and restored in a section, all in use, for kiln_gate(). */
struct kiln_fpu_saves {
	u64 saves;
};

KILN_EXPORT u64 kiln_fpu_saves(void *saves);
/* lib/slab.c: memory for transforms; once, before anything of crypto/ is called */
KILN_EXPORT void kiln_slab_give(void *memory, size_t size);

/* Pieces of memory; the last is marked. A chain is no piece: the next ones are at @addr. */
struct scatterlist {
	u8 *addr;
	u32 length;
	bool last;
	bool chain;
};

/*
 * crypto/border.c: the crypto API (kiln/crypto.h). Functions that take a void pointer are
 * for kiln_gate().
 */
KILN_EXPORT int kiln_crypto_init(void);
/* Which algorithms there are: enum crypto_model. */
KILN_EXPORT void kiln_crypto_model(u32 model);
KILN_EXPORT size_t kiln_slab_in_use(void);

struct kiln_tfm {
	const char *name;	/* of the algorithm or of the driver */
	u32 type, mask;
	void *tfm;		/* NULL if there is none */
	const char *driver;	/* that it turned out to be */
	u32 flags;		/* of its algorithm */
	int priority;
	u32 ivsize;
	int err;
};

KILN_EXPORT u64 kiln_crypto_open(void *tfm);
KILN_EXPORT u64 kiln_crypto_close(void *tfm);

struct kiln_setkey {
	void *tfm;
	const u8 *key;
	u32 len;
	int err;
};

KILN_EXPORT u64 kiln_crypto_setkey(void *setkey);
/* The same structure: @len bytes for tags. */
KILN_EXPORT u64 kiln_crypto_setauthsize(void *setkey);
/* crypto/seqiv.c: where its salts begin. */
KILN_EXPORT void kiln_crypto_seed(u64 seed);

/* One request, made in a context (enum kiln_context); the task waits for its answer. */
struct kiln_request {
	void *tfm;
	struct scatterlist *src, *dst;
	u8 *iv;
	u32 assoclen;		/* of an AEAD's, at the beginning of the pieces */
	u32 len;		/* behind that, with the tag when decrypting */
	bool decrypt;
	u32 context;
	int submitted;		/* what the call returned */
	int result;		/* what it came to */
};

KILN_EXPORT u64 kiln_crypto_request(void *request);

/*
 * Requests one after the other, as a user makes them: message i (of @count, round and
 * round) is at src + i * stride in one piece, its answer goes to dst + i * stride, its IV
 * is iv + 16 * i. Each is waited for.
 */
struct kiln_requests {
	void *tfm;
	u8 *dst;
	u8 *src;
	u8 *iv;
	u32 len;
	size_t stride;
	size_t count;
	u64 calls;
	bool decrypt;
	u32 part;		/* enum kiln_request_part */
	u64 later;		/* of them, not answered at once */
	int err;		/* the first that was not 0 */
};

/* All of it, or one part of what the simd helper does beside the cipher. */
enum kiln_request_part {
	KILN_REQUEST,
	KILN_REQUEST_CHECKS,	/* is SIMD usable, is anything queued */
	KILN_REQUEST_COPY,	/* the request to the sub-request */
	KILN_REQUEST_CALL,	/* an indirect call and return */
	KILN_REQUEST_SETUP,	/* only what the user does */
};

KILN_EXPORT u64 kiln_crypto_requests(void *requests);

/*
 * crypto/series.c: requests to be timed, to a transform of any kind, each waited for. Message i
 * (of @count, round and round) is at src + i * src_stride, its answer goes to dst + i *
 * dst_stride, with associated data before and tags behind both as the request has them. IVs are
 * in @fresh, and are copied to @iv before they are used. With @from one request over these
 * pieces is made once and put @calls times; a digest still goes to @dst.
 */
struct kiln_api_calls {
	void *tfm;
	u8 *dst;
	u8 *src;
	const u8 *fresh;
	u8 *iv;
	size_t src_stride, dst_stride, iv_stride;
	u32 src_len, dst_len;	/* all of one message and of one answer */
	u32 assoclen, cryptlen;	/* as in struct kiln_request */
	size_t count;
	u64 calls;
	bool decrypt;
	struct scatterlist *from, *to;
	u64 later;		/* out: of them, not answered at once */
	int err;		/* out: the first that was not 0 */
};

KILN_EXPORT u64 kiln_crypto_calls(void *calls);

/* One message to a hash, in a context (enum kiln_context): in pieces, or in one call if there are none. */
struct kiln_digest {
	void *tfm;
	const u8 *data;
	u32 len;
	const u32 *piece;	/* their lengths */
	u32 pieces;
	bool reimport;		/* export the state after each piece, go on with the import */
	const u8 *state;	/* NULL, or a state to be imported before the first piece */
	u8 *out;
	u32 context;
	int err;
};

KILN_EXPORT u64 kiln_crypto_digest(void *digest);

/* A crypto API that can be asked: Kiln's own, or a hosted tree's. */
struct kiln_submission {
	u8 *dst, *src, *iv;	/* in one piece */
	u32 len;		/* of all; when an AEAD seals, the room for the tag included */
	u32 flags;		/* CRYPTO_TFM_REQ_MAY_SLEEP, CRYPTO_TFM_REQ_MAY_BACKLOG */
	bool decrypt;
	void (*complete)(void *data, int err);
	void *data;
};

struct kiln_request_ops {
	void *(*request_alloc)(void *tfm);	/* NULL: no memory */
	void (*request_free)(void *request);
	int (*submit)(void *request, const struct kiln_submission *submission);
	void (*tfm_free)(void *tfm);
};

KILN_EXPORT extern const struct kiln_request_ops kiln_request_ops;

/* The crypto API as an operation of a load: ctx of kiln_crypto_op_crypt(). */
struct kiln_crypto_op {
	void *tfm;
	u32 slots;
	void **request;		/* one for each slot; by kiln_crypto_op_open() */
};

/* For kiln_gate(): requests for the slots, non-zero if there is no memory; and no more. */
KILN_EXPORT u64 kiln_crypto_op_open(void *op);
KILN_EXPORT u64 kiln_crypto_op_close(void *op);
KILN_EXPORT int kiln_crypto_op_crypt(void *op, u32 slot, u8 *dst, const u8 *src,
				     size_t len, const u8 *iv, bool decrypt,
				     void (*done)(void *data, int answer), void *data);

/* Controls: rules of cryptd that are broken from now on. */
enum kiln_cryptd_broken {
	KILN_CRYPTD_NO_LIMIT = 1,	/* queues without end */
	KILN_CRYPTD_NO_BACKLOG = 2,	/* nobody may be backlogged */
	KILN_CRYPTD_UNCOUNTED = 4,	/* requests queued are not known of */
	KILN_CRYPTD_LATE_FIRST = 8,	/* what came last is served first */
};

KILN_EXPORT void kiln_cryptd_break(u32 broken);

/*
 * load/script.c: requests made one after the other in given contexts, and what became of
 * each, for kiln_gate(). Every request has memory of its own.
 */
enum kiln_step_kind {
	KILN_STEP_SUBMIT,	/* @count requests on @tfm in @context with @flags */
	KILN_STEP_RUN,		/* let others run until @count more are answered */
	KILN_STEP_SECTION_BEGIN,
	KILN_STEP_SECTION_END,
	KILN_STEP_BH_OFF,
	KILN_STEP_BH_ON,
	KILN_STEP_FREE,		/* @tfm */
};

struct kiln_step {
	u32 kind;
	u32 tfm;		/* index */
	u32 context;		/* enum kiln_context */
	u32 flags;
	u32 count;
};

struct kiln_script_event {
	u32 request;		/* in the order of submission */
	bool answer;		/* to the callback; else what the call returned */
	bool kthread;		/* where */
	bool wrong;		/* an answer of 0 over the wrong bytes */
	int err;
	u32 preempt_count;	/* where */
};

struct kiln_script {
	const struct kiln_request_ops *ops;
	void **tfm;
	const struct kiln_step *step;
	u32 steps;
	u32 len;		/* of each message */
	u8 *src, *want, *iv;	/* of every message */
	struct kiln_script_event *event;
	u32 max_events;
	u32 events;		/* out; more than max_events if there was no room */
	u32 stuck;		/* out: the step that never ended, from 1 */
};

KILN_EXPORT u64 kiln_script(void *script);
/* cpu/irq.c: an interrupt here and now, if they are on; else as soon as they are */
KILN_EXPORT void kiln_irq_self(void);

#endif
