/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Calls an AES-XTS implementation outside an FPU section, or inside one.
 *
 *	no_section list
 *	no_section outside|inside encrypt|decrypt INDEX LENGTH
 *
 * list prints index, driver, tier and what this CPU lacks for it, by tabs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc has one too; kernel/ never meets it, and need not care. */
#undef __always_inline
#include <kiln/abi/cipher.h>
#include <kiln/abi/cpu.h>
#include <kiln/fpu.h>

/* This thread becomes a CPU; without kernel threads it needs no stacks. */
static void boot(void)
{
	enum { ARCH_SET_GS = 0x1001 };
	const size_t size = (kiln_task_size() + 63) & ~(size_t)63;
	struct task *task = aligned_alloc(64, size);
	const struct kiln_cpu_config config = {
		.ticks_per_us = 1, .tasks = task, .nr_tasks = 1
	};
	struct cpu *cpu = aligned_alloc(64, (kiln_cpu_size() + 63) & ~(size_t)63);

	memset(task, 0, size);
	kiln_cpu_init(cpu, &config);
	if (syscall(SYS_arch_prctl, ARCH_SET_GS, cpu)) {
		perror("arch_prctl");
		exit(2);
	}
}

static int usage(void)
{
	fputs("usage: no_section list | outside|inside encrypt|decrypt INDEX LENGTH\n",
	      stderr);
	return 2;
}

static int list(void)
{
	for (size_t i = 0; i < kiln_impls(); i++) {
		const struct kiln_impl *impl = kiln_impl(i);
		const char *lacks = kiln_tier_lacks(impl->tier);

		if (strcmp(impl->alg, "xts(aes)"))
			continue;
		printf("%zu\t%s\t%u\t%s\n", i, impl->driver, impl->tier,
		       lacks ? lacks : "");
	}
	return 0;
}

int main(int argc, char **argv)
{
	/* Dying is expected, and leaves no core file. */
	const struct rlimit no_core = { 0, 0 };
	const struct kiln_impl *impl;
	void *ctx;
	u8 raw[64], iv[16] = { 0 };
	size_t index, len;
	u8 *buf;
	bool inside;

	if (argc == 2 && !strcmp(argv[1], "list"))
		return list();
	if (argc != 5)
		return usage();
	boot();
	inside = !strcmp(argv[1], "inside");
	index = strtoul(argv[3], NULL, 10);
	len = strtoul(argv[4], NULL, 10);
	impl = kiln_impl(index);
	if (!impl || strcmp(impl->alg, "xts(aes)") || len < 16)
		return usage();
	setrlimit(RLIMIT_CORE, &no_core);

	/* A multiple of the alignment, as aligned_alloc() wants it. */
	ctx = aligned_alloc(64, (impl->ctxsize + 63) & ~(size_t)63);
	buf = calloc(1, len);
	if (!ctx || !buf)
		return 3;
	/* Halves that differ, should setkey refuse equal ones. */
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (u8)(7 * i + 1);
	if (impl->setkey(ctx, raw, sizeof(raw)))
		return 4;

	if (inside)
		kernel_fpu_begin();
	if (!strcmp(argv[2], "decrypt"))
		impl->cipher.decrypt(ctx, buf, buf, len, iv);
	else
		impl->cipher.encrypt(ctx, buf, buf, len, iv);
	if (inside)
		kernel_fpu_end();
	free(buf);
	free(ctx);
	return 0;
}
