/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES encryption with table look-ups in x86-64 assembly, using general-purpose registers only. The
 * code was written by hand from aes/generic.c, not taken from compiler output. Since no compiler
 * affects it, it serves as the fixed reference in comparisons of compilers. Like generic.c, it is
 * NOT constant-time.
 */
#include "sbox.h"

/* Multiplication of a byte by constants in GF(2^8), in a form that the assembler can evaluate. */
#define MUL2(v) ((v) << 1 ^ ((v) >> 7) * 0x11b)
#define MUL3(v) (MUL2(v) ^ (v))
#define COLUMN(r0, r1, r2, r3) .long (r0) | (r1) << 8 | (r2) << 16 | (r3) << 24;

/* What byte v in row n of the state contributes to its column in MixColumns. */
#define ENC0(v) COLUMN(MUL2(v), v, v, MUL3(v))
#define ENC1(v) COLUMN(MUL3(v), MUL2(v), v, v)
#define ENC2(v) COLUMN(v, MUL3(v), MUL2(v), v)
#define ENC3(v) COLUMN(v, v, MUL3(v), MUL2(v))
#define BYTE(v) .byte v;

#define ROW 1024	/* bytes per look-up table; each row of the state has a table */
#define ROUNDS 480	/* offset in struct aes_key (aes.h) */

	.section .rodata
	.balign 64
tables:
	AES_SBOX(ENC0)
	AES_SBOX(ENC1)
	AES_SBOX(ENC2)
	AES_SBOX(ENC3)
sub:
	AES_SBOX(BYTE)

	.text

/*
 * Adds the contributions of one column of the state to the four columns of the next state. The
 * column is in a register whose second byte is addressable (%ah, %bh, ...).
 */
.macro mix_column x, d0, d1, d2, d3
	movzbl %\x\()l, %esi
	movzbl %\x\()h, %ebp
	xorl (%r15,%rsi,4), \d0
	xorl ROW(%r15,%rbp,4), \d1
	shrl $16, %e\x\()x
	movzbl %\x\()l, %esi
	movzbl %\x\()h, %ebp
	xorl 2*ROW(%r15,%rsi,4), \d2
	xorl 3*ROW(%r15,%rbp,4), \d3
.endm

/* Adds the S-box value of \byte, shifted left by \shift bits, to the column \d of the result. */
.macro sub_byte byte, d, shift
	movzbl \byte, %esi
	movzbl sub-tables(%r15,%rsi), %esi
	.if \shift
	shll $\shift, %esi
	.endif
	xorl %esi, \d
.endm

.macro sub_column x, d0, d1, d2, d3
	sub_byte %\x\()l, \d0, 0
	sub_byte %\x\()h, \d1, 8
	shrl $16, %e\x\()x
	sub_byte %\x\()l, \d2, 16
	sub_byte %\x\()h, \d3, 24
.endm

/* ShiftRows takes row n of column c from column c + n. */
.macro round column
	movl (%rdi), %r8d
	movl 4(%rdi), %r9d
	movl 8(%rdi), %r10d
	movl 12(%rdi), %r11d
	\column a, %r8d, %r11d, %r10d, %r9d
	\column b, %r9d, %r8d, %r11d, %r10d
	\column c, %r10d, %r9d, %r8d, %r11d
	\column d, %r11d, %r10d, %r9d, %r8d
.endm

/*
 * Encrypts one block:
 * void aes_encrypt_x86_64(const struct aes_key *key, u8 *dst, const u8 *src)
 */
	.globl aes_encrypt_x86_64
	.hidden aes_encrypt_x86_64
	.type aes_encrypt_x86_64, @function
	.balign 64
aes_encrypt_x86_64:
	pushq %rbx
	pushq %rbp
	pushq %r14
	pushq %r15
	pushq %rsi
	leaq tables(%rip), %r15
	movl ROUNDS(%rdi), %r14d
	shlq $4, %r14
	addq %rdi, %r14

	movq (%rdx), %rax
	movq 8(%rdx), %rcx
	xorq (%rdi), %rax
	xorq 8(%rdi), %rcx
	movq %rax, %rbx
	movq %rcx, %rdx
	movl %eax, %eax
	movl %ecx, %ecx
	shrq $32, %rbx
	shrq $32, %rdx

	addq $16, %rdi
1:	round mix_column
	movl %r8d, %eax
	movl %r9d, %ebx
	movl %r10d, %ecx
	movl %r11d, %edx
	addq $16, %rdi
	cmpq %r14, %rdi
	jb 1b
	round sub_column

	/* Store 64-bit words, because callers load the result as 64-bit words. */
	popq %rsi
	shlq $32, %r9
	shlq $32, %r11
	orq %r9, %r8
	orq %r11, %r10
	movq %r8, (%rsi)
	movq %r10, 8(%rsi)
	popq %r15
	popq %r14
	popq %rbp
	popq %rbx
	ret
	.size aes_encrypt_x86_64, . - aes_encrypt_x86_64
