// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Saves and restores the registers with XSAVEC if available, else XSAVE, else FXSAVE. A kernel
 * uses XSAVES, which is privileged; XSAVEC writes the same bytes.
 */
#include <kiln/abi/cpu.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

/* Bits of XCR0 (Intel SDM volume 1, 13.3). PKRU and AMX are absent: sections do not use them. */
enum {
	XFEATURE_X87 = 1 << 0,
	XFEATURE_SSE = 1 << 1,
	XFEATURE_AVX = 1 << 2,
	XFEATURES_AVX512 = 7 << 5,
	XFEATURES = XFEATURE_X87 | XFEATURE_SSE | XFEATURE_AVX | XFEATURES_AVX512,
};

enum method { UNKNOWN, FXSAVE, XSAVE, XSAVEC };

static u32 method;
static u32 mask;
static u32 size;

static void cpuid(u32 leaf, u32 subleaf, u32 *a, u32 *b, u32 *c)
{
	u32 d;

	__asm__ volatile("cpuid"
			 : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(d)
			 : "a"(leaf), "c"(subleaf));
}

/* Threads may race here, but all of them find the same method. */
static void detect_method(void)
{
	u32 a, b, c, xcr0, high, bytes = 512 + 64, i;
	enum method m = FXSAVE;

	cpuid(1, 0, &a, &b, &c);
	if (c & 1u << 27) {
		__asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
		mask = xcr0 & XFEATURES;
		cpuid(0xd, 1, &a, &b, &c);
		m = a & 2 ? XSAVEC : XSAVE;
		for (i = 2; i < 8; i++) {
			if (!(mask & 1u << i))
				continue;
			cpuid(0xd, i, &a, &b, &c);
			/*
			 * EAX is the component's size, and EBX its offset for XSAVE. If bit 1 of
			 * ECX is set, the component is aligned to 64 bytes.
			 */
			if (m == XSAVE)
				bytes = bytes > a + b ? bytes : a + b;
			else
				bytes = (c & 2 ? (bytes + 63) & ~63u : bytes) + a;
		}
	}
	size = bytes;
	if (size > FPSTATE_SIZE)
		__builtin_trap();
	__atomic_store_n(&method, m, __ATOMIC_RELEASE);
}

u32 kiln_fpstate_size(void)
{
	if (!__atomic_load_n(&method, __ATOMIC_ACQUIRE))
		detect_method();
	return size;
}

void kiln_fpstate_forget(u32 features)
{
	kiln_fpstate_size();
	mask &= ~features;
}

void fpstate_save(struct fpstate *state)
{
	const u32 m = __atomic_load_n(&method, __ATOMIC_RELAXED);

	if (likely(m == XSAVEC))
		__asm__ volatile("xsavec64 %0" : "+m"(*state) : "a"(mask), "d"(0));
	else if (m == XSAVE)
		__asm__ volatile("xsave64 %0" : "+m"(*state) : "a"(mask), "d"(0));
	else
		__asm__ volatile("fxsave64 %0" : "+m"(*state));
}

void fpstate_restore(const struct fpstate *state)
{
	if (likely(__atomic_load_n(&method, __ATOMIC_RELAXED) != FXSAVE))
		__asm__ volatile("xrstor64 %0" : : "m"(*state), "a"(mask), "d"(0));
	else
		__asm__ volatile("fxrstor64 %0" : : "m"(*state));
}

void fpstate_reset_mxcsr(void)
{
	fpu_default_mxcsr();
}

/* Initialises a state that can be restored, with every component in its reset state. */
void fpstate_init(struct fpstate *state)
{
	enum { FCW = 0, MXCSR = 24, XCOMP_BV = 520 };
	u64 compact;

	kiln_fpstate_size();
	memset(state, 0, sizeof(*state));
	state->bytes[FCW] = 0x7f;
	state->bytes[FCW + 1] = 0x03;
	state->bytes[MXCSR] = 0x80;
	state->bytes[MXCSR + 1] = 0x1f;
	if (method == XSAVEC) {
		compact = 1ull << 63 | mask;
		memcpy(state->bytes + XCOMP_BV, &compact, sizeof(compact));
	}
}
