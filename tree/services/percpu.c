// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Per-CPU data: one area, to which the GS base points. From its start:
 *
 *	0		struct cpu, which begins as struct pcpu_hot does
 *	0xf0000		single words that a tree addresses by symbol
 *	0x100000	the tree's .data..percpu, at its link address (host.ld)
 *	behind it	what the tree allocates
 *
 * A per-CPU address is an offset into the area, as in a kernel.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service.h"

#define AREA_SIZE (64ul << 20)
#define NEED_RESCHED_NOT 0x80000000u

/* Absolute symbols of the link. */
extern char this_cpu_off[];

static char *area;
static unsigned long used;

unsigned long SERVICE(__per_cpu_offset)[8192];
unsigned long SERVICE(__cpu_possible_mask)[128] = { 1 };
unsigned long SERVICE(__cpu_online_mask)[128] = { 1 };
unsigned long SERVICE(__cpu_present_mask)[128] = { 1 };
unsigned int SERVICE(nr_cpu_ids) = 1;
int SERVICE(__num_online_cpus) = 1;

/*
 * The section's first contents. It is not loaded, since its addresses are offsets;
 * they are in the file.
 */
static void load_initial_data(void)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const Elf64_Ehdr *file;
	const Elf64_Shdr *section;
	const char *names;
	struct stat st;
	int i;

	if (fd < 0 || fstat(fd, &st))
		give_up("cannot read /proc/self/exe");
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		give_up("cannot map /proc/self/exe");
	section = (const void *)((const char *)file + file->e_shoff);
	names = (const char *)file + section[file->e_shstrndx].sh_offset;
	for (i = 0; i < file->e_shnum; i++) {
		const Elf64_Shdr *s = &section[i];

		if (strncmp(names + s->sh_name, ".data..percpu", 13))
			continue;
		if (s->sh_addr + s->sh_size > AREA_SIZE / 2)
			give_up("the tree's per-CPU data is larger than its area");
		if (s->sh_type != SHT_NOBITS)
			memcpy(area + s->sh_addr, (const char *)file + s->sh_offset,
			       s->sh_size);
		if (s->sh_addr + s->sh_size > used)
			used = s->sh_addr + s->sh_size;
	}
	munmap((void *)file, (size_t)st.st_size);
}

void percpu_init(void *task)
{
	area = mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		give_up("no memory for per-CPU data");
	used = 0x100000;
	load_initial_data();
	*(void **)area = task;
	*(unsigned int *)(area + CPU_PREEMPT_COUNT) = NEED_RESCHED_NOT;
	*(unsigned long *)(area + (unsigned long)this_cpu_off) = (unsigned long)area;
	SERVICE(__per_cpu_offset)[0] = (unsigned long)area;
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, area))
		give_up("cannot set the GS base");
}

unsigned long SERVICE(pcpu_alloc_noprof)(size_t size, size_t align, bool reserved,
					 unsigned int gfp)
{
	unsigned long at;

	(void)reserved;
	(void)gfp;
	if (align < 16)
		align = 16;
	at = (used + align - 1) & ~(align - 1);
	if (at + size > AREA_SIZE)
		return 0;
	used = at + size;
	return at;
}

/* The area is never short: freed memory is not used again. */
void SERVICE(free_percpu)(unsigned long at)
{
	(void)at;
}
