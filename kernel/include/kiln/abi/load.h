/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border of load/: workloads for an emulated CPU, and questions about it.
 */
#ifndef KILN_ABI_LOAD_H
#define KILN_ABI_LOAD_H

#include <kiln/abi/context.h>
#include <kiln/abi/submission.h>
#include <kiln/cipher.h>
#include <kiln/scene.h>
#include <kiln/types.h>

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

#endif
