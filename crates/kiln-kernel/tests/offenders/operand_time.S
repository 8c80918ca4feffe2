/* Violates law 6: contains instructions whose timing may depend on their operands. */
	.text
	.globl divides
	.type divides, @function
divides:
	xor %edx, %edx
	mov %rdi, %rax
	div %rsi
	idivl %esi
	pdep %rdi, %rsi, %rax
	vpgatherdd %ymm0, (%rdi,%ymm1,4), %ymm2
	divpd %xmm0, %xmm1
	pcmpestri $0, %xmm0, %xmm1
	rdtsc
	mulq %rsi
	aesenc %xmm0, %xmm1
	ret
	.size divides, . - divides
