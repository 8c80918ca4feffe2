// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs an implementation from kernel/ciphers: finds the implementation in the table of its
 * directory (kiln/cipher.h), and encrypts with a SUBJECT_KEY-byte key and 16 bytes of associated
 * data. Like that header, this file is freestanding.
 */
#include <kiln/cipher.h>

struct subject;

extern const struct kiln_impls SUBJECT_IMPLS;

static u8 cell_context[KILN_MAX_CTX] __aligned(64);
static const struct kiln_impl *impl;

/* The associated data of every message; RFC 4106 requires 16 or 20 bytes. */
static const u8 aad[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

static bool same(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

static int cell_setkey(const u8 *key, size_t len)
{
	return impl->setkey(cell_context, key, len);
}

static void cell_run(u8 *dst, const u8 *src, size_t len, const u8 *iv, u8 *tag)
{
	u8 work[KILN_MAX_IV] __aligned(16);
	u32 i;

	/* The implementation modifies the IV, so pass it a copy. */
	for (i = 0; i < impl->ivsize; i++)
		work[i] = iv[i];
	switch (impl->kind) {
	case KILN_SKCIPHER:
		impl->cipher.encrypt(cell_context, dst, src, len, work);
		break;
	case KILN_AEAD:
		/* A CCM IV begins with the length field's size in bytes, minus 1 (RFC 3610). */
		if (same(impl->alg, "ccm(aes)"))
			work[0] = 3;
		impl->aead.seal(cell_context, dst, src, len, aad, sizeof(aad), work, tag,
				impl->digestsize);
		break;
	default:
		impl->hash.digest(cell_context, src, len, tag);
	}
}

/* Must have the same layout as struct subject in harness.h. */
struct kiln_subject {
	size_t key, iv, tag;
	int writes;
	int (*setkey)(const u8 *key, size_t len);
	void (*run)(u8 *dst, const u8 *src, size_t len, const u8 *iv, u8 *tag);
};

const struct kiln_subject *cell_subject(void);

const struct kiln_subject *cell_subject(void)
{
	static struct kiln_subject s = { .run = cell_run };
	size_t i;

	for (i = 0; !impl && i < SUBJECT_IMPLS.count; i++) {
		if (same(SUBJECT_IMPLS.impl[i].driver, SUBJECT_DRIVER))
			impl = &SUBJECT_IMPLS.impl[i];
	}
	if (!impl)
		__builtin_trap();
	s.key = SUBJECT_KEY;
	s.iv = impl->ivsize;
	s.tag = impl->kind == KILN_SKCIPHER ? 0 : impl->digestsize;
	s.writes = impl->kind != KILN_HASH;
	s.setkey = SUBJECT_KEY ? cell_setkey : NULL;
	return &s;
}
