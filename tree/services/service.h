/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Declarations shared by the services. A service is a function or variable that a kernel
 * tree's objects reference but do not define. It is called SERVICE(name) here, and Kiln
 * renames the tree's reference to match, so that the linker reports a missing service by name.
 *
 * Services are freestanding and use general-purpose registers only, because the tree's
 * vector registers may be live. The only functions of kernel/ that they call are its border
 * functions.
 *
 * boot.c APIs:
 *	boot			the parameters from the loader
 * tell.c APIs:
 *	tell, tell_text		send one line of the event protocol
 *	refused, give_up, give_up_in	end the process: the tree cannot continue
 *	syscall3		host system call
 * format.c APIs:
 *	format, format_args	a small snprintf
 * string.c APIs:
 *	clear, copy, same, length
 * test.c APIs:
 *	struct test		the test that a thread runs
 *	test_request		format this thread's current request, for reports
 *	tests_run, test_hangs, tell_algorithm
 * percpu.c, patch.c APIs:
 *	percpu_init; patch_init, alternatives_init
 * kthread.c APIs:
 *	new_task		a hook of kernel/cpu
 *	give_cpu		call kiln_schedule() and account the thread's CPU time
 *	wait_for_threads	wait until every kthread has ended or is idle
 *	current_test		the test that this thread runs
 *	thread_us		CPU time of this thread
 * workqueue.c APIs:
 *	wait_for_work		wait until all queued work is done, except on system_bh_wq
 * softirq.c, workqueue.c APIs:
 *	*_cpu_starts		called when a CPU boots
 * locks.c APIs:
 *	lock_irq, unlock_irq
 * memory.c APIs:
 *	memory_init, memory_alloc, memory_free
 *	vmalloc_alloc		allocate a block that is followed by an unmapped page
 * oracle.c APIs:
 *	oracle_subject		the driver being examined
 *	violated_at		report that this driver broke a rule, with a backtrace
 * guard.c APIs:
 *	guard_*			the heap from which the tree allocates under an oracle
 * sleep.c APIs:
 *	may_sleep		report a violation in atomic context
 * time.c APIs:
 *	now_ns
 *	deadline_*		waits with a timeout
 *	time_tick, time_idle	hooks of kernel/cpu
 */
#ifndef KILN_SERVICE_H
#define KILN_SERVICE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/abi/hosted.h>
#include <kiln/tree.h>

#define SERVICE(name) svc_##name

/* Constants of the kernel that the services use. They have the values of 6.12 and rarely change. */
#define GFP_ZERO 0x100u
#define ENOMEM 12
#define EIO 5
#define E2BIG 7

/* Maximum number of emulated CPUs. */
#define CPUS_MOST 64

extern struct boot boot;
extern bool on_cpu;	/* whether this thread runs on an emulated CPU */

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_text(const char *event, const char *text);
long syscall3(long number, long a, long b, long c);
const char *quoted(const char *text, char *to, size_t size);
_Noreturn void refused(const char *name);
_Noreturn void give_up(const char *why);
_Noreturn void give_up_in(const char *why, const char *driver);

int format(char *text, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int format_args(char *text, size_t size, const char *format, va_list args);

void clear(void *p, size_t n);
void *copy(void *to, const void *from, size_t n);
bool same(const char *a, const char *b);
bool same_bytes(const void *a, const void *b, size_t n);

void percpu_init(void);
void patch_init(void);
void alternatives_init(void);
void memory_init(void);
void *memory_alloc(size_t size, unsigned int gfp);
void memory_free(const void *p);
void *vmalloc_alloc(size_t size, unsigned int gfp);
void wait_for_work(void);
void workqueue_cpu_starts(void);
void softirq_cpu_starts(void);

/* Disables interrupts and takes the lock. Returns the previous flags. */
unsigned long lock_irq(volatile unsigned char *lock);
void unlock_irq(volatile unsigned char *lock, unsigned long flags);

/* A wait with a timeout. The task sleeps on the address @on. MAX_TIMEOUT disables the timeout. */
struct deadline {
	struct deadline *next, **prev;
	const volatile void *on;
	unsigned long at, given;	/* end and duration of the wait in jiffies */
	bool never;
};

#define MAX_TIMEOUT 0x7fffffffffffffffl

void deadline_start(struct deadline *d, const volatile void *on, unsigned long jiffies);
bool deadline_over(const struct deadline *d);
unsigned long deadline_left(const struct deadline *d);
void deadline_end(struct deadline *d);
void time_init(void);
void time_tick(void);
void time_idle(unsigned long since);
uint64_t now_ns(void);

/*
 * oracle.c: a description of the current case. Must match struct kiln_case in
 * tree/oracles/oracle.h.
 */
struct oracle_case {
	const char *op;
	unsigned long len, aad;
	const char *layout;
	unsigned int number;
	const char *varied;
};

const char *oracle_subject(void);
unsigned int kiln_image_trace(const void *frame, unsigned long *to, unsigned int most);
const char *kiln_image_case(void);
void violated_at(const char *rule, const char *what, const unsigned long *at, unsigned int n);

void guard_init(void);
bool guard_owns(const void *p);
bool guard_wanted(void);
int guard_fill(void);
bool guard_fails(void);
void *guard_alloc(size_t size, bool at_start, bool exact);
size_t guard_size(const void *p);
void guard_free(const void *p);

void SERVICE(kiln_violated)(const char *rule, const char *what, const void *frame);

/* sleep.c: called wherever the caller may sleep. @what describes the call. */
void may_sleep(const char *what);

/*
 * The current request to the tree's crypto API. Must match struct kiln_request_note in
 * oracles/context.c.
 */
struct request_note {
	const char *function;	/* function that makes the request; NULL outside a request */
	char driver[128];
	unsigned long len, aad;
	unsigned long src, dst;	/* offsets within a page; -1 if the request has no such buffer */
};

struct test {
	char driver[128];	/* the driver under test; empty if no test runs */
	struct request_note note;
	bool reached;		/* whether the test has allocated its driver */
	struct test *next, **prev;	/* links in the list of running tests */
};

bool tests_run(void);
const char *kiln_image_test(void);
int test_request(char *to, size_t size);
void tell_algorithm(const char *name, const char *driver, const char *type, int priority,
		    unsigned int flags);
_Noreturn void test_hangs(const char *why);

void *new_task(void *old, const char *name, _Bool user);
void give_cpu(void);
void wait_for_threads(void);
void threads_idle(uint64_t ns);
struct test *current_test(void);
uint64_t thread_us(void);
int SERVICE(wake_up_process)(void *task);
void SERVICE(open_softirq)(int nr, void (*handler)(void *action));
void SERVICE(kthread_exit)(long result) __attribute__((noreturn));

/* Access to fields of this CPU's struct cpu, which begins like 6.12's struct pcpu_hot. */
#define CPU_PREEMPT_COUNT KILN_CPU_PREEMPT_COUNT
#define CPU_NUMBER KILN_CPU_NUMBER
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

/* Defined only in trees that have a separate preempt count (versions.c). */
void kiln_glue_count(int n) __attribute__((weak));
void kiln_glue_own_count(int n) __attribute__((weak));
int kiln_glue_uncounted(void) __attribute__((weak));
void kiln_glue_context(int n) __attribute__((weak));

static inline void also_count(int n)
{
	if (kiln_glue_count)
		kiln_glue_count(n);
}

/* Defined in glue.c and in oracles/, which the tree's own build compiles. */
extern const unsigned int kiln_glue_hz;
extern const unsigned int kiln_glue_gfp_sleeps;	/* set in allocations that may sleep */
/*
 * Returns the reasons why the current context may not sleep (enum kiln_atomic in <kiln/tree.h>), or
 * 0 if it may sleep.
 */
unsigned int kiln_glue_atomic(void);
void kiln_glue_worked(void);
void kiln_glue_setup(uint32_t tiers, const uint16_t *hidden);
void kiln_glue_alternatives(const void *start, const void *stop, uint32_t *applied,
			    uint32_t *left);
size_t kiln_glue_task_size(void);
void kiln_glue_new_task(void *task, const char *name, bool user);
bool kiln_glue_task_sleeps(const void *task);
void kiln_glue_task_runs(void *task);
void kiln_glue_task_state(void *task, int state);
void kiln_glue_task_ends(void *task);
bool kiln_glue_task_held(const void *task);
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line);
void kiln_glue_test_internal(void);
uint64_t kiln_glue_note_requests(void *unused);
typedef void report_t(const char *name, const char *driver, const char *type,
		      int priority, unsigned int flags);
void kiln_glue_algorithms(const char *driver, report_t *report);

#endif
