// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An interrupt before every instruction of the functions that the KUnit suites' interrupt
 * tests call. kunit_run_irq_test() starts a timer that calls such a function at random
 * moments; here the timer is taken over, and the function is stepped in a task, in a softirq
 * and in a hardirq, while hardirqs and softirqs call it, too. The host's trap handler
 * delivers the interrupts and keeps the account (struct kiln_audit).
 */
#include <linux/kconfig.h>
#include <linux/version.h>

#if IS_ENABLED(CONFIG_KUNIT) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <linux/bottom_half.h>
#include <linux/limits.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <asm/fpu/api.h>
#include <kunit/run-in-irq-context.h>
#include <kiln/cpu_offsets.h>
#include <kiln/tree.h>

/*
 * A function that keeps state may run different code in each call. So a job ends after QUIET_CALLS
 * calls in a row without a new instruction; once MANY_STEPS are exceeded, after the first such
 * call; and after MOST_CALLS in any case.
 */
#define LEAST_CALLS 6
#define MOST_CALLS 120
#define QUIET_CALLS 4
#define MANY_STEPS 200000
/* Calls after the last interrupt, to expose damage that shows only later. */
#define LATE_CALLS 128
/* Interrupts into a section whose handler is stepped, too, so that the account has its calls. */
#define STEPPED_HANDLERS 2

/* All components but AMX's tiles lie below this in the standard format. */
#define STATE_SIZE 4096
#define STATE_SSE BIT(1)
#define STATE_TILES (BIT(17) | BIT(18))
/* SSE, AVX and the three parts of AVX-512. */
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
static struct kunit_irq_test_state *kiln_test;
static bool kiln_in_hardirq;	/* the next interrupt makes the calls */
static struct work_struct kiln_bh_work;
static unsigned int kiln_stepped_handlers;

void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_prove_set(struct kiln_prove *prove);
bool kiln_prove_timer(struct hrtimer *timer);

static __always_inline void kiln_set_trap_flag(const bool on)
{
	if (on)
		asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	else
		asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
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

/* Zeroed first, so that bytes that XSAVE does not write compare equal. */
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

/* Other values into all vector registers, as any user of a section may leave them. */
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

/* Ends a section that the function left open; otherwise nothing could sleep any more. */
static bool kiln_call(void)
{
	const unsigned int depth = kiln_section_depth();
	const bool right = kiln_test->func(kiln_test->test_specific_state);
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

static void kiln_call_in_bh(struct work_struct *work)
{
	kiln_check(kiln_call());
}

/* Steps the function, in whatever context this is called, until it shows no new instruction. */
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
		audit->steps = 0;
		audit->visits = kiln_wanted->visits;
		kiln_set_trap_flag(true);
		right = kiln_call();
		kiln_set_trap_flag(false);
		audit->visits = 0;
		p->calls++;
		kiln_check(right);
		quiet = audit->addresses == seen ? quiet + 1 : 0;
		steps += audit->steps;
		if (steps > MANY_STEPS ? quiet : audit->call + 1 >= LEAST_CALLS && quiet >= QUIET_CALLS)
			break;
	}
}

static void kiln_step_in_bh(struct work_struct *work)
{
	kiln_step_calls();
}

/* Steps what the handler does, without interrupts, so that the account has its calls. */
static bool kiln_call_stepped(void)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	const unsigned long visits = audit->visits;
	bool right;

	audit->visits = 0;
	kiln_set_trap_flag(true);
	right = kiln_call();
	kiln_set_trap_flag(false);
	audit->visits = visits;
	return right;
}

static void kiln_interrupt(void *cpu)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = kiln_proof;
	const unsigned long at = audit->at, step = audit->steps;
	bool right;

	if (kiln_in_hardirq) {
		kiln_in_hardirq = false;
		kiln_step_calls();
		return;
	}
	if (!kiln_section_depth()) {
		right = kiln_call();
		kiln_paint_registers();
		kiln_check(right);
		/* Softirqs come only where they are not off; there the softirq runs right after this. */
		if (!softirq_count())
			queue_work(system_bh_wq, &kiln_bh_work);
		return;
	}
	kiln_save_state(kiln_state_before);
	right = kiln_stepped_handlers++ < STEPPED_HANDLERS ? kiln_call_stepped() : kiln_call();
	kiln_save_state(kiln_state_after);
	kiln_check(right);
	if (kiln_state_differs(kiln_state_before, kiln_state_after) && !p->changed++) {
		p->changed_call = audit->call;
		p->changed_step = step;
		p->changed_at = at;
	}
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
		/* One interrupt, at the next instruction. */
		kiln_in_hardirq = true;
		audit->call = audit->steps = 0;
		audit->visits = 1;
		kiln_set_trap_flag(true);
		kiln_set_trap_flag(false);
		audit->visits = 0;
		break;
	}
}

static void kiln_prove_in(enum kiln_prove_context context)
{
	struct kiln_audit *audit = &kiln_wanted->audit;
	struct kiln_proof *p = &kiln_wanted->proofs[kiln_wanted->count];
	unsigned int i;

	if (kiln_wanted->count >= kiln_wanted->room)
		return;
	kiln_wanted->count++;
	memset(p, 0, sizeof(*p));
	strscpy(p->name, ((struct kunit *)current->kunit_test)->name, sizeof(p->name));
	p->context = context;
	kiln_proof = p;
	for (i = 0; i < LATE_CALLS; i++)
		p->wrong_alone += !kiln_call();
	audit->job = kiln_wanted->count;
	audit->opener = 0;
	audit->addresses = audit->points = audit->injected = audit->masked = 0;
	kiln_stepped_handlers = 0;
	INIT_WORK(&kiln_bh_work, kiln_call_in_bh);
	kiln_on_interrupt(kiln_interrupt);
	kiln_step_from(context);
	kiln_on_interrupt(NULL);
	flush_work(&kiln_bh_work);
	for (i = 0; i < LATE_CALLS; i++)
		kiln_check(kiln_call());
	p->addresses = audit->addresses;
	p->points = audit->points;
	p->injected = audit->injected;
	p->masked = audit->masked;
}

void kiln_prove_set(struct kiln_prove *prove)
{
	kiln_wanted = prove;
}

/* Whether the timer of an interrupt test was taken over. */
bool kiln_prove_timer(struct hrtimer *timer)
{
	enum kiln_prove_context context;

	if (!kiln_wanted)
		return false;
	kiln_test = container_of(timer, struct kunit_irq_test_state, timer);
	for (context = KILN_PROVE_TASK; context <= KILN_PROVE_HARDIRQ; context++)
		if (kiln_wanted->contexts & 1u << context)
			kiln_prove_in(context);
	/* The test ends after one call more, as if all contexts had made theirs. */
	atomic_set(&kiln_test->task_func_calls, INT_MAX / 2);
	atomic_set(&kiln_test->hardirq_func_calls, 1);
	atomic_set(&kiln_test->softirq_func_calls, 1);
	return true;
}
#endif
