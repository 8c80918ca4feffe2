// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Byte and string functions that use only general-purpose registers. They include the memcpy()
 * family, because the compiler generates calls to these functions.
 */
#include "service.h"

void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *p, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);

void clear(void *p, size_t n)
{
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(0) : "memory");
}

void *copy(void *to, const void *from, size_t n)
{
	void *start = to;

	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	return start;
}

bool same(const char *a, const char *b)
{
	for (; *a == *b; a++, b++)
		if (!*a)
			return true;
	return false;
}

bool same_bytes(const void *a, const void *b, size_t n)
{
	return !memcmp(a, b, n);
}

void *memcpy(void *to, const void *from, size_t n)
{
	return copy(to, from, n);
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f || t >= f + n)
		return copy(to, from, n);
	while (n--)
		t[n] = f[n];
	return to;
}

void *memset(void *p, int byte, size_t n)
{
	void *start = p;

	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(byte) : "memory");
	return start;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *p = a, *q = b;

	for (; n--; p++, q++)
		if (*p != *q)
			return *p < *q ? -1 : 1;
	return 0;
}
