/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Poly1305 in general-purpose registers, with 64-bit words and 128-bit products. */
#ifndef KILN_POLY1305_WORDS_H
#define KILN_POLY1305_WORDS_H

#include <kiln/unaligned.h>

#include "poly1305_limbs.h"

/*
 * A sum in progress: h2:h1:h0 + c. @c, the carry of a step, is ready last, so the next step first
 * adds its block and then @c.
 */
struct poly1305_words {
	u64 h0, h1, h2, c;
};

/*
 * Computes (h + block) * r. Clamping clears the two low bits of r1, so 2^128 * r1 is congruent to
 * 5/4 * r1 modulo 2^130 - 5, and 5/4 * r1 is an integer.
 *
 * The additions with carry are written in assembly. In C, compilers would move the carry flag into
 * a register and back between 128-bit additions, which would make a step a third longer. This
 * matters most for short messages. While the last steps of one message wait for each other, the CPU
 * already starts the next message. However, it can hold only a limited number of waiting
 * instructions, so longer steps leave less room for those of the next message.
 */
static __always_inline struct poly1305_words poly1305_step(struct poly1305_words h, u64 m0, u64 m1,
							   u64 bit, u64 r0, u64 r1)
{
	const u64 s1 = r1 + (r1 >> 2);
	u128 d0, d1, p;
	u64 low0, high0, low1, high1, d2;

	__asm__("addq %[m0], %[h0]\n\tadcq %[m1], %[h1]\n\tadcq %[bit], %[h2]"
		: [h0] "+&r"(h.h0), [h1] "+&r"(h.h1), [h2] "+&r"(h.h2)
		: [m0] "r"(m0), [m1] "r"(m1), [bit] "ri"(bit) : "cc");
	if (!__builtin_constant_p(h.c) || h.c)
		__asm__("addq %[c], %[h0]\n\tadcq $0, %[h1]\n\tadcq $0, %[h2]"
			: [h0] "+&r"(h.h0), [h1] "+&r"(h.h1), [h2] "+&r"(h.h2)
			: [c] "r"(h.c) : "cc");
	d0 = (u128)h.h0 * r0;
	d1 = (u128)h.h0 * r1;
	low0 = (u64)d0;
	high0 = (u64)(d0 >> 64);
	p = (u128)h.h1 * s1;
	__asm__("addq %[p0], %[l]\n\tadcq %[p1], %[h]"
		: [l] "+&r"(low0), [h] "+&r"(high0)
		: [p0] "r"((u64)p), [p1] "r"((u64)(p >> 64)) : "cc");
	/*
	 * A sum is below 2^131, so h2 is at most 9 here. r0 and r1 are below 2^60, so high0 stays
	 * below 13.5 * 2^60.
	 */
	high0 += h.h2 * s1;
	low1 = (u64)d1;
	high1 = (u64)(d1 >> 64);
	p = (u128)h.h1 * r0;
	__asm__("addq %[p0], %[l]\n\tadcq %[p1], %[h]"
		: [l] "+&r"(low1), [h] "+&r"(high1)
		: [p0] "r"((u64)p), [p1] "r"((u64)(p >> 64)) : "cc");
	d2 = h.h2 * r0;
	__asm__("addq %[p0], %[l]\n\tadcq %[p1], %[h]"
		: [l] "+&r"(low1), [h] "+&r"(d2) : [p0] "r"(high0), [p1] "r"(high1) : "cc");
	/* Reduce: multiply the bits above the lower 130 by 5, and return the product as the carry. */
	return (struct poly1305_words){
		.h0 = low0, .h1 = low1, .h2 = d2 & 3, .c = (d2 >> 2) + (d2 & ~3ull),
	};
}

/*
 * Loads @n bytes, 1 to 15, as a block padded with zeros. Combines the bytes in registers: if the
 * block were assembled in memory, an eight-byte load of it would have to wait for the stores.
 */
static __always_inline void poly1305_load_part(u64 m[2], const u8 *p, size_t n)
{
	m[1] = 0;
	if (n >= 8) {
		m[0] = get_le64(p);
		/* Two shifts, because a shift by 64 is undefined. */
		m[1] = get_le64(p + n - 8) >> (120 - 8 * n) >> 8;
	} else if (n >= 4) {
		m[0] = get_le32(p) | (u64)get_le32(p + n - 4) << (8 * n - 32);
	} else {
		m[0] = p[0] | (u64)p[n / 2] << (8 * (n / 2)) | (u64)p[n - 1] << (8 * n - 8);
	}
}

/* Processes whole blocks: adds each block to the sum and multiplies the sum by r. */
static __always_inline struct poly1305_words poly1305_steps(struct poly1305_words h, const u8 *src,
							    size_t blocks, u64 r0, u64 r1)
{
	for (; blocks; blocks--, src += POLY1305_BLOCK_SIZE)
		h = poly1305_step(h, get_le64(src), get_le64(src + 8), 1, r0, r1);
	return h;
}

/* Adds the carry to the words; the result is less than 2^131. */
static __always_inline struct poly1305_sum poly1305_sum_of(struct poly1305_words h)
{
	u128 t = (u128)h.h0 + h.c;
	struct poly1305_sum sum;

	sum.h[0] = (u64)t;
	t = (u128)h.h1 + (u64)(t >> 64);
	sum.h[1] = (u64)t;
	sum.h[2] = h.h2 + (u64)(t >> 64);
	return sum;
}

/* Computes the tag: ((h mod (2^130 - 5)) + s) mod 2^128. */
static __always_inline void poly1305_tag(struct poly1305_sum h, u64 s0, u64 s1, u64 tag[2])
{
	u64 h0 = h.h[0], h1 = h.h[1], mask;
	u128 t;

	/*
	 * h + 5 is at least 2^130 if and only if h is at least 2^130 - 5. Subtracting the modulus
	 * once is then enough.
	 */
	t = (u128)h0 + 5;
	t = (u128)h1 + (u64)(t >> 64);
	mask = 0 - ((h.h[2] + (u64)(t >> 64)) >> 2);
	t = (u128)h0 + (mask & 5);
	h1 += (u64)(t >> 64);

	t = (u128)(u64)t + s0;
	tag[0] = (u64)t;
	tag[1] = h1 + s1 + (u64)(t >> 64);
}

#endif
