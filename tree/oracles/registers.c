// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Registers: a function must preserve the registers that belong to its caller, and must not rely on
 * register contents that are not guaranteed.
 *
 * Requests are made with different stack alignments, in steps of eight bytes, and with unusual
 * control bits in MXCSR and the x87 control word. At the end of a section, these control bits, the
 * direction flag, the x87 stack and the upper halves of the vector registers must be the same as at
 * the beginning of the section.
 *
 * Then a request is single-stepped. The host's trap handler compares callee-saved registers when a
 * function returns, checks for a frame pointer at each instruction, and fills the upper halves of
 * 32-bit arguments with garbage (crates/kiln-kernel/src/irq/audit.rs).
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/fpu/api.h>

#include "kiln/oracle.h"
#include "kiln/step.h"

#define SHIFTS 8

/*
 * Single-stepping of a section ends after this many consecutive instructions that have been
 * executed before, because the section is then assumed to repeat a loop. Within functions of the
 * tree, the limit is 64 times as high (audit.rs). Single-stepping restarts in each section.
 * IDLE_THOROUGH is the limit with --thorough. That limit is finite because otherwise a loop whose
 * length is garbage would be single-stepped for minutes.
 */
#define IDLE 1024
#define IDLE_THOROUGH 16384

/* The control bits of MXCSR. The status flags in the lower bits may change. */
#define MXCSR_CONTROL 0xffc0u
#define MXCSR_OTHER 0xffc0u
#define FCW_OTHER 0x0f7f
#define FLAG_DIRECTION BIT(10)

#define STATE_SIZE 4096
#define STATE_YMM BIT(2)
#define STATE_ZMM BIT(6)
#define HEADER_AT 512
#define YMM_AT 576
#define YMM_SIZE 256
#define ZMM_SIZE 512

extern void (*kiln_before_section)(void);	/* defined in fpu.c */
extern void (*kiln_in_section)(void);
extern void (*kiln_ends_section)(void);
void kiln_shifted(void);

static u8 kiln_state[STATE_SIZE] __aligned(64);
static u32 kiln_mxcsr;
static u16 kiln_fcw;
static struct kiln_audit *kiln_stepping;	/* set while sections are single-stepped */
static bool kiln_compares;	/* whether to compare registers at the end of a section */

static u64 kiln_wide_states(void)
{
	u32 low, high;

	asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low & (STATE_YMM | STATE_ZMM);
}

static void kiln_begun(void)
{
	const u32 mxcsr = MXCSR_OTHER;
	const u16 fcw = FCW_OTHER;

	asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(kiln_mxcsr), "=m"(kiln_fcw));
	asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(fcw));
	if (kiln_wide_states())
		asm volatile("vzeroupper");
	if (kiln_stepping) {
		kiln_stepping->steps = 0;
		kiln_set_trap_flag(true);
	}
}

static void kiln_check_upper_halves(void)
{
	const u64 states = kiln_wide_states();
	u32 at, size, rest;
	u64 used;

	if (!states)
		return;
	memset(kiln_state + HEADER_AT, 0, YMM_AT - HEADER_AT);
	asm volatile("xsave64 %0" : "+m"(kiln_state) : "a"((u32)states), "d"(0) : "memory");
	used = *(u64 *)(kiln_state + HEADER_AT);
	if (used & STATE_YMM && memchr_inv(kiln_state + YMM_AT, 0, YMM_SIZE)) {
		kiln_violates("upper-halves",
			      "leaves the upper halves of ymm registers in use (no vzeroupper)");
	} else if (used & STATE_ZMM) {
		asm volatile("cpuid" : "=a"(size), "=b"(at), "=c"(rest), "=d"(rest)
			     : "a"(0xd), "c"(6));
		if (at + ZMM_SIZE <= STATE_SIZE && memchr_inv(kiln_state + at, 0, ZMM_SIZE))
			kiln_violates("upper-halves",
				      "leaves the upper halves of zmm registers in use (no vzeroupper)");
	}
	asm volatile("vzeroupper");
}

static void kiln_compare(void)
{
	struct {
		u16 words[14];
	} environment;
	unsigned long flags;
	u32 mxcsr;
	u16 fcw;

	asm volatile("pushfq\n\tpopq %0\n\tcld" : "=r"(flags));
	if (flags & FLAG_DIRECTION)
		kiln_violates("direction", "leaves the direction flag set");
	asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(fcw));
	if ((mxcsr ^ MXCSR_OTHER) & MXCSR_CONTROL)
		kiln_violates("mxcsr", "changes MXCSR: its control bits were %#x and are %#x",
			      MXCSR_OTHER, mxcsr & MXCSR_CONTROL);
	if (fcw != FCW_OTHER)
		kiln_violates("x87-control", "changes the x87 control word: it was %#x and is %#x",
			      FCW_OTHER, fcw);
	asm volatile("fnstenv %0" : "=m"(environment));
	/* A tag word of 0xffff means that all registers are empty. */
	if (environment.words[4] != 0xffff)
		kiln_violates("x87-stack", "leaves x87 or MMX registers in use");
	asm volatile("emms");
	kiln_check_upper_halves();
}

static void kiln_ends(void)
{
	if (kiln_stepping)
		kiln_set_trap_flag(false);
	if (kiln_compares)
		kiln_compare();
	else
		asm volatile("cld");
	asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(kiln_mxcsr), "m"(kiln_fcw));
}

/*
 * Whether the tree's code maintains frame pointers. With other unwinders, the code may use rbp
 * freely.
 */
extern const u32 kiln_frame_pointers;
const u32 kiln_frame_pointers = IS_ENABLED(CONFIG_FRAME_POINTER);

static void kiln_nothing(void)
{
}

static void kiln_watch_sections(bool wanted)
{
	kiln_before_section = wanted ? kiln_nothing : NULL;
	kiln_in_section = wanted ? kiln_begun : NULL;
	kiln_ends_section = wanted ? kiln_ends : NULL;
}

/*
 * Message lengths. The first consists of the widest batches and a remainder of four blocks. Most
 * drivers process this remainder without vector instructions. A longer remainder would be processed
 * in a narrower batch, whose vector instructions would clear the upper halves that a wide batch
 * left in use. The second length has batches of every width. The third ends inside a block.
 */
static const u16 kiln_lengths[] = { 1088, 832, 47 };

/*
 * Number of bytes after the result that are compared too. A function that treats garbage as part of
 * a length writes there, even if the result itself is right.
 */
#define BEYOND 1024

/* The request that kiln_shifted() makes. Assembly code calls kiln_shifted() without arguments. */
static struct kiln_subject *kiln_asking;
static struct kiln_message *kiln_asked;
static u64 kiln_answer;

static void kiln_ask_all(void)
{
	struct kiln_subject *s = kiln_asking;
	struct kiln_message *m = kiln_asked;
	u64 draw = kiln_seed_of(s->order), answer = 1;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kiln_lengths); i++) {
		kiln_case.len = kiln_lengths[i];
		kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
		kiln_message_seal(s, m, kiln_lengths[i], s->aad, &draw);
		answer = kiln_hash(answer, &m->error, sizeof(m->error));
		if (m->error)
			continue;
		answer = kiln_hash(answer, m->sealed, kiln_message_sealed(s, m) + BEYOND);
		if (s->type == KILN_TYPE_HASH)
			continue;
		kiln_case.op = "decrypt";
		kiln_message_open(s, m);
		answer = kiln_hash(answer, &m->open_error, sizeof(m->open_error));
		answer = kiln_hash(answer, m->opened, m->aad + m->len + BEYOND);
	}
	kiln_answer = answer;
}

void kiln_shifted(void)
{
	kiln_ask_all();
}

/*
 * Makes a request with the stack pointer lowered by @shift bytes. C code is not affected, because
 * the tree's compiler flags guarantee a stack alignment of only eight bytes.
 */
static noinline u64 kiln_ask_shifted(unsigned long shift)
{
	asm volatile("movq %%rsp, %%rbx\n\t"
		     "subq %0, %%rsp\n\t"
		     "call kiln_shifted\n\t"
		     "movq %%rbx, %%rsp"
		     :
		     : "r"(shift)
		     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
		       "cc");
	return kiln_answer;
}

/* Makes the requests, and single-steps their FPU sections. */
static u64 kiln_ask_stepped(struct kiln_examine *order)
{
	struct kiln_audit *audit = order->audit;
	u64 answer;

	audit->job++;
	audit->call = audit->steps = 0;
	audit->visits = audit->outside_visits = 0;
	audit->outside_idle = -1ul;
	audit->idle = order->thorough ? IDLE_THOROUGH : IDLE;
	kiln_stepping = audit;
	kiln_watch_sections(true);
	kiln_case.layout = "single-stepped, with garbage above arguments of 32 bits";
	kiln_ask_all();
	answer = kiln_answer;
	kiln_watch_sections(false);
	kiln_stepping = NULL;
	return answer;
}

static void kiln_step_whole(struct kiln_examine *order, struct kiln_subject *s,
			    struct kiln_message *m)
{
	u64 draw = kiln_seed_of(order);

	order->audit->job++;
	order->audit->steps = 0;
	order->audit->idle = order->audit->outside_idle = order->thorough ? IDLE_THOROUGH : IDLE;
	kiln_case.op = "encrypt";
	kiln_case.len = 2 * max(s->block, 16u);
	kiln_case.layout = "single-stepped";
	kiln_set_trap_flag(true);
	kiln_message_seal(s, m, 2 * max(s->block, 16u), s->aad, &draw);
	kiln_set_trap_flag(false);
}

static int kiln_prepare(struct kiln_examine *order, struct kiln_subject *s, struct kiln_message *m)
{
	int error;

	/*
	 * The upper halves of 32-bit arguments contain garbage. Use the guarded heap, so that a
	 * function that treats the garbage as part of a length soon reaches an unmapped page. In
	 * ordinary memory, it would write gigabytes first.
	 */
	kiln_guard(true);
	error = kiln_message_alloc(m);
	kiln_guard(false);
	error = error ?: kiln_subject_open(s, order);
	if (error) {
		kiln_message_free(m);
		return error;
	}
	kiln_case.layout = "ordinary";
	kiln_asking = s;
	kiln_asked = m;
	return 0;
}

/*
 * Replaces the transform with another one that has the same driver and key. Returns whether the new
 * transform gives the same answer. The answer differs if the driver draws a salt for each
 * transform, as echainiv does.
 */
static bool kiln_answers_alike(struct kiln_examine *order, struct kiln_subject *s, u64 right)
{
	kiln_subject_close(s);
	order->error = kiln_subject_open(s, order);
	return !order->error && kiln_ask_shifted(0) == right;
}

void kiln_examine_registers(struct kiln_examine *order)
{
	struct kiln_message m = {};
	struct kiln_subject s;
	u64 right, again;
	unsigned int i;

	order->error = kiln_prepare(order, &s, &m);
	if (order->error)
		return;
	kiln_compares = true;
	order->cases += 2 * ARRAY_SIZE(kiln_lengths);
	if (order->steps) {
		order->answers[0] = kiln_ask_stepped(order);
		/*
		 * Other tasks complete asynchronous requests. These tasks must not be
		 * single-stepped.
		 */
		if (!s.is_async)
			kiln_step_whole(order, &s, &m);
		goto close;
	}
	right = kiln_ask_shifted(0);
	again = kiln_ask_shifted(0);
	/* Some drivers randomise their answers, so compare them only if two equal runs agree. */
	kiln_watch_sections(true);
	kiln_case.varied = "stack 8 bytes lower times";
	for (i = 0; i < SHIFTS; i++) {
		kiln_case.layout = "ordinary";
		kiln_case.number = i;
		order->cases += 2 * ARRAY_SIZE(kiln_lengths);
		if (kiln_ask_shifted(8 * i) != right && again == right)
			kiln_violates("answer", "the answer depends on the stack's alignment");
	}
	kiln_watch_sections(false);
	kiln_case.varied = NULL;
	kiln_case.layout = "ordinary";
	if (order->answers[0] != right && again == right && kiln_answers_alike(order, &s, right))
		kiln_violates("argument",
			      "the answer, or memory behind it, is wrong if the upper halves of its arguments of 32 bits are not zero");
close:
	if (!order->error)
		kiln_subject_close(&s);
	kiln_message_free(&m);
}

/* Makes the requests. The host checks which instructions are executed. */
void kiln_examine_features(struct kiln_examine *order)
{
	struct kiln_message m = {};
	struct kiln_subject s;

	order->error = kiln_prepare(order, &s, &m);
	if (order->error)
		return;
	kiln_ask_stepped(order);
	order->cases += 2 * ARRAY_SIZE(kiln_lengths);
	kiln_subject_close(&s);
	kiln_message_free(&m);
}
