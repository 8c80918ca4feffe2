/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to load/: workloads for an emulated CPU, and tests of it. Functions with a
 * void pointer are called through kiln_gate().
 */
#ifndef KILN_ABI_LOAD_H
#define KILN_ABI_LOAD_H

#include <kiln/abi/context.h>
#include <kiln/abi/submission.h>
#include <kiln/cipher.h>
#include <kiln/scene.h>
#include <kiln/types.h>

/*
 * An operation that may complete asynchronously, like a request to the kernel's crypto API. crypt()
 * returns
 *
 *	0		the operation is done
 *	-EINPROGRESS	@done will be called with the result
 *	-EBUSY		the operation is backlogged: @done will be called with -EINPROGRESS when it
 *			enters the queue, and again with the result
 *	other errors	@done will not be called (-ENOSPC: the queue is full)
 *
 * @slot is less than @slots and has no operation in flight.
 */
struct kiln_op {
	int (*crypt)(void *ctx, u32 slot, u8 *dst, const u8 *src, size_t len,
		     const u8 *iv, bool decrypt,
		     void (*done)(void *data, int answer), void *data);
	void *ctx;
	u32 slots;
};

/* The state of an operation in flight. The host provides one for each slot. */
struct kiln_op_slot {
	struct kiln_load_side *side;
	struct kiln_op_slot *next;	/* in the list of free slots */
	u64 seq;
	u32 message;
};

/*
 * A load: a task encrypts while interrupts raise softirqs that encrypt, too.
 *
 * Each side has @count messages, which it uses in turn. Message i is at src + i * stride and its
 * expected result at want + i * stride. The result goes to dst + i * stride, that of an operation
 * to dst + slot * stride. The algorithm is xts(aes), which does not modify IVs.
 */
struct kiln_load_side {
	const struct kiln_impl *impl;	/* NULL: keep patterns in all registers */
	const struct kiln_op *op;	/* if not NULL, used instead of @impl and of patterns */
	struct kiln_op_slot *slots;
	u32 depth;		/* operations that a task has in flight before it waits */
	const void *ctx;
	const u8 *src, *want;
	u8 *dst, *iv;
	u32 len, stride, count;
	u32 next;
	bool decrypt;
	u64 ops, corrupted;
	/* For operations only: */
	u64 async_punts;	/* completed asynchronously */
	u64 dropped;		/* rejected because a queue was full or all slots were in flight */
	u64 reordered;		/* completed after an operation that was submitted later */
	u64 errors;		/* any other result; also counted as corrupted */
	struct kiln_op_slot *free;
	u32 in_flight;
	u64 put, answered;	/* sequence numbers submitted and completed */
};

struct kiln_load {
	struct kiln_load_side task, softirq;
	struct kiln_load_side second;	/* the side of a kthread; unused if impl is NULL */
	bool stop_second, second_stopped;
	const struct kiln_impl *fallback;	/* where SIMD is not usable */
	bool empty;		/* control: interrupts do nothing */
	bool hardirq_fpu;	/* the hardirq handler uses the FPU where it is usable */
	bool step;		/* single-step each of the task's sections ... */
	bool step_softirq;	/* ... or each of the softirqs' */
	void (*hardirq_hook)(void);	/* a control: a function of the host that breaks law 2 */
	u64 ops;		/* operations of one kiln_load_run() */
	u64 spins;		/* loop iterations for which patterns stay in the registers */
	const u8 *pattern;
	u8 *found;
	u64 scalar_fallbacks, hardirq_sections;
};

/* load/load.c */
KILN_EXPORT u64 kiln_load_attach(void *load);
KILN_EXPORT u64 kiln_load_run(void *load);
KILN_EXPORT u64 kiln_load_detach(void *load);
/*
 * Both are called only while @empty is set. kiln_load_drain() waits for operations in flight;
 * kiln_load_ready() must be called after the host has changed @task or @softirq.
 */
KILN_EXPORT u64 kiln_load_drain(void *load);
KILN_EXPORT u64 kiln_load_ready(void *load);
/* Bytes of a pattern; see load.c. */
KILN_EXPORT size_t kiln_pattern_size(void);

/*
 * load/call.c: one call of one function of an implementation, in a given context, and in an FPU
 * section of its own if the function needs one.
 */
struct kiln_call {
	const void *fn;
	const void *scalar;	/* called instead where no section may be opened, or NULL */
	u64 arg[9];
	/* If not NULL, this host function makes the call and reads the registers around it. */
	u64 (*through)(void *registers, const void *fn, const u64 *arg);
	void *registers;
	u32 context;		/* enum kiln_context */
	bool section;		/* @fn needs one */
	bool step;		/* single-step the section */
	bool done;		/* out: false if neither function may be called there */
	bool fell_back;		/* out: @scalar was called */
	u32 preempt_count;	/* out: in that context */
	u64 result;		/* out */
};

KILN_EXPORT u64 kiln_call(void *call);

/*
 * load/guest.c: between attach and detach, each interrupt raises a softirq that serves one of the
 * first @softirqs guests, and the hardirq itself serves one of the @hardirqs guests that follow.
 */
struct kiln_guest {
	const void *fn, *scalar;	/* as in struct kiln_call */
	u64 arg[9];
	bool section;
	u8 *iv;			/* copied from @iv_of before each call: functions modify it */
	const u8 *iv_of;
	u32 ivsize;
	u8 *got;		/* the result, @len bytes, at least one */
	const u8 *want;
	u32 len;
};

struct kiln_guests {
	struct kiln_guest *guest;
	u32 softirqs, hardirqs;
	u32 next, next_hardirq;
	u64 interrupts;
	u64 into_sections;	/* of interrupts: those that interrupted a section */
	u64 served, sections, scalar_fallbacks, corrupted;
};

KILN_EXPORT u64 kiln_guests_attach(void *guests);
KILN_EXPORT u64 kiln_guests_detach(void *guests);

/* load/context.c: whether irq_fpu_usable() and kernel_fpu_begin() allow a section in a context */
struct kiln_usable {
	u32 context;		/* enum kiln_context */
	bool in_section;	/* open a section in the interrupted context first */
	bool over_section;	/* out: that section was open when irq_fpu_usable() was called */
	bool usable;
	u64 warnings;		/* from opening a section there, if usable or in a task */
	u32 preempt_count;	/* there, before it is opened */
	u32 preempt_after;	/* in the task, at the end */
};

KILN_EXPORT u64 kiln_usable(void *usable);

/* load/scene_cpu.c: plays a struct kiln_scene (kiln/scene.h) */
KILN_EXPORT u64 kiln_scene(void *scene);

/*
 * load/storm.c: a softirq that raises itself repeatedly, and work items that it queues. Returns
 * when everything is done; non-zero if no task was left for the bystander.
 */
struct kiln_storm {
	u32 raises;		/* softirqs in total */
	u32 spin_us;		/* minimum duration of each */
	bool interrupt;		/* a hardirq interrupts each of them */
	bool bystander;		/* another task is always runnable */
	bool queue_works;	/* each softirq queues four work items unless they are queued */
	bool raise_in_irq;	/* the hardirq raises the next softirq */
	/* Output: */
	u32 served;
	u32 first_loop;		/* of served: before the interrupted task continued */
	u32 by_ksoftirqd;	/* of served: in ksoftirqd */
	u32 works_accepted, works_refused, works_run;
	u32 works_misplaced;	/* run outside the kworker, or in atomic context */
	u32 count_before, count_after;	/* preempt counts */
};

KILN_EXPORT u64 kiln_storm(void *storm);

/*
 * load/wakeup.c: one task sleeps, and an interrupt of another task wakes it. Works once per CPU,
 * with full preemption. Returns non-zero if all tasks were in use.
 */
struct kiln_wakeup {
	u32 wait_us;		/* time for which the sleeper is runnable before it first runs */
	u32 busy_us;		/* time for which it then runs before it sleeps */
	u32 asleep_us;		/* time for which the other task runs while it sleeps */
	/* Output: */
	bool preempted;		/* the woken task ran before the interrupt returned */
	u64 busy_for, asleep_for;	/* actual durations, TSC ticks */
	s64 slice_left;		/* of the other task's slice at the wake-up, TSC ticks */
};

KILN_EXPORT u64 kiln_wakeup(void *wakeup);

/*
 * load/script.c: requests made one after the other in given contexts, and the answers to them.
 * Every request has its own memory.
 */
enum kiln_step_kind {
	KILN_STEP_SUBMIT,	/* @count requests on @tfm in @context with @flags */
	KILN_STEP_RUN,		/* let other tasks run until there were @count more callbacks */
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
	bool answer;		/* @err was passed to the callback, else returned by the call */
	bool kthread;		/* in a kthread */
	bool wrong;		/* @err is 0, but the result is wrong */
	int err;
	u32 preempt_count;
};

struct kiln_script {
	const struct kiln_request_ops *ops;
	void **tfm;
	const struct kiln_step *step;
	u32 steps;
	u32 len;		/* of each message */
	u8 *src, *want, *iv;	/* the same for every message */
	struct kiln_script_event *event;
	u32 max_events;
	u32 events;		/* out: may exceed max_events */
	u32 stuck;		/* out: the step that never ended, counted from 1 */
};

KILN_EXPORT u64 kiln_script(void *script);

#endif
