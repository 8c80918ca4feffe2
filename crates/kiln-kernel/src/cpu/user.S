# A user program that enters the kernel with a pattern in every register it has, and
# writes down what it finds there on return: kiln_user_call_N(want, found, fn, arg),
# with N the width of its vectors. The layout is struct pattern of kernel/load/patterns.h.
.text
.globl kiln_user_call_128
.hidden kiln_user_call_128
.type kiln_user_call_128, @function
kiln_user_call_128:
	push %rbx
	mov %rsi, %rbx
	movdqu 0(%rdi), %xmm0
	movdqu 64(%rdi), %xmm1
	movdqu 128(%rdi), %xmm2
	movdqu 192(%rdi), %xmm3
	movdqu 256(%rdi), %xmm4
	movdqu 320(%rdi), %xmm5
	movdqu 384(%rdi), %xmm6
	movdqu 448(%rdi), %xmm7
	movdqu 512(%rdi), %xmm8
	movdqu 576(%rdi), %xmm9
	movdqu 640(%rdi), %xmm10
	movdqu 704(%rdi), %xmm11
	movdqu 768(%rdi), %xmm12
	movdqu 832(%rdi), %xmm13
	movdqu 896(%rdi), %xmm14
	movdqu 960(%rdi), %xmm15
	ldmxcsr 2112(%rdi)
	fldcw 2116(%rdi)
	mov %rdx, %rdi
	mov %rcx, %rsi
	call kiln_gate
	movdqu %xmm0, 0(%rbx)
	movdqu %xmm1, 64(%rbx)
	movdqu %xmm2, 128(%rbx)
	movdqu %xmm3, 192(%rbx)
	movdqu %xmm4, 256(%rbx)
	movdqu %xmm5, 320(%rbx)
	movdqu %xmm6, 384(%rbx)
	movdqu %xmm7, 448(%rbx)
	movdqu %xmm8, 512(%rbx)
	movdqu %xmm9, 576(%rbx)
	movdqu %xmm10, 640(%rbx)
	movdqu %xmm11, 704(%rbx)
	movdqu %xmm12, 768(%rbx)
	movdqu %xmm13, 832(%rbx)
	movdqu %xmm14, 896(%rbx)
	movdqu %xmm15, 960(%rbx)
	stmxcsr 2112(%rbx)
	fnstcw 2116(%rbx)
	ldmxcsr kiln_user_mxcsr(%rip)
	fldcw kiln_user_fcw(%rip)
	pop %rbx
	ret
.size kiln_user_call_128, . - kiln_user_call_128
.globl kiln_user_call_256
.hidden kiln_user_call_256
.type kiln_user_call_256, @function
kiln_user_call_256:
	push %rbx
	mov %rsi, %rbx
	vmovdqu 0(%rdi), %ymm0
	vmovdqu 64(%rdi), %ymm1
	vmovdqu 128(%rdi), %ymm2
	vmovdqu 192(%rdi), %ymm3
	vmovdqu 256(%rdi), %ymm4
	vmovdqu 320(%rdi), %ymm5
	vmovdqu 384(%rdi), %ymm6
	vmovdqu 448(%rdi), %ymm7
	vmovdqu 512(%rdi), %ymm8
	vmovdqu 576(%rdi), %ymm9
	vmovdqu 640(%rdi), %ymm10
	vmovdqu 704(%rdi), %ymm11
	vmovdqu 768(%rdi), %ymm12
	vmovdqu 832(%rdi), %ymm13
	vmovdqu 896(%rdi), %ymm14
	vmovdqu 960(%rdi), %ymm15
	ldmxcsr 2112(%rdi)
	fldcw 2116(%rdi)
	mov %rdx, %rdi
	mov %rcx, %rsi
	call kiln_gate
	vmovdqu %ymm0, 0(%rbx)
	vmovdqu %ymm1, 64(%rbx)
	vmovdqu %ymm2, 128(%rbx)
	vmovdqu %ymm3, 192(%rbx)
	vmovdqu %ymm4, 256(%rbx)
	vmovdqu %ymm5, 320(%rbx)
	vmovdqu %ymm6, 384(%rbx)
	vmovdqu %ymm7, 448(%rbx)
	vmovdqu %ymm8, 512(%rbx)
	vmovdqu %ymm9, 576(%rbx)
	vmovdqu %ymm10, 640(%rbx)
	vmovdqu %ymm11, 704(%rbx)
	vmovdqu %ymm12, 768(%rbx)
	vmovdqu %ymm13, 832(%rbx)
	vmovdqu %ymm14, 896(%rbx)
	vmovdqu %ymm15, 960(%rbx)
	stmxcsr 2112(%rbx)
	fnstcw 2116(%rbx)
	ldmxcsr kiln_user_mxcsr(%rip)
	fldcw kiln_user_fcw(%rip)
	vzeroupper
	pop %rbx
	ret
.size kiln_user_call_256, . - kiln_user_call_256
.globl kiln_user_call_512
.hidden kiln_user_call_512
.type kiln_user_call_512, @function
kiln_user_call_512:
	push %rbx
	mov %rsi, %rbx
	vmovdqu64 0(%rdi), %zmm0
	vmovdqu64 64(%rdi), %zmm1
	vmovdqu64 128(%rdi), %zmm2
	vmovdqu64 192(%rdi), %zmm3
	vmovdqu64 256(%rdi), %zmm4
	vmovdqu64 320(%rdi), %zmm5
	vmovdqu64 384(%rdi), %zmm6
	vmovdqu64 448(%rdi), %zmm7
	vmovdqu64 512(%rdi), %zmm8
	vmovdqu64 576(%rdi), %zmm9
	vmovdqu64 640(%rdi), %zmm10
	vmovdqu64 704(%rdi), %zmm11
	vmovdqu64 768(%rdi), %zmm12
	vmovdqu64 832(%rdi), %zmm13
	vmovdqu64 896(%rdi), %zmm14
	vmovdqu64 960(%rdi), %zmm15
	vmovdqu64 1024(%rdi), %zmm16
	vmovdqu64 1088(%rdi), %zmm17
	vmovdqu64 1152(%rdi), %zmm18
	vmovdqu64 1216(%rdi), %zmm19
	vmovdqu64 1280(%rdi), %zmm20
	vmovdqu64 1344(%rdi), %zmm21
	vmovdqu64 1408(%rdi), %zmm22
	vmovdqu64 1472(%rdi), %zmm23
	vmovdqu64 1536(%rdi), %zmm24
	vmovdqu64 1600(%rdi), %zmm25
	vmovdqu64 1664(%rdi), %zmm26
	vmovdqu64 1728(%rdi), %zmm27
	vmovdqu64 1792(%rdi), %zmm28
	vmovdqu64 1856(%rdi), %zmm29
	vmovdqu64 1920(%rdi), %zmm30
	vmovdqu64 1984(%rdi), %zmm31
	kmovq 2048(%rdi), %k0
	kmovq 2056(%rdi), %k1
	kmovq 2064(%rdi), %k2
	kmovq 2072(%rdi), %k3
	kmovq 2080(%rdi), %k4
	kmovq 2088(%rdi), %k5
	kmovq 2096(%rdi), %k6
	kmovq 2104(%rdi), %k7
	ldmxcsr 2112(%rdi)
	fldcw 2116(%rdi)
	mov %rdx, %rdi
	mov %rcx, %rsi
	call kiln_gate
	vmovdqu64 %zmm0, 0(%rbx)
	vmovdqu64 %zmm1, 64(%rbx)
	vmovdqu64 %zmm2, 128(%rbx)
	vmovdqu64 %zmm3, 192(%rbx)
	vmovdqu64 %zmm4, 256(%rbx)
	vmovdqu64 %zmm5, 320(%rbx)
	vmovdqu64 %zmm6, 384(%rbx)
	vmovdqu64 %zmm7, 448(%rbx)
	vmovdqu64 %zmm8, 512(%rbx)
	vmovdqu64 %zmm9, 576(%rbx)
	vmovdqu64 %zmm10, 640(%rbx)
	vmovdqu64 %zmm11, 704(%rbx)
	vmovdqu64 %zmm12, 768(%rbx)
	vmovdqu64 %zmm13, 832(%rbx)
	vmovdqu64 %zmm14, 896(%rbx)
	vmovdqu64 %zmm15, 960(%rbx)
	vmovdqu64 %zmm16, 1024(%rbx)
	vmovdqu64 %zmm17, 1088(%rbx)
	vmovdqu64 %zmm18, 1152(%rbx)
	vmovdqu64 %zmm19, 1216(%rbx)
	vmovdqu64 %zmm20, 1280(%rbx)
	vmovdqu64 %zmm21, 1344(%rbx)
	vmovdqu64 %zmm22, 1408(%rbx)
	vmovdqu64 %zmm23, 1472(%rbx)
	vmovdqu64 %zmm24, 1536(%rbx)
	vmovdqu64 %zmm25, 1600(%rbx)
	vmovdqu64 %zmm26, 1664(%rbx)
	vmovdqu64 %zmm27, 1728(%rbx)
	vmovdqu64 %zmm28, 1792(%rbx)
	vmovdqu64 %zmm29, 1856(%rbx)
	vmovdqu64 %zmm30, 1920(%rbx)
	vmovdqu64 %zmm31, 1984(%rbx)
	kmovq %k0, 2048(%rbx)
	kmovq %k1, 2056(%rbx)
	kmovq %k2, 2064(%rbx)
	kmovq %k3, 2072(%rbx)
	kmovq %k4, 2080(%rbx)
	kmovq %k5, 2088(%rbx)
	kmovq %k6, 2096(%rbx)
	kmovq %k7, 2104(%rbx)
	stmxcsr 2112(%rbx)
	fnstcw 2116(%rbx)
	ldmxcsr kiln_user_mxcsr(%rip)
	fldcw kiln_user_fcw(%rip)
	vzeroupper
	pop %rbx
	ret
.size kiln_user_call_512, . - kiln_user_call_512
.section .rodata
.balign 4
kiln_user_mxcsr: .long 0x1f80
kiln_user_fcw: .short 0x037f
.balign 32
# A critical section nobody enters: the kernel drops the pointer to it when it takes the
# CPU away (rseq(2)).
.section .data.rel.ro,"aw"
.globl kiln_witness_section
.hidden kiln_witness_section
.balign 32
kiln_witness_section:
.long 0, 0
.quad kiln_witness_code
.quad 1
.quad kiln_witness_abort
.text
kiln_witness_code:
ud2
.long 0x53053053
kiln_witness_abort:
ud2
