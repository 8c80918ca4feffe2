// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Random numbers. They come from one splitmix64 generator that the loader seeds, so that the random
 * values in the tree's self-tests are reproducible.
 */
#include "service.h"

uint64_t SERVICE(get_random_u64)(void)
{
	uint64_t z = __atomic_add_fetch(&boot.seed, 0x9e3779b97f4a7c15u, __ATOMIC_RELAXED);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint32_t SERVICE(get_random_u32)(void)
{
	return (uint32_t)(SERVICE(get_random_u64)() >> 32);
}

uint8_t SERVICE(get_random_u8)(void)
{
	return (uint8_t)(SERVICE(get_random_u64)() >> 56);
}

void SERVICE(get_random_bytes)(void *p, size_t n)
{
	uint8_t *byte = p;

	while (n--)
		*byte++ = SERVICE(get_random_u8)();
}

int SERVICE(wait_for_random_bytes)(void)
{
	return 0;
}

bool SERVICE(rng_is_initialized)(void)
{
	return true;
}

/* Does nothing. The generator is always initialised, so the notifier need not be called. */
int SERVICE(execute_with_initialized_rng)(void *notifier)
{
	(void)notifier;
	return 0;
}

/* Scales the random number by multiplication. The bias of 2^-32 cannot affect a self-test. */
uint32_t SERVICE(__get_random_u32_below)(uint32_t ceil)
{
	return (uint32_t)((uint64_t)SERVICE(get_random_u32)() * ceil >> 32);
}
