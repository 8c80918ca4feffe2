/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Code that the test programs share: it turns the calling thread into an emulated CPU, executes
 * code one instruction at a time, and checks conditions. A program exits with status 2 if a check
 * fails.
 *
 * To replace the time stamp counter with the variable tsc in kernel sources that are included
 * later, define FAKE_TSC before including this file.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Remove glibc's definition, because kernel headers define the same macro. */
#undef __always_inline

#ifdef FAKE_TSC
#define rdtsc hardware_tsc
#include <kiln/cpu.h>
#undef rdtsc
static u64 tsc;
static inline u64 rdtsc(void)
{
	return tsc;
}
#endif

#include <kiln/abi/cpu.h>
#include <kiln/cpu.h>
#include <kiln/cpu_offsets.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

#define CHECK(condition, ...)                                              \
	do {                                                               \
		if (!(condition)) {                                        \
			fprintf(stderr, "line %d: %s: ", __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                      \
			fputc('\n', stderr);                               \
			exit(2);                                           \
		}                                                          \
	} while (0)

static inline void *zeroed(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "no memory");
	return p;
}

/* Makes this thread a CPU that has no kernel threads and therefore needs no kernel stacks. */
static inline struct cpu *boot_cpu(const struct kiln_cpu_config *wanted)
{
	enum { ARCH_SET_GS = 0x1001 };
	struct kiln_cpu_config config = *wanted;
	struct cpu *cpu = zeroed(kiln_cpu_size());

	config.nr_tasks = 1;
	config.tasks = zeroed(kiln_task_size());
	kiln_cpu_init(cpu, &config);
	CHECK(!syscall(SYS_arch_prctl, ARCH_SET_GS, cpu), "arch_prctl");
	return cpu;
}

enum { TRAP_FLAG = 0x100 };

/* Calls @handler before every instruction that is executed with the trap flag set. */
static inline void handle_steps(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t stack = { .ss_size = 1 << 17 };

	stack.ss_sp = zeroed(stack.ss_size);
	sigfillset(&action.sa_mask);
	CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGTRAP, &action, NULL), "signals");
}

static inline void set_trap_flag(void)
{
	__asm__ volatile("pushfq\n\torq %0, (%%rsp)\n\tpopfq" : : "i"(TRAP_FLAG) : "memory", "cc");
}

static inline void clear_trap_flag(void)
{
	__asm__ volatile("pushfq\n\tandq %0, (%%rsp)\n\tpopfq" : : "i"(~TRAP_FLAG) : "memory", "cc");
}

struct test_case {
	const char *name;
	void (*run)(void);
};

/* Runs the test case that the command line selects by name. */
static inline int run_case(const struct test_case *cases, size_t n, int argc, char **argv)
{
	size_t i;

	for (i = 0; argc == 2 && i < n; i++) {
		if (streq(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "no such case\n");
	return 2;
}

#endif
