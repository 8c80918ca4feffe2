// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree's tasks. Each is a task of kernel/cpu that also has the tree's struct task_struct. GS:0
 * points to this structure while the task runs. The services store their own data directly before
 * the structure.
 */
#include "service.h"

/*
 * If no task has run for this many ns, sleeping threads are considered to be idle and waiting for
 * work.
 */
#define DAEMONS_NS 20000000ul

struct thread {
	struct test test;
	uint64_t ran;		/* CPU time in ns until the task last gave up the CPU */
	uint64_t since;		/* time in ns at which the task last got the CPU */
	bool fresh;		/* whether this is a kthread that has not been woken yet */
	bool counted;		/* whether start-up waits for this kthread */
} __attribute__((aligned(64)));

struct start {
	int (*fn)(void *data);
	void *data;
};

static volatile int running;	/* number of kthreads for which start-up waits */
static volatile bool daemons;	/* whether the other kthreads are idle, which ends start-up */

static struct thread *thread_of(void *task)
{
	return (struct thread *)task - 1;
}

static struct thread *current_thread(void)
{
	return thread_of(kiln_task_word(NULL));
}

struct test *current_test(void)
{
	static struct test nobody;

	return on_cpu && kiln_task_word(NULL) ? &current_thread()->test : &nobody;
}

uint64_t thread_us(void)
{
	const struct thread *thread = current_thread();

	return (thread->ran + now_ns() - thread->since) / 1000;
}

void give_cpu(void)
{
	struct thread *thread = current_thread();

	thread->ran += now_ns() - thread->since;
	kiln_schedule();
	thread->since = now_ns();
}

/* Creates a task, or reuses @old, which has exited. kernel/cpu calls this hook. */
void *new_task(void *old, const char *name, _Bool user)
{
	struct thread *thread = old ? thread_of(old) : NULL;

	/* Do not reuse the task if kthread_stop() or a waiter still holds a reference to it. */
	if (thread && kiln_glue_task_held(thread + 1))
		thread = NULL;
	if (!thread)
		thread = memory_alloc(sizeof(*thread) + kiln_glue_task_size(), 0);
	if (!thread)
		return NULL;
	clear(thread, sizeof(*thread));
	thread->since = now_ns();
	kiln_glue_new_task(thread + 1, name, user);
	return thread + 1;
}

static void begin(void *arg)
{
	const struct start start = *(struct start *)arg;

	memory_free(arg);
	current_thread()->since = now_ns();
	SERVICE(kthread_exit)(start.fn(start.data));
}

void *SERVICE(kthread_create_on_node)(int (*fn)(void *data), void *data, int node,
				      const char *name, ...)
{
	struct start *start = memory_alloc(sizeof(*start), 0);
	void *task;

	(void)node;
	if (!start)
		return (void *)(long)-ENOMEM;
	start->fn = fn;
	start->data = data;
	task = kiln_kthread_create(begin, start, name);
	if (!task) {
		memory_free(start);
		return (void *)(long)-ENOMEM;
	}
	task = kiln_task_word(task);
	thread_of(task)->fresh = true;
	return task;
}

int SERVICE(wake_up_process)(void *task)
{
	struct thread *thread = thread_of(task);

	if (thread->fresh) {
		thread->fresh = false;
		thread->counted = true;
		__atomic_fetch_add(&running, 1, __ATOMIC_RELAXED);
	}
	kiln_glue_task_runs(task);
	kiln_wake(task);
	return 1;
}

void SERVICE(kthread_exit)(long result)
{
	struct thread *thread = current_thread();

	(void)result;
	if (!thread->counted)
		give_up("kthread_exit outside a kthread");
	thread->counted = false;
	kiln_glue_task_ends(thread + 1);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	kiln_wake(&running);
	kiln_kthread_exit();
	__builtin_unreachable();
}

/* Waits until every started kthread has exited or is idle. */
void wait_for_threads(void)
{
	daemons = false;
	for (;;) {
		kiln_wait_prepare(&running);
		if (!running || daemons)
			break;
		give_cpu();
	}
	kiln_wait_finish();
}

/* Called when no task has been able to run for @ns. kernel/cpu calls this hook. */
void threads_idle(uint64_t ns)
{
	if (ns < DAEMONS_NS || tests_run())
		return;
	daemons = true;
	kiln_wake(&running);
}

/* Exits the process. Only KUnit calls this, and only if a case takes too long. */
int SERVICE(kthread_stop)(void *task)
{
	(void)task;
	give_up("a kernel thread does not end in time");
}

bool SERVICE(kthread_should_stop)(void)
{
	return false;
}

/* Sleeps, unless a wakeup has already set the state in the tree's task_struct to running. */
void SERVICE(schedule)(void)
{
	void *task = kiln_task_word(NULL);

	may_sleep("calls schedule()");
	kiln_wait_prepare(task);
	if (kiln_glue_task_sleeps(task))
		give_cpu();
	kiln_wait_finish();
	kiln_glue_task_runs(task);
}

long SERVICE(schedule_timeout)(long jiffies)
{
	void *task = kiln_task_word(NULL);
	struct deadline deadline;
	long left;

	may_sleep("calls schedule_timeout()");
	deadline_start(&deadline, task, (unsigned long)jiffies);
	kiln_wait_prepare(task);
	if (kiln_glue_task_sleeps(task) && !deadline_over(&deadline))
		give_cpu();
	kiln_wait_finish();
	kiln_glue_task_runs(task);
	left = (long)deadline_left(&deadline);
	deadline_end(&deadline);
	return left;
}

void SERVICE(yield)(void)
{
	struct thread *thread = current_thread();

	thread->ran += now_ns() - thread->since;
	kiln_yield();
	thread->since = now_ns();
}

int SERVICE(__cond_resched)(void)
{
	struct thread *thread = current_thread();
	const uint64_t left = now_ns();
	const bool others = kiln_cond_resched();

	if (others) {
		thread->ran += left - thread->since;
		thread->since = now_ns();
	}
	return others;
}

int SERVICE(dynamic_cond_resched)(void)
{
	return SERVICE(__cond_resched)();
}
