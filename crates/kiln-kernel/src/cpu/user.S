# A user program that enters the kernel with a pattern in every register it has, and
# writes down what it finds there on return: kiln_user_call_N(want, found, fn, arg),
# with N the width of its vectors. The layout is struct pattern of kernel/load/patterns.h.
	.set MASKS, 2048
	.set MXCSR, 2112
	.set FCW, 2116

	.text
	.macro user_call width:req, vector:req, move:req
	.globl kiln_user_call_\width
	.hidden kiln_user_call_\width
	.type kiln_user_call_\width, @function
kiln_user_call_\width:
	push %rbx
	mov %rsi, %rbx
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\move 64*\n(%rdi), %\vector\()\n
	.endr
	.if \width == 512
	.irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\move 64*\n(%rdi), %\vector\()\n
	.endr
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq MASKS+8*\n(%rdi), %k\n
	.endr
	.endif
	ldmxcsr MXCSR(%rdi)
	fldcw FCW(%rdi)

	mov %rdx, %rdi
	mov %rcx, %rsi
	call kiln_gate

	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\move %\vector\()\n, 64*\n(%rbx)
	.endr
	.if \width == 512
	.irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	\move %\vector\()\n, 64*\n(%rbx)
	.endr
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7
	kmovq %k\n, MASKS+8*\n(%rbx)
	.endr
	.endif
	stmxcsr MXCSR(%rbx)
	fnstcw FCW(%rbx)
	# As the ABI has them between functions.
	ldmxcsr kiln_user_mxcsr(%rip)
	fldcw kiln_user_fcw(%rip)
	.if \width > 128
	vzeroupper
	.endif
	pop %rbx
	ret
	.size kiln_user_call_\width, . - kiln_user_call_\width
	.endm

	user_call 128, xmm, movdqu
	user_call 256, ymm, vmovdqu
	user_call 512, zmm, vmovdqu64

# A critical section nobody enters: the host's kernel drops the pointer to it when it
# takes the CPU away (rseq(2)). Before the abort address, the signature glibc registers.
kiln_witness_code:
	ud2
	.long 0x53053053
kiln_witness_abort:
	ud2

	.section .rodata
	.balign 4
kiln_user_mxcsr:
	.long 0x1f80
kiln_user_fcw:
	.short 0x037f

	.section .data.rel.ro, "aw"
	.globl kiln_witness_section
	.hidden kiln_witness_section
	.balign 32
kiln_witness_section:
	.long 0, 0
	.quad kiln_witness_code
	.quad 1
	.quad kiln_witness_abort
	.text
