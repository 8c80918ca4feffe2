// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * memcpy and related functions in general-purpose registers only. They may run inside any FPU
 * section, where the host's versions would overwrite live vector registers.
 *
 * Two properties of these loops must be kept:
 *
 * - The build renames calls to memcpy and related functions to the names defined here, so a loop
 *   that the compiler recognises as a copy would call itself forever. Every loop therefore passes
 *   its word through opaque(), which prevents that recognition regardless of the compiler's flags.
 * - Words are accessed through packed types, not __builtin_memcpy, because an unoptimised build may
 *   compile even an 8-byte __builtin_memcpy to a call.
 *
 * The string instructions need DF = 0, which the ABI and the kernel guarantee.
 */
#include <kiln/string.h>

/*
 * From this size on, REP MOVSB and STOSB are faster than a loop over words. Below it, their startup
 * cost of about 30 cycles dominates.
 */
#define REP_THRESHOLD 512

struct word16 { u16 v; } __attribute__((packed, may_alias));
struct word32 { u32 v; } __attribute__((packed, may_alias));
struct word64 { u64 v; } __attribute__((packed, may_alias));

#define LOAD(type, p) (((const struct type *)(p))->v)
#define STORE(type, p, x) (((struct type *)(p))->v = (x))

static __always_inline u64 opaque(u64 x)
{
	__asm__ volatile("" : "+r"(x));
	return x;
}

/*
 * Copies @n bytes as two words, the first and the last, which may overlap. Both words are loaded
 * before either is stored, so the source and the destination may overlap, too.
 */
#define MOVE_TWO(type, d, s, n)                                                       \
	do {                                                                          \
		const size_t last_ = (n) - sizeof(struct type);                       \
		const u64 a_ = LOAD(type, s), b_ = LOAD(type, (s) + last_);           \
										      \
		STORE(type, d, a_);                                                   \
		STORE(type, (d) + last_, b_);                                         \
	} while (0)

static __always_inline void move_upto_16(u8 *d, const u8 *s, size_t n)
{
	if (n >= 8)
		MOVE_TWO(word64, d, s, n);
	else if (n >= 4)
		MOVE_TWO(word32, d, s, n);
	else if (n >= 2)
		MOVE_TWO(word16, d, s, n);
	else if (n)
		*d = *s;
}

/*
 * Copies @n > 16 bytes upwards. This is correct if @d is below @s, at any distance. The last 16
 * bytes are loaded first, because the loop may overwrite them.
 */
static __always_inline void move_up(u8 *d, const u8 *s, size_t n)
{
	u64 a = LOAD(word64, s + n - 16);
	u64 b = LOAD(word64, s + n - 8);
	u8 *end = d + n - 16;

	do {
		u64 x = opaque(LOAD(word64, s));
		u64 y = opaque(LOAD(word64, s + 8));

		STORE(word64, d, x);
		STORE(word64, d + 8, y);
		s += 16;
		d += 16;
	} while (d < end);
	STORE(word64, end, a);
	STORE(word64, end + 8, b);
}

/* Copies @n > 16 bytes downwards, the mirror image of move_up(), for @d above @s. */
static __always_inline void move_down(u8 *d, const u8 *s, size_t n)
{
	u64 a = LOAD(word64, s);
	u64 b = LOAD(word64, s + 8);
	u8 *start = d;

	do {
		u64 x;
		u64 y;

		n -= 16;
		x = opaque(LOAD(word64, s + n + 8));
		y = opaque(LOAD(word64, s + n));
		STORE(word64, d + n + 8, x);
		STORE(word64, d + n, y);
	} while (n > 16);
	STORE(word64, start, a);
	STORE(word64, start + 8, b);
}

static __always_inline void rep_movsb(u8 *d, const u8 *s, size_t n)
{
	__asm__ volatile("rep movsb"
			 : "+D"(d), "+S"(s), "+c"(n) : : "memory");
}

void *kiln_memcpy(void *dst, const void *src, size_t n)
{
	if (n <= 16)
		move_upto_16(dst, src, n);
	else if (n < REP_THRESHOLD)
		move_up(dst, src, n);
	else
		rep_movsb(dst, src, n);
	return dst;
}

void *kiln_memmove(void *dst, const void *src, size_t n)
{
	/* The subtraction wraps, so the result is below @n only if @dst is inside the source. */
	size_t ahead = (u8 *)dst - (const u8 *)src;

	if (n <= 16)
		move_upto_16(dst, src, n);
	else if (ahead < n)
		move_down(dst, src, n);
	else if (n < REP_THRESHOLD || -ahead < n)
		/* If the distance is small, REP MOVSB would copy single bytes. */
		move_up(dst, src, n);
	else
		rep_movsb(dst, src, n);
	return dst;
}

void *kiln_memset(void *dst, int byte, size_t n)
{
	u64 fill = (u8)byte * 0x0101010101010101ull;
	u8 *d = dst;

	if (n >= REP_THRESHOLD) {
		__asm__ volatile("rep stosb"
				 : "+D"(d), "+c"(n) : "a"(fill) : "memory");
	} else if (n >= 8) {
		u8 *end = d + n - 8;

		for (; d < end; d += 8)
			STORE(word64, d, opaque(fill));
		STORE(word64, end, fill);
	} else if (n >= 4) {
		STORE(word32, d, (u32)fill);
		STORE(word32, d + n - 4, (u32)fill);
	} else if (n) {
		d[0] = fill;
		d[n / 2] = fill;
		d[n - 1] = fill;
	}
	return dst;
}

/* Compares memory. Returns at the first difference, so it must not be used for secrets. */
int kiln_memcmp(const void *a, const void *b, size_t n)
{
	const u8 *p = a;
	const u8 *q = b;

	for (; n >= 8; n -= 8, p += 8, q += 8) {
		u64 x = opaque(LOAD(word64, p));
		u64 y = opaque(LOAD(word64, q));

		if (x != y) {
			/*
			 * The first byte in memory decides the result, so make it the most
			 * significant one.
			 */
			x = __builtin_bswap64(x);
			y = __builtin_bswap64(y);
			return x < y ? -1 : 1;
		}
	}
	for (; n; n--, p++, q++) {
		int x = opaque(*p);
		int y = *q;

		if (x != y)
			return x - y;
	}
	return 0;
}

void kiln_wipe_below(void)
{
	u64 below[KILN_WIPED_BELOW / 8];

	memzero_explicit(below, sizeof(below));
#ifdef __x86_64__
	__asm__ volatile("xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\txor %%edx, %%edx\n\t"
			 "xor %%esi, %%esi\n\txor %%edi, %%edi\n\txor %%r8d, %%r8d\n\t"
			 "xor %%r9d, %%r9d\n\txor %%r10d, %%r10d\n\txor %%r11d, %%r11d"
			 : : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "cc");
#endif
}
