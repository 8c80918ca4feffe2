/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What every service shares. A service is a function or a variable that a kernel
 * tree's objects leave undefined; it is called SERVICE(name) here, and Kiln renames
 * the tree's reference to it: what no service provides is known by name.
 *
 * Services are freestanding and use general registers only, since the tree's vector
 * registers may be live. What they need of kernel/ are its border functions.
 *
 * boot.c APIs:
 *	boot			what the loader gave
 * tell.c APIs:
 *	tell, tell_text		one line of the protocol
 *	refused, give_up	end: the tree cannot go on
 * format.c APIs:
 *	format, format_args	a small snprintf
 * string.c APIs:
 *	clear, copy, same, length
 * test.c APIs:
 *	struct test		what a thread tests
 * percpu.c APIs:
 *	percpu_init
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
 * time.c APIs:
 *	now_ns
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
#define EIO 5
#define E2BIG 7

/* What the loader gives: crates/kiln-tree/src/host.rs has the same. */
struct boot {
	uint64_t size;		/* of this structure, so that both sides agree */
	char *arena;		/* memory, zero, aligned to the largest block */
	uint64_t arena_size;
	unsigned char *page_class;	/* a byte for each page of the arena, zero */
	uint64_t vmemmap;	/* address space for the array of struct page */
	char *areas;		/* the CPUs' areas */
	uint64_t area_size;
	uint64_t area_used;	/* of each: where allocations begin */
	uint64_t ns_per_tick;	/* of the TSC, times 2^32 */
	uint64_t seed;
	const char *const *skipped;	/* drivers whose tests are not run, then NULL */
	uint32_t cpus;
	int32_t events;		/* the descriptor of the protocol */
	uint32_t tests;		/* whether the tree tests itself */
};

extern struct boot boot;

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_text(const char *event, const char *text);
const char *quoted(const char *text, char *to, size_t size);
_Noreturn void refused(const char *name);
_Noreturn void give_up(const char *why);

int format(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int format_args(char *text, size_t size, const char *format, va_list args);

void clear(void *p, size_t n);
void *copy(void *to, const void *from, size_t n);
bool same(const char *a, const char *b);
bool same_bytes(const void *a, const void *b, size_t n);

void percpu_init(void *task);
void memory_init(void);
void *memory_alloc(size_t size, unsigned int gfp);
void memory_free(const void *p);
bool run_work(void);
uint64_t now_ns(void);

struct test {
	char driver[128];	/* empty: none */
	bool reached;		/* it was allocated */
};

void yield(void);
void progress(void);
bool threads_left(void);
struct test *current_test(void);
uint64_t thread_us(void);

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
void *kiln_glue_setup(void);
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line);
void kiln_glue_test_internal(void);
void kiln_glue_algorithms(void (*report)(const char *name, const char *driver,
					 const char *type, int priority,
					 unsigned int flags));

#endif
