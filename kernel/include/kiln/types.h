/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Basic definitions for the freestanding code: fixed-width types, errno values, and attributes. */
#ifndef KILN_TYPES_H
#define KILN_TYPES_H

/*
 * Kiln targets x86-64 only. KILN_CIPHER_ALONE, which is defined to build the portable ciphers when
 * comparing compilers, also allows 32-bit targets.
 */
#if (!defined(__x86_64__) || defined(__ILP32__)) && !defined(KILN_CIPHER_ALONE)
#error "Kiln's kernel/ is x86-64 only (LP64): build it on, or for, an x86-64 host"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int32_t s32;
typedef int64_t s64;

/* Makes a function visible to the host; everything else is hidden. */
#define KILN_EXPORT __attribute__((visibility("default")))

#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __maybe_unused __attribute__((unused))
#define __aligned(n) __attribute__((aligned(n)))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* A compiler barrier: the compiler does not move memory accesses across it. */
#define barrier() __asm__ volatile("" : : : "memory")

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The kernel's errno values. Functions return them negated. */
enum {
	ENOENT = 2,
	ENOMEM = 12,
	EBUSY = 16,
	EEXIST = 17,
	EINVAL = 22,
	ENOSPC = 28,
	EDEADLK = 35,
	ENAMETOOLONG = 36,
	ENOSYS = 38,
	EBADMSG = 74,
	EINPROGRESS = 115,
	ENOKEY = 126,
};

#endif
