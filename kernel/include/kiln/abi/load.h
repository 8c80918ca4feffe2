/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to load/: workloads for an emulated CPU, and tests of the CPU. Functions
 * with a void pointer argument are called through kiln_gate().
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
 *			enters the queue, and a second time with the result
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
	struct kiln_op_slot *next;	/* link in the list of free slots */
	u64 seq;
	u32 message;
};

/*
 * A load: a task encrypts while interrupts raise softirqs that also encrypt.
 *
 * Each side uses its @count messages in turn. Message i is at src + i * stride, and its expected
 * result is at want + i * stride. The result is written to dst + i * stride, or, with @op, to dst +
 * slot * stride. The algorithm is xts(aes), which does not modify IVs.
 */
struct kiln_load_side {
	const struct kiln_impl *impl;	/* NULL: keep patterns in all registers instead */
	const struct kiln_op *op;	/* if not NULL, used instead of @impl and patterns */
	struct kiln_op_slot *slots;
	u32 depth;		/* number of operations in flight at which a task waits */
	const void *ctx;
	const u8 *src, *want;
	u8 *dst, *iv;
	u32 len, stride, count;
	u32 next;
	bool decrypt;
	u64 ops, corrupted;
	/* The following fields are used only with @op. */
	u64 async_punts;	/* operations completed asynchronously */
	u64 dropped;		/* operations rejected: a queue was full, or no slot was free */
	u64 reordered;		/* operations completed after a later one */
	u64 errors;		/* operations with any other result; they also count as corrupted */
	struct kiln_op_slot *free;
	u32 in_flight;
	u64 put, answered;	/* highest sequence numbers submitted and completed */
};

struct kiln_load {
	struct kiln_load_side task, softirq;
	struct kiln_load_side second;	/* side of a kthread; unused if its impl is NULL */
	bool stop_second, second_stopped;
	const struct kiln_impl *fallback;	/* used where SIMD is not usable */
	bool empty;		/* for control runs: interrupts do nothing */
	bool hardirq_fpu;	/* the hardirq handler uses the FPU where it is usable */
	bool step;		/* single-step the sections of the task */
	bool step_softirq;	/* single-step the sections of the softirqs */
	void (*hardirq_hook)(void);	/* for tests: a host function that each hardirq calls */
	u64 ops;		/* operations per kiln_load_run() */
	u64 spins;		/* loop iterations for which patterns stay in the registers */
	const u8 *pattern;
	u8 *found;
	u64 scalar_fallbacks, hardirq_sections;
};

/* load/load.c: start, run and stop a load. */
KILN_EXPORT u64 kiln_load_attach(void *load);
KILN_EXPORT u64 kiln_load_run(void *load);
KILN_EXPORT u64 kiln_load_detach(void *load);
/*
 * kiln_load_drain() waits for operations in flight. kiln_load_ready() must be called after the host
 * has changed @task or @softirq. Both may be called only while @empty is set.
 */
KILN_EXPORT u64 kiln_load_drain(void *load);
KILN_EXPORT u64 kiln_load_ready(void *load);
/* Returns the size in bytes of struct pattern; see load/patterns.h. */
KILN_EXPORT size_t kiln_pattern_size(void);

/*
 * load/call.c: a call to one function of an implementation in a given context, and in its own FPU
 * section if the function needs one.
 */
struct kiln_call {
	const void *fn;
	const void *scalar;	/* called instead where a section is not allowed, or NULL */
	u64 arg[9];
	/*
	 * If not NULL, this host function makes the call and records the registers before and after
	 * it.
	 */
	u64 (*through)(void *registers, const void *fn, const u64 *arg);
	void *registers;
	u32 context;		/* enum kiln_context */
	bool section;		/* @fn must be called in a section */
	bool step;		/* single-step the section */
	bool done;		/* out: false if the context allows neither function */
	bool fell_back;		/* out: @scalar was called instead of @fn */
	u32 preempt_count;	/* out: the preempt count during the call */
	u64 result;		/* out: return value of the function */
};

KILN_EXPORT u64 kiln_call(void *call);

/*
 * load/guest.c: guests are function calls that interrupts make while something else is tested.
 * Between attach and detach, each interrupt raises a softirq, which calls the next of the first
 * @softirqs guests, and the hardirq itself calls the next of the @hardirqs guests that follow them
 * in the list.
 */
struct kiln_guest {
	const void *fn, *scalar;	/* as in struct kiln_call */
	u64 arg[9];
	bool section;
	u8 *iv;			/* copied from @iv_of before each call; functions modify it */
	const u8 *iv_of;
	u32 ivsize;
	u8 *got;		/* result of the call, @len bytes; @len must not be 0 */
	const u8 *want;
	u32 len;
};

struct kiln_guests {
	struct kiln_guest *guest;
	u32 softirqs, hardirqs;
	u32 next, next_hardirq;
	u64 interrupts;
	u64 into_sections;	/* interrupts that arrived during a section */
	u64 served, sections, scalar_fallbacks, corrupted;
};

KILN_EXPORT u64 kiln_guests_attach(void *guests);
KILN_EXPORT u64 kiln_guests_detach(void *guests);

/*
 * A test (load/context.c) of whether irq_fpu_usable() and kernel_fpu_begin() allow a section in a
 * given context.
 */
struct kiln_usable {
	u32 context;		/* enum kiln_context */
	bool in_section;	/* first open a section in the interrupted context */
	bool over_section;	/* out: that section was open during the query */
	bool usable;
	u64 warnings;		/* out: warnings from opening a section, if one was opened */
	u32 preempt_count;	/* out: preempt count in the context, before a section is opened */
	u32 preempt_after;	/* out: preempt count of the task at the end */
};

KILN_EXPORT u64 kiln_usable(void *usable);

/* load/scene_cpu.c: plays a struct kiln_scene (kiln/scene.h). */
KILN_EXPORT u64 kiln_scene(void *scene);

/*
 * A test in load/storm.c: a softirq raises itself repeatedly and queues work items. kiln_storm()
 * returns 0 when everything is done, or non-zero if no task is free to be the bystander.
 */
struct kiln_storm {
	u32 raises;		/* total number of softirqs */
	u32 spin_us;		/* minimum duration of each softirq */
	bool interrupt;		/* interrupt each softirq by a hardirq */
	bool bystander;		/* run another task that is always runnable */
	bool queue_works;	/* let each softirq queue four work items */
	bool raise_in_irq;	/* let the hardirq raise the next softirq */
	/* The fields from here on are output. */
	u32 served;
	u32 first_loop;		/* softirqs served before the interrupted task continued */
	u32 by_ksoftirqd;	/* softirqs served in ksoftirqd */
	u32 works_accepted, works_refused, works_run;
	u32 works_misplaced;	/* work items run outside the kworker or in atomic context */
	u32 count_before, count_after;	/* preempt counts of the task */
};

KILN_EXPORT u64 kiln_storm(void *storm);

/*
 * load/wakeup.c: one task sleeps, and an interrupt that arrives while another task runs wakes it.
 * Must be called at most once per CPU, and only with full preemption. Returns non-zero if no task
 * is free.
 */
struct kiln_wakeup {
	u32 wait_us;		/* time from creation of the sleeper until it first runs */
	u32 busy_us;		/* time for which the sleeper runs before it sleeps */
	u32 asleep_us;		/* time for which the other task runs while the sleeper sleeps */
	/* The fields from here on are output. */
	bool preempted;		/* the woken task ran before the interrupt returned */
	u64 busy_for, asleep_for;	/* actual durations in TSC ticks */
	s64 slice_left;		/* rest of the other task's slice at the wakeup, in TSC ticks */
};

KILN_EXPORT u64 kiln_wakeup(void *wakeup);

/*
 * load/script.c: requests made in turn in given contexts, and the results that the caller and the
 * callbacks receive. Every request has its own memory.
 */
enum kiln_step_kind {
	KILN_STEP_SUBMIT,	/* submit @count requests to @tfm in @context with @flags */
	KILN_STEP_RUN,		/* let other tasks run until @count more callbacks were called */
	KILN_STEP_SECTION_BEGIN,
	KILN_STEP_SECTION_END,
	KILN_STEP_BH_OFF,
	KILN_STEP_BH_ON,
	KILN_STEP_FREE,		/* free @tfm, even if requests are still queued on it */
};

struct kiln_step {
	u32 kind;
	u32 tfm;		/* index of the transform */
	u32 context;		/* enum kiln_context */
	u32 flags;
	u32 count;
};

struct kiln_script_event {
	u32 request;		/* number of the request, in the order of submission */
	bool answer;		/* the callback received @err; if false, the call returned it */
	bool kthread;		/* the event occurred in a kthread */
	bool wrong;		/* @err is 0, but the result is wrong */
	int err;
	u32 preempt_count;
};

struct kiln_script {
	const struct kiln_request_ops *ops;
	void **tfm;
	const struct kiln_step *step;
	u32 steps;
	u32 len;		/* bytes of each message */
	u8 *src, *want, *iv;	/* the data of each message; all messages are identical */
	struct kiln_script_event *event;
	u32 max_events;
	u32 events;		/* out: number of events; may exceed max_events */
	u32 stuck;		/* out: number of the step that never ended, from 1; 0: none */
};

KILN_EXPORT u64 kiln_script(void *script);

#endif
