// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Code patching. Alternatives are patched once; static keys (jump labels) and static calls may be
 * patched at any time. The tree's text is mapped writable. The patched bytes are the same as in a
 * kernel.
 */
#include "service.h"

#define NOP2 "\x66\x90"
#define NOP5 "\x0f\x1f\x44\x00\x00"

/* Must match the tree's struct jump_entry, in the variant with relative addresses. */
struct jump_entry {
	int32_t code;
	int32_t target;
	int64_t key;	/* bit 0: jump if the key is off; bit 1: replace the jump by a no-op */
};

struct static_key {
	int enabled;
};

struct static_call_key {
	void *func;
};

extern struct jump_entry __start___jump_table[] __attribute__((weak));
extern struct jump_entry __stop___jump_table[] __attribute__((weak));

bool SERVICE(static_key_initialized) = true;

extern char __kiln_alternatives[], __kiln_alternatives_end[];

/* Some code of the tree must not run before alternatives are patched, and checks this variable. */
int SERVICE(alternatives_patched);

/* Patches the alternatives. The CPU's features must be known. */
void alternatives_init(void)
{
	uint32_t applied = 0, left = 0;

	kiln_glue_alternatives(__kiln_alternatives, __kiln_alternatives_end, &applied, &left);
	SERVICE(alternatives_patched) = 1;
	tell("{\"event\":\"alternatives\",\"applied\":%u,\"left\":%u}", applied, left);
}

static void write_jump(unsigned char *at, const unsigned char *to)
{
	const int32_t far = (int32_t)(to - (at + 5));

	at[0] = 0xe9;
	copy(at + 1, &far, 4);
}

static void set_branch(const struct jump_entry *e, bool jump)
{
	unsigned char *at = (unsigned char *)&e->code + e->code;
	const unsigned char *to = (const unsigned char *)&e->target + e->target;
	const bool is_short = at[0] == 0xeb || same_bytes(at, NOP2, 2);

	if (!is_short && at[0] != 0xe9 && !same_bytes(at, NOP5, 5))
		give_up("a jump label is neither a jump nor a no-op");
	if (!jump)
		copy(at, is_short ? NOP2 : NOP5, is_short ? 2 : 5);
	else if (is_short)
		at[0] = 0xeb, at[1] = (unsigned char)(to - (at + 2));
	else
		write_jump(at, to);
}

/*
 * Replaces jumps with no-ops where the branch must initially not be taken. A compiler cannot emit a
 * no-op with the length of a jump, so it emits a jump. In some configurations, objtool replaces the
 * jump only in the linked kernel, which does not exist here.
 */
void patch_init(void)
{
	const struct jump_entry *e;

	for (e = __start___jump_table; e < __stop___jump_table; e++)
		if (e->key & 2)
			set_branch(e, false);
}

static void set_key(struct static_key *key, int enabled)
{
	const bool changed = !key->enabled != !enabled;
	const struct jump_entry *e;

	key->enabled = enabled;
	if (!changed)
		return;
	for (e = __start___jump_table; e < __stop___jump_table; e++)
		if ((char *)&e->key + (e->key & ~3l) == (char *)key)
			set_branch(e, !!enabled != (e->key & 1));
}

void SERVICE(static_key_enable)(struct static_key *key)
{
	set_key(key, 1);
}

void SERVICE(static_key_disable)(struct static_key *key)
{
	set_key(key, 0);
}

bool SERVICE(static_key_slow_inc)(struct static_key *key)
{
	set_key(key, key->enabled + 1);
	return true;
}

void SERVICE(static_key_slow_dec)(struct static_key *key)
{
	set_key(key, key->enabled - 1);
}

int SERVICE(static_key_count)(struct static_key *key)
{
	return key->enabled;
}

/*
 * Patches only the trampoline. Callers jump through it, so a call takes one more jump than in a
 * kernel, which patches the calls themselves.
 */
void SERVICE(__static_call_update)(struct static_call_key *key, unsigned char *trampoline,
				   void *func)
{
	key->func = func;
	if (!trampoline)
		return;
	if (func)
		write_jump(trampoline, func);
	else
		copy(trampoline, "\xc3", 1);
}
