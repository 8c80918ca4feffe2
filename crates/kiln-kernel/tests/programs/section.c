// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Tests which sections the section timer skips. Replaces the TSC with a variable. */
#define FAKE_TSC
#include "program.h"

#include "fpu/section.c"

static struct cpu *boot(void)
{
	const struct kiln_cpu_config config = { .ticks_per_us = 1, .tick_us = 1000 };
	struct cpu *cpu = boot_cpu(&config);

	cpu->kernel_mode = 1;
	/* Make this task a kthread, so that fpu_user_save() has nothing to save. */
	current->flags |= TF_KTHREAD;
	fpu_policy = &fpu_none;
	tsc = 1ull << 50;
	return cpu;
}

static void lengths(void)
{
	struct cpu *cpu = boot();
	u32 bit;

	for (bit = 0; bit < 64; bit++) {
		/* Expected: FULL_TIME divided by the smallest power of two above the length. */
		const u64 power = FULL_TIME >> (bit < 30 ? bit + 1 : 31);
		const s32 skip = power < SECTION_MAX_SKIP ? power : SECTION_MAX_SKIP;

		cpu->section_skip = 0;
		kernel_fpu_begin();
		tsc += 1ull << bit;
		kernel_fpu_end();
		CHECK(cpu->section_skip == skip, "2^%u ticks: %d skipped, not %d", bit,
		      cpu->section_skip, skip);
	}
}

static void tree_begin(void)
{
	kiln_section_begin((void)0);
}

static void tree_end(void)
{
	kiln_section_end((void)0);
}

static long instruction, interrupt_at;
static void (*begin)(void), (*end)(void);

/*
 * Emulates an interrupt before one instruction of @begin. The interrupt opens and closes two
 * sections.
 */
static void on_step(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	if (instruction++ != interrupt_at)
		return;
	kernel_fpu_begin();
	kernel_fpu_end();
	tree_begin();
	tree_end();
}

/*
 * Interrupts @begin before each of its instructions in turn. The number of sections that the timer
 * skips must equal the skip count, whether the task or the interrupt decrements the count first.
 */
static void interrupt_everywhere(void)
{
	struct cpu *cpu = boot();
	s8 skip;
	long n;

	handle_steps(on_step);
	for (skip = 0; skip < 5; skip++) {
		for (n = instruction = 0; n <= instruction; n++) {
			const u64 timed = cpu->stats.sections_timed, all = cpu->stats.sections;
			s32 sections;

			cpu->section_skip = skip;
			instruction = 0;
			interrupt_at = n;
			set_trap_flag();
			begin();
			clear_trap_flag();
			CHECK(cpu->section_skip >= 0 && cpu->section_skip <= SECTION_MAX_SKIP, "skip %d, instruction %ld: %d left", skip,
			      n, cpu->section_skip);
			end();
			sections = cpu->stats.sections - all;
			CHECK(sections == (instruction > n ? 3 : 1), "%d sections", sections);
			if (sections > skip)
				CHECK(cpu->stats.sections_timed > timed, "skip %d, instruction %ld",
				      skip, n);
			else
				CHECK(cpu->stats.sections_timed == timed &&
				      cpu->section_skip == skip - sections,
				      "skip %d, instruction %ld: %d left", skip, n, cpu->section_skip);
		}
		CHECK(n > 5, "%ld instructions", n);
	}
}

static void interrupted(void)
{
	begin = kernel_fpu_begin;
	end = kernel_fpu_end;
	interrupt_everywhere();
}

static void interrupted_in_tree(void)
{
	begin = tree_begin;
	end = tree_end;
	interrupt_everywhere();
}

static const struct test_case cases[] = {
	{ "lengths", lengths },
	{ "interrupted", interrupted },
	{ "interrupted_in_tree", interrupted_in_tree },
};

int main(int argc, char **argv)
{
	return run_case(cases, ARRAY_SIZE(cases), argc, argv);
}
