// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls functions in a kernel tree's own objects from a bare C program. docs/bare.sh compares the
 * results with those that kiln measures for direct calls. This program shares no code with kiln: it
 * has its own loop and its own clock (the TSC, calibrated with a chain of dependent
 * multiplications).
 *
 * Prints one line per function and length: symbol, bytes, cycles per call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

void aesni_set_key(void *ctx, const u8 *key, u32 len);
void aesni_ecb_enc(void *ctx, u8 *dst, const u8 *src, u32 len);
void aesni_cbc_dec(void *ctx, u8 *dst, const u8 *src, u32 len, u8 *iv);
void aes_ctr_enc_256_avx_by8(const u8 *src, u8 *iv, void *ctx, u8 *dst, u32 len);
void aes_xts_encrypt_iv(const void *ctx, u8 *iv);
void aes_xts_encrypt_aesni_avx(const void *ctx, const u8 *src, u8 *dst, u32 len, u8 *iv);
void aes_xts_encrypt_vaes_avx10_512(const void *ctx, const u8 *src, u8 *dst, u32 len, u8 *iv);
void sha256_ni_transform(u32 *state, const u8 *data, int blocks);
void sha512_transform_rorx(u64 *state, const u8 *data, int blocks);
void chacha_8block_xor_avx2(u32 *state, u8 *dst, const u8 *src, u32 len, int rounds);
void serpent_ecb_enc_16way(const void *ctx, u8 *dst, const u8 *src);
u32 crc_pcl(const u8 *data, int len, u32 crc);

#define MESSAGES 256
#define BYTES (256 << 10)

static u8 ctx[8192] __attribute__((aligned(64)));
static u8 tweak_ctx[8192] __attribute__((aligned(64)));
static u8 ivs[MESSAGES][16] __attribute__((aligned(64)));
static u8 copies[MESSAGES][16] __attribute__((aligned(64)));
static u8 *src, *dst;

static void one(int which, const u8 *s, u8 *d, u8 *iv, u32 len)
{
	u32 at;

	switch (which) {
	case 0:
		aesni_ecb_enc(ctx, d, s, len);
		break;
	case 1:
		aesni_cbc_dec(ctx, d, s, len, iv);
		break;
	case 2:
		aes_ctr_enc_256_avx_by8(s, iv, ctx, d, len);
		break;
	case 3:
		aes_xts_encrypt_iv(tweak_ctx, iv);
		aes_xts_encrypt_aesni_avx(ctx, s, d, len, iv);
		break;
	case 4:
		aes_xts_encrypt_iv(tweak_ctx, iv);
		aes_xts_encrypt_vaes_avx10_512(ctx, s, d, len, iv);
		break;
	case 5: {
		u32 state[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

		sha256_ni_transform(state, s, (int)(len / 64));
		memcpy(d, state, sizeof(state));
		break;
	}
	case 6: {
		u64 state[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

		sha512_transform_rorx(state, s, (int)(len / 128));
		memcpy(d, state, sizeof(state));
		break;
	}
	case 7: {
		u32 state[16] __attribute__((aligned(64))) = { 0 };

		memcpy(state + 4, ctx, 32);
		memcpy(state + 12, iv, 16);
		for (at = 0; at < len; at += 512) {
			chacha_8block_xor_avx2(state, d + at, s + at, 512, 20);
			state[12] += 8;
		}
		break;
	}
	case 8:
		for (at = 0; at < len; at += 256)
			serpent_ecb_enc_16way(ctx, d + at, s + at);
		break;
	case 9:
		at = ~crc_pcl(s, (int)len, ~0u);
		memcpy(d, &at, 4);
		break;
	}
}

static const char *const names[] = {
	"aesni_ecb_enc", "aesni_cbc_dec", "aes_ctr_enc_256_avx_by8",
	"aes_xts_encrypt_aesni_avx", "aes_xts_encrypt_vaes_avx10_512",
	"sha256_ni_transform", "sha512_transform_rorx", "chacha_8block_xor_avx2",
	"serpent_ecb_enc_16way", "crc_pcl",
};

static u64 chain(void)
{
	u64 x = 3, y = 0x9e3779b97f4a7c15, start, best = ~0ull;
	int i, k;

	for (k = 0; k < 3; k++) {
		_mm_lfence();
		start = __rdtsc();
		_mm_lfence();
		for (i = 0; i < 1200; i++)
			__asm__ volatile("imul %1, %0\n\timul %1, %0\n\timul %1, %0\n\t"
					 "imul %1, %0\n\timul %1, %0\n\timul %1, %0\n\t"
					 "imul %1, %0\n\timul %1, %0\n\timul %1, %0\n\t"
					 "imul %1, %0"
					 : "+r"(x) : "r"(y));
		_mm_lfence();
		start = __rdtsc() - start;
		if (start < best)
			best = start;
	}
	return best;
}

/* Inlined separately for each function, so that the calls are direct, as in ordinary C code. */
static inline __attribute__((always_inline)) void series(int which, u32 len, u32 stride,
							  u32 count, u32 calls)
{
	u32 i = 0;

	while (calls--) {
		if (!i)
			memcpy(copies, ivs, sizeof(ivs[0]) * count);
		one(which, src + (u64)i * stride, dst + (u64)i * stride, copies[i], len);
		if (++i == count)
			i = 0;
	}
}

static void run(int which, u32 len, u32 stride, u32 count, u32 calls)
{
	switch (which) {
#define CASE(n) case n: series(n, len, stride, count, calls); break
	CASE(0); CASE(1); CASE(2); CASE(3); CASE(4);
	CASE(5); CASE(6); CASE(7); CASE(8); CASE(9);
	}
}

static double measure(int which, u32 len)
{
	const u32 stride = (((len + 63) / 64) | 1) * 64;
	u32 count = BYTES / len > MESSAGES ? MESSAGES : BYTES / len, calls = 1;
	double best = 1e30;
	int k;

	if (count < 8)
		count = 8;
	for (;;) {
		const u64 start = __rdtsc();

		run(which, len, stride, count, calls);
		if (__rdtsc() - start > 300000)
			break;
		calls *= 2;
	}
	for (k = 0; k < 2000; k++) {
		u64 before, ticks, after;
		double cycles;

		run(which, len, stride, count, calls / 16 + 1);
		before = chain();
		_mm_lfence();
		ticks = __rdtsc();
		_mm_lfence();
		run(which, len, stride, count, calls);
		_mm_lfence();
		ticks = __rdtsc() - ticks;
		after = chain();
		if (before > after * 1.01 || after > before * 1.01)
			continue;
		if (after < before)
			before = after;
		cycles = (double)ticks * 36000 / (double)before / calls;
		if (cycles < best)
			best = cycles;
	}
	return best;
}

int main(int argc, char **argv)
{
	const u64 room = 2 * BYTES + (1 << 20);
	u8 *memory = aligned_alloc(4096, 2 * room + 4096);
	u8 key[64];
	int n;
	u64 i;

	src = memory;
	dst = memory + room + 2048;
	for (i = 0; i < 2 * room; i++)
		memory[i] = (u8)(rand() >> 7);
	for (i = 0; i < sizeof(ivs); i++)
		((u8 *)ivs)[i] = (u8)(rand() >> 7);
	for (i = 0; i < 64; i++)
		key[i] = (u8)(rand() >> 7);
	for (n = 1; n < argc; n++) {
		const u32 len = (u32)atoi(argv[n]);
		int which;

		for (which = 0; which < 10; which++) {
			/*
			 * Any words are valid as Serpent's expanded key; AES needs a key schedule.
			 */
			for (i = 0; i < sizeof(ctx); i++)
				ctx[i] = (u8)(rand() >> 7);
			if (which < 5) {
				aesni_set_key(ctx, key, 32);
				aesni_set_key(tweak_ctx, key + 32, 32);
			}
			printf("%s %u %.2f\n", names[which], len, measure(which, len));
			fflush(stdout);
		}
	}
	return 0;
}
