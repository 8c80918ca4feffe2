// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests the spin locks of a tree that keeps a separate preempt count (Linux 7.2 and later). After
 * each call, this count must equal the emulated CPU's own preempt count; otherwise, the program
 * exits with 1.
 *
 *	spin_locks [control]	with "control", the counts differ at the start, so the check fails
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "locks.c"

/* Replaces the function that sleeping locks call wherever they may sleep. */
void may_sleep(const char *what)
{
	(void)what;
}

static int own_count;
static char cpu[4096] __attribute__((aligned(64)));

void kiln_glue_count(int n)
{
	own_count += n;
}

void kiln_local_bh_disable(unsigned int count)
{
	cpu_add(CPU_PREEMPT_COUNT, count);
}

void kiln_local_bh_enable(unsigned int count)
{
	cpu_add(CPU_PREEMPT_COUNT, -count);
}

void kiln_local_irq_disable(void)
{
}

void kiln_local_irq_enable(void)
{
}

unsigned long kiln_local_irq_save(void)
{
	return 0;
}

void kiln_local_irq_restore(unsigned long flags)
{
	(void)flags;
}

void kiln_preempt_schedule(void)
{
}

void kiln_wait_prepare(const volatile void *on)
{
	(void)on;
}

void kiln_wait_finish(void)
{
}

void kiln_wake(const volatile void *on)
{
	(void)on;
}

void give_cpu(void)
{
}

void give_up(const char *why)
{
	puts(why);
	exit(1);
}

static void check(const char *call)
{
	const int count = cpu_read(CPU_PREEMPT_COUNT) & 0x7fffffff;

	if (own_count != count) {
		printf("after %s the tree's own count is %d, the CPU's %d\n", call, own_count,
		       count);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	enum { ARCH_SET_GS = 0x1001 };
	struct spinlock lock = { 0 };
	unsigned long flags;

	(void)argv;
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, cpu))
		return 2;
	cpu_write(CPU_PREEMPT_COUNT, 0x80000000);
	if (argc > 1)
		cpu_add(CPU_PREEMPT_COUNT, PREEMPT_OFFSET);

	SERVICE(_raw_spin_lock)(&lock);
	check("_raw_spin_lock");
	SERVICE(_raw_spin_unlock)(&lock);
	check("_raw_spin_unlock");
	SERVICE(_raw_spin_lock_bh)(&lock);
	check("_raw_spin_lock_bh");
	SERVICE(_raw_spin_unlock_bh)(&lock);
	check("_raw_spin_unlock_bh");
	SERVICE(_raw_spin_lock_irq)(&lock);
	check("_raw_spin_lock_irq");
	SERVICE(_raw_spin_unlock_irq)(&lock);
	check("_raw_spin_unlock_irq");
	flags = SERVICE(_raw_spin_lock_irqsave)(&lock);
	check("_raw_spin_lock_irqsave");
	SERVICE(_raw_spin_unlock_irqrestore)(&lock, flags);
	check("_raw_spin_unlock_irqrestore");

	if (!SERVICE(_raw_spin_trylock)(&lock))
		return 2;
	check("_raw_spin_trylock");
	SERVICE(_raw_spin_unlock)(&lock);
	check("_raw_spin_unlock");
	if (!SERVICE(_raw_spin_trylock_bh)(&lock))
		return 2;
	check("_raw_spin_trylock_bh");
	SERVICE(_raw_spin_unlock_bh)(&lock);
	check("_raw_spin_unlock_bh");

	lock.locked = 77;	/* as if locked by another CPU */
	if (SERVICE(_raw_spin_trylock)(&lock))
		return 2;
	check("_raw_spin_trylock, which failed,");
	if (SERVICE(_raw_spin_trylock_bh)(&lock))
		return 2;
	check("_raw_spin_trylock_bh, which failed,");
	return own_count != 0;
}
