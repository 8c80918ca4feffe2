/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Macros that define a tier's functions with the types in kiln/cipher.h. Each defined function
 * calls @fn, an inline function that the tiers of a cipher share. It first passes the macro
 * arguments that follow @fn, which differ between tiers, and then its own arguments.
 */
#ifndef KILN_CIPHERS_ENTRY_H
#define KILN_CIPHERS_ENTRY_H

#include <kiln/cipher.h>
#include <kiln/string.h>
#include <kiln/types.h>

/* Defines an init function that sets the state to zeros. */
#define HASH_ZERO(name, type)                                                         \
static void name(const void *ctx __maybe_unused, void *state)                         \
{                                                                                     \
	memset(state, 0, sizeof(type));                                               \
}
#define HASH_UPDATE(name, fn, ...)                                                    \
static void name(const void *ctx, void *state, const u8 *data, size_t len)            \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, data, len);                                       \
}
#define HASH_FINAL(name, fn, ...)                                                     \
static void name(const void *ctx, void *state, u8 *out)                               \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, out);                                             \
}
#define HASH_DIGEST(name, fn, ...)                                                    \
static void name(const void *ctx, const u8 *data, size_t len, u8 *out)                \
{                                                                                     \
	fn(__VA_ARGS__, ctx, data, len, out);                                         \
}

#define HASH_FINISH_MANY(name, fn, ...)                                               \
static void name(const void *ctx, const void *state, const struct kiln_message *m,    \
		 size_t count)                                                        \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, m, count);                                        \
}

#define AEAD_SEAL(name, fn, ...)                                                      \
static void name(const void *ctx, u8 *dst, const u8 *src, size_t len, const u8 *aad,  \
		 size_t aadlen, const u8 *iv, u8 *tag, size_t tagsize)                \
{                                                                                     \
	fn(__VA_ARGS__, ctx, dst, src, len, aad, aadlen, iv, tag, tagsize);           \
}
#define AEAD_OPEN(name, fn, ...)                                                      \
static int name(const void *ctx, u8 *dst, const u8 *src, size_t len, const u8 *aad,   \
		size_t aadlen, const u8 *iv, const u8 *tag, size_t tagsize)           \
{                                                                                     \
	return fn(__VA_ARGS__, ctx, dst, src, len, aad, aadlen, iv, tag, tagsize);    \
}
#define AEAD_BEGIN(name, fn, ...)                                                     \
static void name(const void *ctx, void *state, const u8 *iv, size_t aadlen, size_t len, \
		 size_t tagsize)                                                      \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, iv, aadlen, len, tagsize);                        \
}
#define AEAD_AAD(name, fn, ...)                                                       \
static void name(const void *ctx, void *state, const u8 *aad, size_t len)             \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, aad, len);                                        \
}
#define AEAD_TEXT(name, fn, ...)                                                      \
static void name(const void *ctx, void *state, u8 *dst, const u8 *src, size_t len)    \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, dst, src, len);                                   \
}
#define AEAD_END(name, fn, ...)                                                       \
static void name(const void *ctx, void *state, u8 *tag, size_t tagsize)               \
{                                                                                     \
	fn(__VA_ARGS__, ctx, state, tag, tagsize);                                    \
}

#endif
