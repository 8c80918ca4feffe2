/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What every service shares. A service is a function or a variable that a kernel
 * tree's objects leave undefined; it is called SERVICE(name) here, and Kiln renames
 * the tree's reference to it. So the tree and the C library never meet by accident:
 * the tree's memcpy is the tree's, and what no service provides is known by name.
 *
 * The tree keeps its stack 8-byte aligned and its vector registers live: services
 * are compiled with -mstackrealign -mgeneral-regs-only.
 *
 * host.c APIs:
 *	tell, tell_text		one line of the protocol
 *	now_us			the host's clock
 *	refused			end: the tree called what no service provides
 * percpu.c APIs:
 *	percpu_init, cpu_word
 * kthread.c APIs:
 *	yield			let other threads run
 *	progress		something moved: this is no deadlock
 *	threads_left		some have not ended
 *	current_test		what this thread tests
 *	thread_us		time that this thread ran
 * workqueue.c APIs:
 *	run_work		one item; false if there was none
 * memory.c APIs:
 *	memory_init, memory_alloc, memory_free
 */
#ifndef KILN_SERVICE_H
#define KILN_SERVICE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVICE(name) svc_##name

/* The kernel's numbers that services need; 6.12's, unchanged for long. */
#define GFP_ZERO 0x100u
#define ENOMEM 12
#define E2BIG 7

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_text(const char *event, const char *text);
_Noreturn void refused(const char *name);
_Noreturn void give_up(const char *why);

void percpu_init(void *task);
void patch_init(void);
void memory_init(void);
void *memory_alloc(size_t size, unsigned int gfp);
void memory_free(const void *p);
bool run_work(void);

struct test {
	char driver[128];	/* empty: none */
	bool reached;		/* it was allocated */
};

void yield(void);
void progress(void);
bool threads_left(void);
struct test *current_test(void);
uint64_t thread_us(void);
uint64_t now_us(void);

/*
 * Words of this CPU, at the addresses of kernel/include/kiln/cpu.h: struct cpu
 * begins as 6.12's struct pcpu_hot does.
 */
#define CPU_PREEMPT_COUNT 8
#define CPU_IRQS_OFF 72
#define cpu_add(word, n) \
	__asm__ volatile("addl %0, %%gs:%c1" : : "ri"((int)(n)), "i"(word) : "memory", "cc")
#define cpu_write(word, n) \
	__asm__ volatile("movl %0, %%gs:%c1" : : "ri"((int)(n)), "i"(word) : "memory")
#define cpu_read(word)                                                          \
	({                                                                      \
		int v_;                                                         \
		__asm__ volatile("movl %%gs:%c1, %0" : "=r"(v_) : "i"(word));   \
		v_;                                                             \
	})

/* glue.c, which the tree's own build compiles against its own headers. */
struct kiln_algorithm;
void *kiln_glue_setup(void);
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line);
void kiln_glue_test_internal(void);
void kiln_glue_algorithms(void (*report)(const char *name, const char *driver,
					 const char *type, int priority,
					 unsigned int flags));

#endif
