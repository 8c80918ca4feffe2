// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests kernel entry and exit (kiln_gate) with two interrupts. Tries every pair of instructions
 * before which the interrupts can occur. Each interrupt must be served exactly once.
 */
#include "program.h"

#include <string.h>

static struct cpu *cpu;
static long instruction, first, second;
static u32 arrived, due, served;

static void on_interrupt(struct cpu *c)
{
	(void)c;
	served++;
}

/* Injects an interrupt by diverting the thread, as crates/kiln-kernel/src/irq/frame.rs does. */
static void interrupt(greg_t *g)
{
	u64 *sp = (u64 *)((g[REG_RSP] - 128) & ~15ul);
	u16 cs, ss;

	/* If an interrupt is already pending, this one merges with it and is not served again. */
	arrived++;
	due += !cpu->irq_pending;
	if (cpu->irqs_off) {
		cpu->irq_pending = 1;
		return;
	}
	cpu->irqs_off = 1;
	__asm__("mov %%cs, %0\n\tmov %%ss, %1" : "=r"(cs), "=r"(ss));
	*--sp = ss;
	*--sp = g[REG_RSP];
	*--sp = g[REG_EFL];
	*--sp = cs;
	*--sp = g[REG_RIP];
	g[REG_RSP] = (greg_t)sp;
	g[REG_RIP] = (greg_t)kiln_irq_trampoline;
	/* Do not single-step the trampoline. */
	g[REG_EFL] &= ~TRAP_FLAG;
}

/*
 * Returns from an interrupt of single-stepped code. The trampoline has trapped instead of executing
 * IRETQ, and restoring the saved flags sets the trap flag again.
 */
static void return_from_interrupt(greg_t *g)
{
	const u64 *sp = (const u64 *)g[REG_RSP];

	g[REG_RIP] = (greg_t)sp[0];
	g[REG_EFL] = (greg_t)sp[2];
	g[REG_RSP] = (greg_t)sp[3];
}

/* Executes REP STOSQ here, because single-stepping this instruction would trap once per word. */
static void store_string(greg_t *g)
{
	static const u8 rep_stosq[] = { 0xf3, 0x48, 0xab };
	u64 *to = (u64 *)g[REG_RDI];

	if (memcmp((const void *)g[REG_RIP], rep_stosq, sizeof(rep_stosq)))
		return;
	for (; g[REG_RCX]; g[REG_RCX]--)
		*to++ = (u64)g[REG_RAX];
	g[REG_RDI] = (greg_t)to;
	g[REG_RIP] += sizeof(rep_stosq);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signal, (void)info;
	if (g[REG_RIP] == (greg_t)kiln_irq_return_trap) {
		return_from_interrupt(g);
		return;
	}
	instruction++;
	if (instruction == first || instruction == second)
		interrupt(g);
	else
		store_string(g);
}

static u64 nothing(void *arg)
{
	(void)arg;
	return 7;
}

static void enter(void)
{
	u64 result;

	instruction = 0;
	set_trap_flag();
	result = kiln_gate(nothing, NULL);
	clear_trap_flag();
	CHECK(result == 7, "%llu", (unsigned long long)result);
	CHECK(!cpu->irqs_off && !cpu->kernel_mode && !cpu->irq_pending,
	      "interrupts before instructions %ld and %ld: state is left", first, second);
}

static void boot(void)
{
	const struct kiln_cpu_config config = { .ticks_per_us = 1, .tick_us = 1u << 30 };

	cpu = boot_cpu(&config);
	cpu->irq_handler = on_interrupt;
	handle_steps(on_step);
}

static void try_pairs(void)
{
	long last;

	first = second = -1;
	enter();
	last = instruction;
	for (first = 1; first <= last; first++)
		for (second = first + 1; second <= last + 20; second++)
			enter();
	printf("%ld instructions, %u interrupts, %u due, %u served\n", last, arrived, due, served);
	CHECK(last > 20 && due + 20 < arrived, "too little was tried");
}

static void pairs(void)
{
	boot();
	try_pairs();
	CHECK(served == due, "%u served, %u due", served, due);
}

/* Control: sometimes marks an interrupt as pending although none has arrived. */
static void on_interrupt_control(struct cpu *c)
{
	on_interrupt(c);
	if (served % 50 == 1)
		c->irq_pending = 1;
}

static void control(void)
{
	boot();
	cpu->irq_handler = on_interrupt_control;
	try_pairs();
	CHECK(served > due, "the fault went unseen");
}

static const struct test_case cases[] = { { "pairs", pairs }, { "control", control } };

int main(int argc, char **argv)
{
	return run_case(cases, ARRAY_SIZE(cases), argc, argv);
}
