// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Interrupts a function before each instruction that it executes. The number of interrupts per
 * instruction is limited. The function is single-stepped in three contexts: in a task and in a
 * softirq, where interrupt handlers call it too, and in a hardirq, where it is checked but not
 * interrupted. The host's trap handler delivers the interrupts and makes the checks (struct
 * kiln_audit).
 *
 * The functions come from two sources. The first is the KUnit suites' interrupt tests:
 * kunit_run_irq_test() starts a timer that calls a function at random times, and this file takes
 * over that timer. The second is the tree's exported library functions, which are called on
 * messages that the host supplies.
 */
#include <linux/version.h>

/* Calls in softirqs are made from system_bh_wq, which was added in 6.9. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#include <linux/bottom_half.h>
#include <linux/kconfig.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <asm/fpu/api.h>
#include <kiln/cpu_offsets.h>
#include <kiln/step.h>
#include <kiln/tree.h>

/* The function to single-step, and how to call it. */
struct kiln_stepped {
	const char *name;
	/*
	 * Both call the function and return whether its result was right. The stepped job uses
	 * call(), and interrupt handlers use call_briefly().
	 */
	bool (*call)(void *state);
	bool (*call_briefly)(void *state);
	void *state;
	unsigned int calls;	/* minimum number of calls to single-step */
	bool task_only;
	bool unasked;	/* whether the function opens a section without irq_fpu_usable() */
	bool of_library;	/* whether call() steps only the library function */
};

/*
 * A function that keeps state may take a different path in each call. A job therefore continues
 * until QUIET_CALLS consecutive calls execute no new instruction; after MANY_STEPS, one such call
 * suffices. A job never makes more than MOST_CALLS calls.
 */
#define LEAST_CALLS 6
#define MOST_CALLS 120
#define QUIET_CALLS 4
#define MANY_STEPS 200000
/*
 * Single-stepping stops after this many consecutive instructions that have all been interrupted as
 * often as required (struct kiln_audit). It resumes in the next section.
 */
#define IDLE 1024
#define OUTSIDE_IDLE 512
/* Number of calls to make after the last interrupt, to detect damage that has a late effect. */
#define LATE_CALLS 128
/*
 * Number of interrupts per instruction outside sections. Code there must not rely on vector
 * registers (rule "outside"), so a few interrupts suffice to show whether an instruction can be
 * interrupted.
 */
#define OUTSIDE_VISITS 2
/*
 * Number of interrupts whose handlers are single-stepped and checked too. These are the first
 * interrupts that arrive in sections.
 */
#define STEPPED_HANDLERS 2

/* Size that suffices for all state components in the standard format, except AMX tile data. */
#define STATE_SIZE 4096
#define STATE_SSE BIT(1)
#define STATE_TILES (BIT(17) | BIT(18))
/* The state components of SSE and AVX, and the three of AVX-512. */
#define STATE_VECTORS (BIT(1) | BIT(2) | BIT(5) | BIT(6) | BIT(7))
#define MXCSR_AT 24
#define XMM_AT 160
#define XMM_END 416
#define HEADER_AT 512
#define EXTENDED_AT 576

static u8 kiln_state_before[STATE_SIZE] __aligned(64);
static u8 kiln_state_after[STATE_SIZE] __aligned(64);
static u8 kiln_painted[STATE_SIZE] __aligned(64);

static struct kiln_prove *kiln_wanted;
static struct kiln_proof *kiln_proof;
static const struct kiln_stepped *kiln_stepped;
static bool kiln_step_next;	/* whether the next call of a library function sets the trap flag */
static bool kiln_in_hardirq;	/* whether the next interrupt makes the calls */
static struct work_struct kiln_bh_work;
static unsigned int kiln_stepped_handlers;

extern void (*kiln_before_section)(void);
void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_prove_set(struct kiln_prove *prove);
struct hrtimer;
bool kiln_prove_timer(struct hrtimer *timer);
u64 kiln_glue_prove_library(struct kiln_prove_library *wanted);
int kiln_library_call(const struct kiln_library *library, u8 *iv, const u8 *src, u8 *dst,
		      size_t len, size_t prefix);
void kiln_library_call_pair(const struct kiln_library *library, const u8 *src1, const u8 *src2,
			    u8 *dst1, u8 *dst2, size_t len);

/* Resumes single-stepping of the job if it has stopped. */
static void kiln_resume_steps(void)
{
	kiln_set_trap_flag(true);
}

/* Disables single-stepping for code that interrupts the job. Returns the hook to restore later. */
static void *kiln_leave_job(void)
{
	void *const was = kiln_before_section;

	kiln_before_section = NULL;
	return was;
}

static unsigned int kiln_section_depth(void)
{
	u8 depth;

	asm volatile("movb %%gs:%c1, %0" : "=q"(depth) : "i"(KILN_CPU_SECTION_DEPTH));
	return depth;
}

static u64 kiln_states(void)
{
	u32 low, high;

	asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return ((u64)high << 32 | low) & ~STATE_TILES;
}

/* Saves the registers. Clears the buffer first, because XSAVE does not write all of its bytes. */
static void kiln_save_state(u8 *to)
{
	const u64 wanted = kiln_states();

	memset(to, 0, STATE_SIZE);
	asm volatile("xsave64 %0" : "+m"(*(u8 (*)[STATE_SIZE])to)
		     : "a"((u32)wanted), "d"((u32)(wanted >> 32)) : "memory");
}

static bool kiln_state_differs(const u8 *a, const u8 *b)
{
	return memcmp(a + MXCSR_AT, b + MXCSR_AT, 4) || memcmp(a + XMM_AT, b + XMM_AT, XMM_END - XMM_AT) ||
	       memcmp(a + EXTENDED_AT, b + EXTENDED_AT, STATE_SIZE - EXTENDED_AT);
}

/* Overwrites all vector registers, as any other user of an FPU section might. */
static void kiln_paint_registers(void)
{
	const u64 vectors = kiln_states() & STATE_VECTORS;

	if (!irq_fpu_usable())
		return;
	if (!kiln_painted[XMM_AT]) {
		memset(kiln_painted + XMM_AT, 0xa5, XMM_END - XMM_AT);
		memset(kiln_painted + EXTENDED_AT, 0xa5, STATE_SIZE - EXTENDED_AT);
		*(u32 *)(kiln_painted + MXCSR_AT) = 0x1f80;
		*(u64 *)(kiln_painted + HEADER_AT) = vectors;
	}
	kernel_fpu_begin();
	asm volatile("xrstor64 %0" : : "m"(*(u8 (*)[STATE_SIZE])kiln_painted),
		     "a"((u32)vectors), "d"((u32)(vectors >> 32)) : "memory");
	kernel_fpu_end();
}

static void kiln_check(bool right)
{
	struct kiln_proof *p = kiln_proof;

	p->answers++;
	if (right || p->wrong++)
		return;
	p->wrong_call = kiln_wanted->audit.call;
	p->wrong_step = kiln_wanted->audit.steps;
}

/*
 * Calls the function, then ends any section that it left open, because otherwise no code could
 * sleep afterwards.
 */
static bool kiln_call(bool (*const call)(void *state))
{
	const unsigned int depth = kiln_section_depth();
	const bool right = call(kiln_stepped->state);
	struct kiln_proof *p = kiln_proof;

	while (kiln_section_depth() > depth) {
		kernel_fpu_end();
		if (p->left_open++)
			continue;
		p->left_open_call = kiln_wanted->audit.call;
		p->opener = kiln_wanted->audit.opener;
	}
	return right;
}

/* Returns whether interrupt handlers may call the function in the current context. */
static bool kiln_may_interrupt(void)
{
	return !kiln_stepped->task_only && (!kiln_stepped->unasked || irq_fpu_usable());
}

static void kiln_call_in_bh(struct work_struct *work)
{
	void *const job = kiln_leave_job();

	if (kiln_may_interrupt()) {
		kiln_check(kiln_call(kiln_stepped->call_briefly));
		kiln_proof->in_softirqs++;
	}
	kiln_before_section = job;
}

static bool kiln_call_stepped(bool (*const call)(void *state))
{
	bool right;

	if (kiln_stepped->of_library)
		kiln_step_next = true;
	else
		kiln_set_trap_flag(true);
	right = kiln_call(call);
	kiln_set_trap_flag(false);
	return right;
}

static bool kiln_step_call(void)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	bool right;

	audit->steps = 0;
	kiln_before_section = kiln_resume_steps;
	right = kiln_call_stepped(kiln_stepped->call);
	kiln_before_section = NULL;
	return right;
}

/* Single-steps calls in the current context until they execute no new instruction. */
static void kiln_step_calls(void)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = kiln_proof;
	unsigned int quiet = 0;
	unsigned long steps = 0;

	for (audit->call = 0; audit->call < MOST_CALLS; audit->call++) {
		const unsigned long seen = audit->addresses;
		bool right;

		if (audit->call > audit->last_call)
			break;
		/* Code in a hardirq is not interrupted, so visit each instruction only once. */
		audit->visits = in_hardirq() ? 1 : kiln_wanted->visits;
		audit->outside_visits = min_t(u64, audit->visits, OUTSIDE_VISITS);
		right = kiln_step_call();
		audit->visits = audit->outside_visits = 0;
		p->calls++;
		kiln_check(right);
		quiet = audit->addresses == seen ? quiet + 1 : 0;
		steps += audit->steps;
		if (audit->call + 1 < kiln_stepped->calls)
			continue;
		/* Library functions keep no state, so one call per message suffices. */
		if (kiln_stepped->of_library || (steps > MANY_STEPS ? quiet : quiet >= QUIET_CALLS))
			break;
	}
}

static void kiln_step_in_bh(struct work_struct *work)
{
	kiln_step_calls();
}

/* Single-steps the handler's call without interrupting it, so that the call is checked too. */
static bool kiln_step_handler(void)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	const unsigned long visits = audit->visits, outside = audit->outside_visits;
	bool right;

	audit->visits = audit->outside_visits = 0;
	right = kiln_call_stepped(kiln_stepped->call_briefly);
	audit->visits = visits;
	audit->outside_visits = outside;
	return right;
}

static void kiln_interrupt_job(void)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = kiln_proof;
	const unsigned long at = audit->at, step = audit->steps;
	const bool calls = kiln_may_interrupt();
	bool right = true;

	if (!kiln_section_depth()) {
		if (calls)
			right = kiln_call(kiln_stepped->call_briefly);
		kiln_paint_registers();
		if (calls)
			kiln_check(right);
		/* If softirqs are enabled, the softirq runs immediately after this handler. */
		if (!softirq_count())
			queue_work(system_bh_wq, &kiln_bh_work);
		return;
	}
	if (!calls)
		return;
	kiln_save_state(kiln_state_before);
	if (kiln_stepped_handlers++ < STEPPED_HANDLERS)
		right = kiln_step_handler();
	else
		right = kiln_call(kiln_stepped->call_briefly);
	kiln_save_state(kiln_state_after);
	kiln_check(right);
	if (kiln_state_differs(kiln_state_before, kiln_state_after) && !p->changed++) {
		p->changed_call = audit->call;
		p->changed_step = step;
		p->changed_at = at;
	}
}

static void kiln_interrupt(void *cpu)
{
	void *job;

	if (kiln_in_hardirq) {
		kiln_in_hardirq = false;
		kiln_step_calls();
		return;
	}
	job = kiln_leave_job();
	kiln_interrupt_job();
	kiln_before_section = job;
}

static void kiln_step_from(enum kiln_prove_context context)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct work_struct work;

	switch (context) {
	case KILN_PROVE_TASK:
		kiln_step_calls();
		break;
	case KILN_PROVE_SOFTIRQ:
		INIT_WORK_ONSTACK(&work, kiln_step_in_bh);
		local_bh_disable();
		queue_work(system_bh_wq, &work);
		local_bh_enable();
		flush_work(&work);
		destroy_work_on_stack(&work);
		break;
	case KILN_PROVE_HARDIRQ:
		/* Deliver a single interrupt, before the next instruction. */
		kiln_in_hardirq = true;
		audit->call = audit->steps = 0;
		audit->visits = audit->outside_visits = 1;
		kiln_set_trap_flag(true);
		kiln_set_trap_flag(false);
		audit->visits = audit->outside_visits = 0;
		break;
	}
}

/* Adds an entry for the results in this context. Returns NULL if the array is full. */
static struct kiln_proof *kiln_start_proof(enum kiln_prove_context context)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = &kiln_wanted->proofs[kiln_wanted->count];

	if (kiln_wanted->count >= kiln_wanted->room)
		return NULL;
	kiln_wanted->count++;
	memset(p, 0, sizeof(*p));
	strscpy(p->name, kiln_stepped->name, sizeof(p->name));
	p->context = context;
	/* Use a new job number, because the counts for the previous job belong to another proof. */
	p->job = ++audit->job;
	audit->idle = context == KILN_PROVE_HARDIRQ ? OUTSIDE_IDLE : IDLE;
	audit->outside_idle = OUTSIDE_IDLE;
	audit->opener = audit->digest = 0;
	audit->addresses = audit->points = audit->injected = audit->masked = 0;
	kiln_stepped_handlers = 0;
	kiln_proof = p;
	return p;
}

static void kiln_prove_in(enum kiln_prove_context context)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = kiln_start_proof(context);
	unsigned int i;

	if (!p)
		return;
	for (i = 0; i < LATE_CALLS; i++)
		p->wrong_alone += !kiln_call(kiln_stepped->call_briefly);
	INIT_WORK(&kiln_bh_work, kiln_call_in_bh);
	kiln_on_interrupt(kiln_interrupt);
	kiln_step_from(context);
	kiln_on_interrupt(NULL);
	flush_work(&kiln_bh_work);
	for (i = 0; i < LATE_CALLS; i++)
		kiln_check(kiln_call(kiln_stepped->call_briefly));
	p->addresses = audit->addresses;
	p->points = audit->points;
	p->injected = audit->injected;
	p->masked = audit->masked;
}

void kiln_prove_set(struct kiln_prove *prove)
{
	kiln_wanted = prove;
}

static void kiln_prove_all(const struct kiln_stepped *subject)
{
	enum kiln_prove_context context;

	kiln_stepped = subject;
	for (context = KILN_PROVE_TASK; context <= KILN_PROVE_HARDIRQ; context++)
		if (kiln_wanted->contexts & 1u << context &&
		    (context == KILN_PROVE_TASK || !subject->task_only))
			kiln_prove_in(context);
}

static const struct kiln_prove_library *kiln_library;
static unsigned int kiln_level, kiln_message;

static bool kiln_answer(const struct kiln_prove_message *m, u8 *to)
{
	u8 *const iv = kiln_library->rooms + kiln_level * kiln_library->room;
	u8 *const dst = to ?: iv + ALIGN(m->iv_size, 64);
	const bool stepped = kiln_step_next;
	bool right;
	int error = 0;

	if (WARN_ON_ONCE(kiln_level >= KILN_PROVE_LEVELS))
		return false;
	kiln_level++;
	kiln_step_next = false;
	memcpy(iv, m->iv, m->iv_size);
	if (stepped)
		kiln_set_trap_flag(true);
	if (m->second)
		kiln_library_call_pair(m->library, m->src, m->second, dst, dst + m->result / 2,
				       m->len);
	else
		error = kiln_library_call(m->library, iv, m->src, dst, m->len, m->prefix);
	if (stepped)
		kiln_set_trap_flag(false);
	/* A cipher must leave the bytes before its result unchanged. */
	right = !error && !memcmp(dst + m->prefix, m->expected + m->prefix, m->result - m->prefix);
	kiln_level--;
	return right;
}

/*
 * Calls the library function. The number of the call selects the message, so that a replay uses the
 * same message.
 */
static bool kiln_call_library(void *state)
{
	return kiln_answer(&kiln_library->messages[kiln_wanted->audit.call % kiln_library->count],
			   NULL);
}

static bool kiln_call_library_briefly(void *state)
{
	return kiln_answer(&kiln_library->messages[kiln_message++ % kiln_library->brief], NULL);
}

/*
 * Single-steps the function without interrupts. Returns whether it executes the same instructions
 * as a function interrupted in an earlier run.
 */
static bool kiln_is_known(const struct kiln_stepped *subject, unsigned long *digest)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p;
	unsigned int i;

	kiln_stepped = subject;
	p = kiln_start_proof(KILN_PROVE_TASK);
	if (!p)
		return true;
	for (audit->call = 0; audit->call < subject->calls; audit->call++)
		kiln_check(kiln_step_call());
	*digest = p->digest = audit->digest;
	for (i = 0; i < kiln_wanted->known_count; i++)
		if (kiln_wanted->known[i] == p->digest)
			p->same = true;
	if (!p->same)
		kiln_wanted->count--;
	return p->same;
}

/*
 * Single-steps a library function. Its results before the first interrupt are assumed to be
 * correct.
 */
u64 kiln_glue_prove_library(struct kiln_prove_library *wanted)
{
	const struct kiln_stepped subject = {
		.name = wanted->name,
		.call = kiln_call_library,
		.call_briefly = kiln_call_library_briefly,
		.calls = wanted->count,
		.task_only = wanted->flags & KILN_LIBRARY_TASK,
		.unasked = wanted->flags & KILN_LIBRARY_UNASKED,
		.of_library = true,
	};
	unsigned long i, digest, first = wanted->prove->count;

	kiln_library = wanted;
	kiln_level = kiln_message = 0;
	for (i = 0; i < wanted->count; i++)
		if (!kiln_answer(&wanted->messages[i], wanted->messages[i].expected))
			return EINVAL;
	kiln_prove_set(wanted->prove);
	if (!kiln_is_known(&subject, &digest)) {
		kiln_prove_all(&subject);
		for (i = first; i < wanted->prove->count; i++)
			wanted->prove->proofs[i].digest = digest;
	}
	kiln_prove_set(NULL);
	return 0;
}

#if IS_ENABLED(CONFIG_KUNIT) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <linux/limits.h>
#include <kunit/run-in-irq-context.h>

/* Steps an interrupt test's function in place of its timer. Returns false if stepping is off. */
bool kiln_prove_timer(struct hrtimer *timer)
{
	struct kunit_irq_test_state *const test =
		container_of(timer, struct kunit_irq_test_state, timer);
	const struct kiln_stepped subject = {
		.name = ((struct kunit *)current->kunit_test)->name,
		.call = test->func,
		.call_briefly = test->func,
		.state = test->test_specific_state,
		.calls = LEAST_CALLS,
	};

	if (!kiln_wanted)
		return false;
	kiln_prove_all(&subject);
	/*
	 * End the test after one more call by pretending that all contexts have made their calls.
	 */
	atomic_set(&test->task_func_calls, INT_MAX / 2);
	atomic_set(&test->hardirq_func_calls, 1);
	atomic_set(&test->softirq_func_calls, 1);
	return true;
}
#endif
#endif
