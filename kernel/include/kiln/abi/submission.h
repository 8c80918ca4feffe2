/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A request to a crypto API, either Kiln's own or a hosted tree's. This header uses plain C types
 * only, like messages.h.
 */
#ifndef KILN_ABI_SUBMISSION_H
#define KILN_ABI_SUBMISSION_H

struct kiln_submission {
	unsigned char *dst, *src, *iv;	/* dst and src are contiguous in memory */
	unsigned int len;	/* total bytes; AEAD encryption: includes the room for the tag */
	unsigned int flags;	/* CRYPTO_TFM_REQ_MAY_SLEEP, CRYPTO_TFM_REQ_MAY_BACKLOG */
	_Bool decrypt;
	void (*complete)(void *data, int err);
	void *data;
};

struct kiln_request_ops {
	void *(*request_alloc)(void *tfm);	/* returns NULL if out of memory */
	void (*request_free)(void *request);
	int (*submit)(void *request, const struct kiln_submission *submission);
	void (*tfm_free)(void *tfm);
};

#endif
