// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls the functions that the tree's library exports. The functions check whether vector registers
 * are usable, and open their own FPU sections. If a section is already open, they use their generic
 * code.
 */
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <asm/fpu/api.h>

#include "kiln/function.h"

/* The tables are weak symbols, because a table that does not compile with this tree is left out. */
WEAK(kiln_hashes);
WEAK(kiln_hash_count);
WEAK(kiln_ciphers);
WEAK(kiln_cipher_count);
WEAK(kiln_checksums);
WEAK(kiln_checksum_count);

/* A library function whose key has been prepared. */
struct kiln_library {
	const struct kiln_function *function;
	u8 key[] __aligned(64);
};

u64 kiln_glue_library_list(struct kiln_library_list *list);
u64 kiln_glue_library_open(struct kiln_library_open *open);
u64 kiln_glue_library_close(struct kiln_library *library);
u64 kiln_glue_library_run(struct kiln_library_run *run);
u64 kiln_glue_library_call(const struct kiln_library_call *call);
int kiln_library_call(const struct kiln_library *library, u8 *iv, const u8 *src, u8 *dst,
		      size_t len, size_t prefix);
void kiln_library_call_pair(const struct kiln_library *library, const u8 *src1, const u8 *src2,
			    u8 *dst1, u8 *dst2, size_t len);

static void kiln_add(struct kiln_library_list *list, const struct kiln_function *functions,
		     const size_t *count)
{
	const struct kiln_function *f;

	if (!functions)
		return;
	for (f = functions; f < functions + *count; f++) {
		struct kiln_library_listed *to = list->listed + list->count;

		if (!f->symbol || list->count++ >= list->room)
			continue;
		*to = (struct kiln_library_listed){
			.name = f->name,
			.alg = f->alg,
			.op = f->op,
			.judge = f->judge,
			.function = f,
			.kind = f->kind,
			.own_key = f->own_key,
			.iv = f->iv,
			.prefix = f->prefix,
			.tag = f->tag,
			.digest = f->digest,
			.least = f->least,
			.most = f->most,
			.multiple = f->multiple,
			.flags = f->flags,
		};
		memcpy(to->keys, f->keys, sizeof(to->keys));
	}
}

/* Lists the library functions that exist in this tree. */
u64 kiln_glue_library_list(struct kiln_library_list *list)
{
	list->count = 0;
	kiln_add(list, kiln_hashes, &kiln_hash_count);
	kiln_add(list, kiln_ciphers, &kiln_cipher_count);
	kiln_add(list, kiln_checksums, &kiln_checksum_count);
	return 0;
}

/* Prepares a function's key. Returns 0 or an errno. */
u64 kiln_glue_library_open(struct kiln_library_open *open)
{
	const struct kiln_function *f = open->function;
	struct kiln_library *library;
	int error = 0;

	library = kzalloc(sizeof(*library) + max_t(size_t, f->prepared, open->len), GFP_KERNEL);
	if (!library)
		return ENOMEM;
	library->function = f;
	if (f->prepare)
		error = f->prepare(library->key, open->key, open->len);
	else if (open->len)
		memcpy(library->key, open->key, open->len);
	if (error) {
		kfree_sensitive(library);
		return -error;
	}
	open->library = library;
	return 0;
}

u64 kiln_glue_library_close(struct kiln_library *library)
{
	kfree_sensitive(library);
	return 0;
}

/*
 * Calls the function once. Any context is allowed unless the function has the flag
 * KILN_LIBRARY_TASK. The function may modify the IV.
 */
int kiln_library_call(const struct kiln_library *library, u8 *iv, const u8 *src, u8 *dst,
		      size_t len, size_t prefix)
{
	return library->function->call(library->key, iv, src, dst, len, prefix);
}

/* Like kiln_library_call(), but for a function that takes two messages. */
void kiln_library_call_pair(const struct kiln_library *library, const u8 *src1, const u8 *src2,
			    u8 *dst1, u8 *dst2, size_t len)
{
	library->function->pair(src1, src2, dst1, dst2, len);
}

/* Calls the function once, with the given arguments. Returns 0 or an errno. */
u64 kiln_glue_library_call(const struct kiln_library_call *c)
{
	return -kiln_library_call(c->library, c->iv, c->src, c->dst, c->len, c->prefix);
}

/*
 * Computes one message's checksum repeatedly, with little more overhead per call than KUnit's loop,
 * because a CRC of 4 KiB may take only 160 cycles.
 */
static int kiln_run_checksum(const struct kiln_function *f, const struct kiln_messages *m)
{
	kiln_checksum *const checksum = f->checksum;
	const u8 *const src = m->src;
	const size_t len = m->len;
	__le64 sum = 0;
	u64 n;

	for (n = m->calls; n; n--)
		sum = cpu_to_le64(checksum(src, len));
	if (m->calls)
		memcpy(m->dst, &sum, f->digest);
	return 0;
}

static int kiln_run(const struct kiln_library *library, const struct kiln_messages *m)
{
	kiln_wrapper *const call = library->function->call;
	int error = 0;
	u64 n, i = 0;

	for (n = 0; n < m->calls && !error; n++) {
		if (!i && m->iv_stride)
			memcpy(m->iv_room, m->iv, m->count * m->iv_stride);
		error = call(library->key, m->iv_room + i * m->iv_stride, m->src + i * m->src_stride,
			     m->dst + i * m->dst_stride, m->len, m->prefix);
		if (++i == m->count)
			i = 0;
	}
	return error;
}

/* Processes the messages in pairs. If their number is odd, the last message is processed alone. */
static int kiln_run_pairs(const struct kiln_library *library, const struct kiln_messages *m)
{
	kiln_pair_wrapper *const call = library->function->pair;
	u64 n, i = 0;

	for (n = 0; n + 1 < m->calls; n += 2) {
		const u64 next = i + 1 < m->count ? i + 1 : 0;

		call(m->src + i * m->src_stride, m->src + next * m->src_stride,
		     m->dst + i * m->dst_stride, m->dst + next * m->dst_stride, m->len);
		i = next + 1 < m->count ? next + 1 : 0;
	}
	if (n == m->calls)
		return 0;
	return kiln_library_call(library, NULL, m->src + i * m->src_stride,
				 m->dst + i * m->dst_stride, m->len, m->prefix);
}

/*
 * Calls the function on each message. If an FPU section is open, the function uses its generic
 * code. Returns 0 or an errno.
 */
u64 kiln_glue_library_run(struct kiln_library_run *run)
{
	const struct kiln_function *const f = run->library->function;
	u64 start = 0;
	int error;

	if (run->generic)
		kernel_fpu_begin();
	if (run->timed) {
		preempt_disable();
		start = ktime_get_ns();
	}
	if (f->pair)
		error = kiln_run_pairs(run->library, &run->m);
	else if (f->checksum && run->m.count == 1)
		error = kiln_run_checksum(f, &run->m);
	else
		error = kiln_run(run->library, &run->m);
	if (run->timed) {
		run->ns = ktime_get_ns() - start;
		preempt_enable();
	}
	if (run->generic)
		kernel_fpu_end();
	return -error;
}
