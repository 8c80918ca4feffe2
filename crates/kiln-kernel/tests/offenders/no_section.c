/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Calls an AES-XTS implementation outside or inside an FPU section.
 *
 *	no_section list
 *	no_section outside|inside encrypt|decrypt INDEX LENGTH
 *
 * "list" prints one line per implementation, with fields separated by tabs: index, driver, tier,
 * and a feature that the implementation needs but this CPU lacks. The last field is empty if the
 * CPU has all features that the implementation needs.
 */
#include "../programs/program.h"

#include <kiln/abi/cipher.h>

#include <sys/resource.h>

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

		if (!streq(impl->alg, "xts(aes)"))
			continue;
		printf("%zu\t%s\t%u\t%s\n", i, impl->driver, impl->tier,
		       lacks ? lacks : "");
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct kiln_cpu_config config = { .ticks_per_us = 1 };
	/* Disable core files, because a crash is expected. */
	const struct rlimit no_core = { 0, 0 };
	const struct kiln_impl *impl;
	void *ctx;
	u8 raw[64], iv[16] = { 0 };
	size_t index, len;
	u8 *buf;
	bool inside;

	if (argc == 2 && streq(argv[1], "list"))
		return list();
	if (argc != 5)
		return usage();
	boot_cpu(&config);
	inside = streq(argv[1], "inside");
	index = strtoul(argv[3], NULL, 10);
	len = strtoul(argv[4], NULL, 10);
	impl = kiln_impl(index);
	if (!impl || !streq(impl->alg, "xts(aes)") || len < 16)
		return usage();
	setrlimit(RLIMIT_CORE, &no_core);

	/* Round up the size, because aligned_alloc() requires a multiple of the alignment. */
	ctx = aligned_alloc(64, (impl->ctxsize + 63) & ~(size_t)63);
	buf = calloc(1, len);
	if (!ctx || !buf)
		return 3;
	/* Make the two halves of the key different, because setkey may reject equal halves. */
	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (u8)(7 * i + 1);
	if (impl->setkey(ctx, raw, sizeof(raw)))
		return 4;

	if (inside)
		kernel_fpu_begin();
	if (streq(argv[2], "decrypt"))
		impl->cipher.decrypt(ctx, buf, buf, len, iv);
	else
		impl->cipher.encrypt(ctx, buf, buf, len, iv);
	if (inside)
		kernel_fpu_end();
	free(buf);
	free(ctx);
	return 0;
}
