/* Contains one instruction from each tier. In an object for a lower tier, each violates law 6. */
	.text
	.globl climbs
	.type climbs, @function
climbs:
	add %rdi, %rax
	aesenc %xmm0, %xmm1
	rorx $7, %rdi, %rax
	vpaddd %ymm0, %ymm1, %ymm2
	vaesenc %ymm0, %ymm1, %ymm2
	vpxorq %xmm0, %xmm1, %xmm17
	ret
	.size climbs, . - climbs
