/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * memcpy and related functions in general-purpose registers (lib/string.c). Their link names have
 * Kiln's prefix. The build renames the calls that compilers emit for structure copies, so that they
 * reach the same functions.
 */
#ifndef KILN_STRING_H
#define KILN_STRING_H

#include <kiln/types.h>

void *kiln_memcpy(void *dst, const void *src, size_t n);
void *kiln_memmove(void *dst, const void *src, size_t n);
void *kiln_memset(void *dst, int byte, size_t n);
int kiln_memcmp(const void *a, const void *b, size_t n);

#define memcpy kiln_memcpy
#define memmove kiln_memmove
#define memset kiln_memset
#define memcmp kiln_memcmp

/*
 * Wipes data that functions called earlier by the caller may have left: KILN_WIPED_BELOW bytes of
 * the stack below the caller, and all registers that a function need not preserve. The caller's own
 * variables and spills are not wiped, so functions that handle secrets must not be inlined into the
 * caller.
 */
#define KILN_WIPED_BELOW 512
void kiln_wipe_below(void);

/* Wipes @n bytes at @p. Compilers cannot remove the stores as dead. */
static __always_inline void memzero_explicit(void *p, size_t n)
{
	kiln_memset(p, 0, n);
	__asm__ volatile("" : : "r"(p) : "memory");
}

/* Wipes a few whole words without memset, which uses REP STOSB and its high startup cost. */
static __always_inline void wipe_words(void *p, size_t n)
{
	u64 *word = p;
	size_t i;

	for (i = 0; i < n / 8; i++)
		word[i] = 0;
	__asm__ volatile("" : : "r"(p) : "memory");
}

/*
 * Returns the OR of the differences between the @n bytes at @a and at @b, which is 0 if they are
 * equal. The time depends on @n alone.
 */
static __always_inline u8 secrets_differ(const u8 *a, const u8 *b, size_t n)
{
	u8 differ = 0;
	size_t i;

	for (i = 0; i < n; i++)
		differ |= a[i] ^ b[i];
	return differ;
}

static inline bool streq(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

#endif
