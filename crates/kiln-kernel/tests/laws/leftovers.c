/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Searches the stack and the registers for secrets that implementations leave there.
 *
 *	leftovers [--call] [PART]	test every implementation with PART in its driver name
 *	leftovers [--call] --control NAME	test a planted implementation that leaves secrets
 *	leftovers --empty		test that empty texts may have a NULL address
 *
 * Before each call to a function, the stack below the call is painted. When kiln_gate() returns, or
 * with --call when the function itself returns, the changed part of the stack is copied. Registers
 * are always read when kiln_gate() returns. setkey is called without the gate, and its leftovers
 * are read when it returns. Stack and registers are then searched for 8-byte pieces of keys, round
 * keys, hash powers, keyed states, texts and key streams. Public values (the IV, associated data,
 * ciphertext, tag) are not secret, nor are values that do not depend on the key.
 *
 * Prints one line for each function and kind of secret found. The exit status is 0 if no secret was
 * found, 1 if one was found, and 2 if the search was not possible.
 */
#include "../programs/program.h"

#include <kiln/abi/cipher.h>
#include <string.h>

#include "../../../../kernel/ciphers/aes/aes.h"
#include "../../../../kernel/ciphers/chacha/chacha.h"
#include "../../../../kernel/ciphers/gcm/gcm.h"

#define AREA 16384
#define XSAVE_AREA 4096
#define PAINT 0xb5b5b5b5b5b5b5b5ull
#define MAX_TEXT 10000

static u8 stack_copy[AREA] __aligned(64);
static u8 init_state[XSAVE_AREA] __aligned(64), vectors[XSAVE_AREA] __aligned(64);
u64 observed_general[15], gate_general[15];

/*
 * u64 observe(fn, arg[9], copy): paints AREA bytes of stack below the call, and calls fn(arg[0] ...
 * arg[8]). Then saves the general-purpose registers to observed_general, and copies the painted
 * area to @copy.
 *
 * u64 gate_and_look(fn, arg, init, vectors): calls kiln_gate(fn, arg) with cleared registers. Then
 * saves the vector registers to @vectors, and the general-purpose registers to gate_general.
 */
u64 observe(const void *fn, const u64 *arg, u8 *copy);
u64 gate_and_look(u64 (*fn)(void *), void *arg, const u8 *init, u8 *out);

#define SAVE_GENERAL(to)                                                              \
	"	mov %rax, " to "(%rip)\n	mov %rcx, 8+" to "(%rip)\n"                   \
	"	mov %rdx, 16+" to "(%rip)\n	mov %rsi, 24+" to "(%rip)\n"                  \
	"	mov %rdi, 32+" to "(%rip)\n	mov %r8, 40+" to "(%rip)\n"                   \
	"	mov %r9, 48+" to "(%rip)\n	mov %r10, 56+" to "(%rip)\n"                  \
	"	mov %r11, 64+" to "(%rip)\n	mov %rbx, 72+" to "(%rip)\n"                  \
	"	mov %rbp, 80+" to "(%rip)\n	mov %r12, 88+" to "(%rip)\n"                  \
	"	mov %r13, 96+" to "(%rip)\n	mov %r14, 104+" to "(%rip)\n"                 \
	"	mov %r15, 112+" to "(%rip)\n"

__asm__(
	".text\n"
	".globl observe\n"
	"observe:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rdi, %r12\n"
	"	mov %rsi, %rbx\n"
	"	mov %rdx, %r13\n"
	"	and $-64, %rsp\n"
	"	sub $64, %rsp\n"
	"	mov 48(%rbx), %rax\n	mov %rax, (%rsp)\n"
	"	mov 56(%rbx), %rax\n	mov %rax, 8(%rsp)\n"
	"	mov 64(%rbx), %rax\n	mov %rax, 16(%rsp)\n"
	"	lea -16384(%rsp), %rdi\n"
	"	mov $2048, %ecx\n"
	"	movabs $0xb5b5b5b5b5b5b5b5, %rax\n"
	"	cld\n"
	"	rep stosq\n"
	"	mov (%rbx), %rdi\n	mov 8(%rbx), %rsi\n	mov 16(%rbx), %rdx\n"
	"	mov 24(%rbx), %rcx\n	mov 32(%rbx), %r8\n	mov 40(%rbx), %r9\n"
	"	call *%r12\n"
	SAVE_GENERAL("observed_general")
	"	lea -16384(%rsp), %rsi\n"
	"	mov %r13, %rdi\n"
	"	mov $2048, %ecx\n"
	"	rep movsq\n"
	"	mov 8+observed_general(%rip), %rcx\n"
	"	mov 24+observed_general(%rip), %rsi\n"
	"	mov 32+observed_general(%rip), %rdi\n"
	"	lea -40(%rbp), %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".globl gate_and_look\n"
	"gate_and_look:\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %rbp\n"
	"	mov %rcx, %r12\n"
	"	mov $0xe7, %eax\n"
	"	mov %rdx, %rbx\n"
	"	xor %edx, %edx\n"
	"	xrstor64 (%rbx)\n"
	"	call kiln_gate\n"
	SAVE_GENERAL("gate_general")
	"	mov %rax, %rbx\n"
	"	mov $0xe7, %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 (%r12)\n"
	"	mov %rbx, %rax\n"
	"	pop %rbp\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	ret\n");

/* A secret: an 8-byte value to search for, and its origin. */
struct secret {
	u64 value;
	const char *name;
	u32 at;
	u32 round;	/* the value of round_now when the entry was added */
};

#define SLOTS (1u << 17)
static struct secret secrets[SLOTS], publics[SLOTS];
static u32 round_now;

static struct secret *find(struct secret *set, u64 value)
{
	u32 i = (value * 0x9e3779b97f4a7c15ull) >> 47;

	while (set[i].round == round_now && set[i].value != value)
		i = (i + 1) % SLOTS;
	return &set[i];
}

/* Returns whether a value is too common to search for, such as a length, a flag or the paint. */
static bool plain(u64 v)
{
	int i, bytes = 0;

	for (i = 0; i < 64; i += 8)
		bytes += (v >> i & 0xff) != 0 && (v >> i & 0xff) != 0xff;
	return bytes < 3 || v == PAINT;
}

static void add(struct secret *set, u64 value, const char *name, u32 at)
{
	struct secret *s = find(set, value);

	if (plain(value) || s->round == round_now)
		return;
	*s = (struct secret){ value, name, at, round_now };
}

static u64 load(const u8 *p)
{
	u64 v;

	memcpy(&v, p, 8);
	return v;
}

/*
 * Adds the 8 bytes at @p to @set in four forms: as a little-endian and as a big-endian number, each
 * with and without its 32-bit halves swapped.
 */
static void add_forms(struct secret *set, const u8 *p, const char *name, u32 at)
{
	const u64 v = load(p), b = __builtin_bswap64(v);

	add(set, v, name, at);
	add(set, v << 32 | v >> 32, name, at);
	add(set, b, name, at);
	add(set, b << 32 | b >> 32, name, at);
}

/* Adds the 8-byte pieces of a text to @set, in two forms only, because texts may be long. */
static void add_text(struct secret *set, const u8 *p, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i + 8 <= n; i++) {
		add(set, load(p + i), name, i);
		add(set, __builtin_bswap64(load(p + i)), name, i);
	}
}

static void add_all(struct secret *set, const u8 *p, size_t n, size_t step, const char *name)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += step)
		add_forms(set, p + i, name, i);
}

/* Adds the pieces of @p that differ from @other to the secrets, because they depend on the key. */
static void add_differing(const u8 *p, const u8 *other, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += 4)
		if (load(p + i) != load(other + i))
			add_forms(secrets, p + i, name, i);
}

static u64 seed = 1;
static u64 rnd(void)
{
	u64 z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void fill(u8 *p, size_t n)
{
	for (; n; n--)
		*p++ = rnd();
}

/* The current case: an implementation, and the sizes of its key and text in bytes. */
static const struct kiln_impl *impl;
static u32 key_len, text_len;

/* A secret that was found. One line is printed for each pair of function and secret name. */
struct finding {
	const char *driver, *function, *where, *name;
	u32 at, text_len, key_len;
	long below;
};
static struct finding findings[4096];
static u32 nr_findings;

#define ARG(p) ((u64)(unsigned long)(p))

struct call {
	const char *function;
	const void *fn;		/* NULL if the implementation lacks the function */
	u64 arg[9];
	bool answers;		/* whether @fn returns a result (0: success) */
	const u8 *right;	/* expected content of @out */
};

#define CALL(name, f, ...) .function = (name), .fn = (f), .arg = { __VA_ARGS__ }

/*
 * Whether to copy the stack when the function itself returns, instead of when kiln_gate() returns.
 */
static bool after_call;

u64 call_nine(const void *fn, const u64 *arg);

static u64 make(void *arg)
{
	const bool section = impl->tier != KILN_TIER_GENERIC;
	const struct call *c = arg;
	u64 result;

	if (section)
		kernel_fpu_begin();
	result = after_call ? observe(c->fn, c->arg, stack_copy) : call_nine(c->fn, c->arg);
	if (section)
		kernel_fpu_end();
	/* Ignore the result register if the function returns nothing. */
	return c->answers ? result : 0;
}

static void note(const struct call *c, const char *where, const struct secret *s, long below)
{
	struct finding *f;

	for (f = findings; f < findings + nr_findings; f++)
		if (f->driver == impl->driver && streq(f->function, c->function) &&
		    f->where == where && f->name == s->name)
			return;
	if (nr_findings < ARRAY_SIZE(findings))
		findings[nr_findings++] = (struct finding){
			impl->driver, c->function, where, s->name, s->at, text_len, key_len, below
		};
}

static void search(const struct call *c, const u8 *p, size_t n, const char *where, long top)
{
	size_t i;

	for (i = 0; i + 8 <= n; i += 4) {
		const u64 v = load(p + i);
		const struct secret *s = find(secrets, v);

		if (s->round == round_now && find(publics, v)->round != round_now)
			note(c, where, s, top ? top - (long)i : 0);
	}
}

static void search_all(const struct call *c, const u64 *general)
{
	size_t low = 0;

	while (low < AREA && load(stack_copy + low) == PAINT)
		low += 8;
	if (low < AREA / 8) {
		fprintf(stderr, "%s %s: the painted stack is too short\n", impl->driver,
			c->function);
		exit(2);
	}
	search(c, stack_copy + low, AREA - low, "the stack", AREA - low);
	search(c, (const u8 *)general, sizeof(observed_general), "general registers", 0);
	search(c, vectors, sizeof(vectors), "vector registers", 0);
}

/* Makes the call through the gate, and saves the stack and the registers. */
static u64 make_observed(const struct call *c)
{
	const u64 arg[9] = { ARG(make), ARG(c), ARG(init_state), ARG(vectors) };

	if (after_call)
		return gate_and_look(make, (void *)c, init_state, vectors);
	return observe((void *)gate_and_look, arg, stack_copy);
}

/* Buffers that all cases share. */
static u8 ctx[KILN_MAX_CTX] __aligned(64), other_ctx[KILN_MAX_CTX] __aligned(64);
static u8 key[4096], other_key[4096], iv[KILN_MAX_IV], aad[1024];
static u8 plain_text[MAX_TEXT + 64], cipher_text[MAX_TEXT + 64], out[MAX_TEXT + 64];
static u8 stream[MAX_TEXT], tag[64];
static u8 state[KILN_MAX_STATE] __aligned(64), other_state[KILN_MAX_STATE] __aligned(64);

/* Makes each call, and then searches stack and registers for the known secrets. */
static void try_calls(const struct call *c, size_t n)
{
	int result;

	for (; n; n--, c++) {
		if (!c->fn)
			continue;
		result = make_observed(c);
		if (c->right && (result || memcmp(out, c->right, text_len))) {
			fprintf(stderr, "%s: a wrong answer\n", impl->driver);
			exit(2);
		}
		search_all(c, gate_general);
	}
}

#define TRY_CALLS(calls) try_calls(calls, ARRAY_SIZE(calls))

static const char *round_name(u32 r, bool dec)
{
	static char names[2][AES_MAX_ROUND_KEYS][40];
	char *name = names[dec][r];

	if (!*name)
		sprintf(name, "round key %u of %scryption", r, dec ? "de" : "en");
	return name;
}

static void add_round_keys(const u8 *raw, size_t len)
{
	struct aes_key k;
	u32 r;

	aes_expandkey(&k, raw, len);
	for (r = 0; r <= k.rounds; r++) {
		add_all(secrets, k.enc[r], AES_BLOCK_SIZE, 4, round_name(r, false));
		add_all(secrets, k.dec[r], AES_BLOCK_SIZE, 4, round_name(r, true));
	}
}

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/*
 * Returns the size in bytes of the AES key inside the cipher's key. For XTS, which has two AES
 * keys, returns the size of each.
 */
static u32 aes_key_size(void)
{
	if (has(impl->alg, "rfc4106"))
		return key_len - 4;
	return has(impl->alg, "xts") ? key_len / 2 : key_len;
}

/* Adds the key and the values derived from it to the secrets to search for. */
static void add_key(void)
{
	if (!impl->setkey)
		return;
	if (has(impl->alg, "(aes)")) {
		const u32 n = aes_key_size();

		add_round_keys(key, n);
		if (has(impl->alg, "xts"))
			add_round_keys(key + n, n);
	}
	add_all(secrets, key, key_len, 1, "the raw key");
	add_differing(ctx, other_ctx, impl->ctxsize, "the context");
}

static void set_key(void)
{
	const struct call c = { CALL("setkey", impl->setkey, ARG(ctx), ARG(key), key_len) };

	if (!impl->setkey)
		return;
	text_len = 0;
	memset(ctx, 0, sizeof(ctx));
	memset(other_ctx, 0, sizeof(other_ctx));
	impl->setkey(other_ctx, other_key, key_len);
	if (observe(c.fn, c.arg, stack_copy)) {
		fprintf(stderr, "%s: refuses a key of %u bytes\n", impl->driver, key_len);
		exit(2);
	}
	round_now++;
	memset(vectors, 0, sizeof(vectors));
	add_key();
	search_all(&c, observed_general);
}

/*
 * Adds the values that protect the tag to the secrets. With ChaCha20, this is the one-time key of
 * Poly1305. With AES, it is the block that masks the tag. If the tag is not truncated, also adds
 * the authenticated sum.
 */
static void add_mask(u32 tagsize)
{
	u8 block[64], mask[16], nonce[16] = { 0 };
	size_t i;

	if (has(impl->alg, "chacha20")) {
		unsigned __int128 sum, s;

		memcpy(nonce + 16 - impl->ivsize, iv, impl->ivsize);
		chacha_block_generic((const void *)ctx, block, nonce);
		add_all(secrets, block + 32, 32, 4, "the key stream");
		add_all(secrets, block + 16, 16, 4, "Poly1305's s");
		for (i = 3; i < 16; i += 4)
			block[i] &= 15;
		for (i = 4; i < 16; i += 4)
			block[i] &= 252;
		add_all(secrets, block, 16, 4, "Poly1305's r");
		memcpy(&sum, tag, 16);
		memcpy(&s, block + 16, 16);
		sum -= s;
		memcpy(mask, &sum, 16);
	} else {
		struct aes_key k;
		const u32 n = aes_key_size();

		aes_expandkey(&k, key, n);
		if (has(impl->alg, "rfc4106")) {
			memcpy(nonce, key + n, 4);
			memcpy(nonce + 4, iv, 8);
			nonce[15] = 1;
			/* The salt is part of the nonce, and therefore not a secret. */
			add_all(publics, nonce, 16, 1, "");
		} else if (has(impl->alg, "gcm")) {
			memcpy(nonce, iv, 12);
			nonce[15] = 1;
		} else {
			memcpy(nonce, iv, 16);
			nonce[0] &= 7;
			memset(nonce + 15 - nonce[0], 0, nonce[0] + 1);
		}
		aes_encrypt_generic(&k, mask, nonce);
		add_all(secrets, mask, 16, 4, "the mask of the tag");
		for (i = 0; i < 16; i++)
			mask[i] ^= tag[i];
	}
	if (tagsize == 16)
		add_all(secrets, mask, 16, 4, "the authenticated sum");
}

/* Adds the XTS tweaks of the first 640 blocks to the secrets. */
static void add_tweaks(void)
{
	struct aes_key k;
	u64 t[2], carry;
	u32 i;

	aes_expandkey(&k, key + key_len / 2, key_len / 2);
	aes_encrypt_generic(&k, (u8 *)t, iv);
	for (i = 0; i < 640; i++) {
		add_all(secrets, (u8 *)t, 16, 8, "a tweak");
		carry = t[1] >> 63;
		t[1] = t[1] << 1 | t[0] >> 63;
		t[0] = t[0] << 1 ^ (carry ? 0x87 : 0);
	}
}

/* Adds the secret and the public parts of a message to the respective sets. */
static void add_message(const u8 *text, const u8 *cipher, size_t aadlen, u32 tagsize)
{
	size_t i;

	round_now++;
	add_key();
	add_text(secrets, text, text_len, "the text");
	add_all(publics, iv, impl->ivsize, 1, "");
	add_all(publics, aad, aadlen, 1, "");
	add_all(publics, tag, sizeof(tag), 1, "");
	if (impl->kind == KILN_HASH)
		return;
	add_text(publics, cipher, text_len, "");
	if (has(impl->alg, "xts("))
		add_tweaks();
	if (has(impl->alg, "xts(") || has(impl->alg, "cbc(") || has(impl->alg, "ecb("))
		return;
	for (i = 0; i < text_len; i++)
		stream[i] = text[i] ^ cipher[i];
	add_text(secrets, stream, text_len, "the key stream");
	if (impl->kind == KILN_AEAD)
		add_mask(tagsize);
}

/*
 * Makes all but the last of the @n calls that process a message in pieces. After each call, adds
 * the key-dependent parts of @state to the secrets.
 */
static void add_states(const struct call *calls, size_t n)
{
	memset(state, 0, sizeof(state));
	memset(other_state, 0, sizeof(other_state));
	for (; n > 1; n--, calls++) {
		struct call c = *calls;

		make(&c);
		c.arg[0] = ARG(other_ctx);
		c.arg[1] = ARG(other_state);
		make(&c);
		add_differing(state, other_state, impl->statesize, "a keyed state");
	}
	memset(state, 0, sizeof(state));
}

static const u32 lengths[] = {
	0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 55, 56, 63, 64, 65, 79, 80, 81, 95, 96,
	97, 111, 112, 113, 119, 127, 128, 129, 143, 144, 145, 159, 160, 161, 175, 176, 177, 191,
	192, 193, 207, 208, 209, 223, 224, 225, 239, 240, 241, 255, 256, 257, 271, 287, 288, 304,
	319, 320, 321, 335, 383, 384, 385, 447, 448, 449, 495, 511, 512, 513, 528, 575, 576, 577,
	600, 639, 640, 641, 703, 704, 705, 767, 768, 769, 831, 895, 896, 897, 960, 1023, 1024,
	1025, 1040, 1087, 1088, 1151, 1152, 1279, 1280, 1281, 1408, 1535, 1536, 1537, 1600,
	1791, 1792, 2047, 2048, 2049, 2063, 2111, 2176, 2303, 2304, 2559, 2560, 3072, 3073,
	4095, 4097, 4608, 8193, 8300
};
static const u32 aad_lengths[] = { 0, 13, 16, 40, 1, 95, 300, 8, 64, 600 };

static u32 usable_length(u32 len)
{
	if (len < impl->shortest)
		len = impl->shortest;
	return impl->kind == KILN_SKCIPHER ? len - len % impl->blocksize : len;
}

static void fresh_iv(void)
{
	fill(iv, sizeof(iv));
	/* In CCM, the first byte is the size of the length field minus 1 (RFC 3610). */
	if (has(impl->alg, "ccm"))
		iv[0] = 2 + text_len % 6;
}

/*
 * Tries all functions of a cipher. Each function is first called without a search, to compute the
 * secrets.
 */
static void try_cipher(u32 n)
{
	const struct kiln_cipher_ops *ops = &impl->cipher;
	u8 *const from = plain_text + n % 16, *const to = cipher_text + n % 7;
	u8 left[4][KILN_MAX_IV], tweaks[3][KILN_MAX_IV];
	const struct call calls[] = {
		{ CALL("encrypt", ops->encrypt, ARG(ctx), ARG(to), ARG(from), text_len,
		       ARG(left[0])) },
		{ CALL("decrypt", ops->decrypt, ARG(ctx), ARG(out), ARG(to), text_len,
		       ARG(left[1])), .right = from },
		{ CALL("first", ops->first, ARG(ctx), ARG(tweaks[0])) },
		{ CALL("encrypt_piece", ops->first ? ops->encrypt_piece : NULL, ARG(ctx),
		       ARG(out), ARG(from), text_len, ARG(tweaks[1])) },
		{ CALL("decrypt_piece", ops->first ? ops->decrypt_piece : NULL, ARG(ctx),
		       ARG(out), ARG(to), text_len, ARG(tweaks[2])) },
	};
	struct call c;
	u32 i;

	fresh_iv();
	for (i = 0; i < 4; i++)
		memcpy(left[i], iv, sizeof(iv));
	for (i = 0; i < 2; i++) {
		c = calls[i];
		c.arg[4] = ARG(left[2 + i]);
		make(&c);
	}
	add_message(from, to, 0, 0);
	add_all(publics, left[2], impl->ivsize, 1, "");
	add_all(publics, left[3], impl->ivsize, 1, "");
	for (i = 0; i < 3; i++) {
		memcpy(tweaks[i], iv, sizeof(iv));
		c = calls[2];
		c.arg[1] = ARG(tweaks[i]);
		if (i && c.fn)
			make(&c);
	}
	TRY_CALLS(calls);

	if (ops->encrypt_many) {
		enum { MESSAGES = 11 };
		struct kiln_message m[MESSAGES];
		u8 ivs[MESSAGES][KILN_MAX_IV];
		const u32 each = text_len / MESSAGES / impl->blocksize * impl->blocksize;
		struct call many = { CALL("encrypt_many", ops->encrypt_many, ARG(ctx), ARG(m),
					  MESSAGES) };
		u32 observed;

		for (observed = 0; observed < 2; observed++) {
			for (i = 0; i < MESSAGES; i++) {
				memcpy(ivs[i], iv, sizeof(iv));
				m[i] = (struct kiln_message){ .dst = out + i * each, .iv = ivs[i],
							      .src = from + i * each,
							      .len = each };
			}
			if (observed) {
				try_calls(&many, 1);
			} else {
				make(&many);
				add_message(from, out, 0, 0);
			}
		}
	}
}

static void try_aead(u32 n)
{
	const struct kiln_aead_ops *ops = &impl->aead;
	u8 *const from = plain_text + n % 16, *const to = cipher_text + n % 7;
	const u32 aadlen = aad_lengths[n % ARRAY_SIZE(aad_lengths)];
	const u32 tagsize = n % 7 == 3 ? impl->tag_min : impl->digestsize;
	const u32 half = text_len / 2 / 64 * 64, aad_half = aadlen / 2;
	static u8 t[64];
	struct call whole[] = {
		{ CALL("seal", ops->seal, ARG(ctx), ARG(to), ARG(from), text_len, ARG(aad), aadlen,
		       ARG(iv), ARG(tag), tagsize) },
		{ CALL("open", ops->open, ARG(ctx), ARG(out), ARG(to), text_len, ARG(aad), aadlen,
		       ARG(iv), ARG(tag), tagsize), .answers = true, .right = from },
		{ CALL("open of a wrong tag", ops->open, ARG(ctx), ARG(out), ARG(to), text_len,
		       ARG(aad), aadlen, ARG(iv), ARG(t), tagsize) },
	};
	struct call pieces[] = {
		{ CALL("begin", ops->begin, ARG(ctx), ARG(state), ARG(iv), aadlen, text_len,
		       tagsize) },
		{ CALL("aad", ops->aad, ARG(ctx), ARG(state), ARG(aad), aad_half) },
		{ CALL("aad", ops->aad, ARG(ctx), ARG(state), ARG(aad + aad_half),
		       aadlen - aad_half) },
		{ CALL("encrypt", ops->encrypt, ARG(ctx), ARG(state), ARG(out), ARG(from), half) },
		{ CALL("encrypt", ops->encrypt, ARG(ctx), ARG(state), ARG(out + half),
		       ARG(from + half), text_len - half) },
		{ CALL("end", ops->end, ARG(ctx), ARG(state), ARG(t), tagsize) },
	};
	u32 i;

	fresh_iv();
	memset(tag, 0, sizeof(tag));
	make(&whole[0]);
	add_message(from, to, aadlen, tagsize);
	add_states(pieces, ARRAY_SIZE(pieces));
	memcpy(t, tag, sizeof(t));
	t[tagsize - 1] ^= 1;
	TRY_CALLS(whole);
	TRY_CALLS(pieces);

	for (i = 3; i < 5; i++) {
		pieces[i].function = "decrypt";
		pieces[i].fn = ops->decrypt;
		pieces[i].arg[3] += to - from;
	}
	memset(state, 0, sizeof(state));
	TRY_CALLS(pieces);

	if (ops->seal_many) {
		enum { MESSAGES = 11 };
		struct kiln_aead_message m[MESSAGES];
		const u32 each = text_len / MESSAGES;
		u8 tags[MESSAGES][KILN_MAX_DIGEST];
		int err[MESSAGES];
		struct call many[] = {
			{ CALL("seal_many", ops->seal_many, ARG(ctx), ARG(m), MESSAGES, tagsize) },
			{ CALL("open_many", ops->open_many, ARG(ctx), ARG(m), MESSAGES, tagsize,
			       ARG(err)) },
		};

		for (i = 0; i < MESSAGES; i++)
			m[i] = (struct kiln_aead_message){
				.dst = out + i * each, .src = from + i * each, .len = each,
				.aad = aad, .aadlen = aadlen, .iv = iv, .tag = tags[i],
			};
		make(&many[0]);
		for (i = 0; i < MESSAGES; i++) {
			add_text(publics, out + i * each, each, "");
			add_all(publics, tags[i], tagsize, 1, "");
		}
		try_calls(&many[0], 1);
		for (i = 0; i < MESSAGES; i++) {
			memcpy(to + i * each, out + i * each, each);
			m[i].src = to + i * each;
		}
		tags[3][tagsize - 1] ^= 1;
		try_calls(&many[1], 1);
	}
}

static void try_hash(u32 n)
{
	const struct kiln_hash_ops *ops = &impl->hash;
	const u8 *const from = plain_text + n % 16;
	const u32 half = text_len / 2;
	struct call whole = { CALL("digest", ops->digest, ARG(ctx), ARG(from), text_len, ARG(tag)) };
	const struct call pieces[] = {
		{ CALL("init", ops->init, ARG(ctx), ARG(state)) },
		{ CALL("update", ops->update, ARG(ctx), ARG(state), ARG(from), half) },
		{ CALL("update", ops->update, ARG(ctx), ARG(state), ARG(from + half),
		       text_len - half) },
		{ CALL("final", ops->final, ARG(ctx), ARG(state), ARG(tag)) },
	};

	memset(tag, 0, sizeof(tag));
	make(&whole);
	add_message(from, NULL, 0, 0);
	if (impl->setkey)
		add_states(pieces, ARRAY_SIZE(pieces));
	try_calls(&whole, 1);
	TRY_CALLS(pieces);

	if (ops->finish_many) {
		enum { MESSAGES = 11 };
		struct kiln_message m[MESSAGES];
		const struct call many[] = {
			{ CALL("init", ops->init, ARG(ctx), ARG(state)) },
			{ CALL("finish_many", ops->finish_many, ARG(ctx), ARG(state), ARG(m),
			       MESSAGES) },
		};
		const u32 each = text_len / MESSAGES;
		u32 i;

		for (i = 0; i < MESSAGES; i++)
			m[i] = (struct kiln_message){ .dst = out + i * impl->digestsize,
						      .src = from + i * each, .len = each };
		TRY_CALLS(many);
	}
}

static void try_key(u32 len)
{
	u32 n;

	key_len = len;
	set_key();
	for (n = 0; n < ARRAY_SIZE(lengths); n++) {
		text_len = usable_length(lengths[n]);
		if (impl->kind == KILN_SKCIPHER)
			try_cipher(n);
		else if (impl->kind == KILN_AEAD)
			try_aead(n);
		else
			try_hash(n);
	}
}

static void try_impl(const struct kiln_impl *tried)
{
	const u32 step = tried->key_step ? tried->key_step : 1;
	u32 n;

	impl = tried;
	fill(key, sizeof(key));
	fill(other_key, sizeof(other_key));
	if (impl->key_max == KILN_ANY_KEY) {
		/* Try a key that is shorter than a block of the hash, and a key that is longer. */
		try_key(32);
		try_key(300);
		return;
	}
	if ((impl->key_max - impl->key_min) / step > 4) {
		/* If there are many key sizes, try only a common size and the longest. */
		try_key(impl->key_max < 32 ? impl->key_max : 32);
		try_key(impl->key_max);
		return;
	}
	for (n = impl->key_min; n <= impl->key_max; n += step)
		try_key(n);
}

/* Controls: implementations in which one function leaves 16 bytes of @planted behind on purpose. */
static const u8 *planted;
static u8 planted_state[KILN_MAX_STATE] __aligned(64);

static noinline void leave_on_stack(void)
{
	volatile u8 copy[16];
	u32 i;

	for (i = 0; i < sizeof(copy); i++)
		copy[i] = planted[i];
}

/* Writes to the stack at a depth that the gate does not clear. */
static noinline void leave_deep(void)
{
	u8 room[KILN_STACK_CLEARED + 64];

	/*
	 * Use asm statements to keep the whole array. If the array were volatile instead, clang
	 * would keep only the two bytes that are used.
	 */
	__asm__ volatile("" : : "r"(room) : "memory");
	leave_on_stack();
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void leave_in_register(void)
{
	__asm__ volatile("movdqu (%0), %%xmm7" : : "r"(planted) : "xmm7");
}

static void (*leave)(void);
static const struct kiln_impl *honest;

static void planted_seal(const void *c, u8 *dst, const u8 *src, size_t len, const u8 *a,
			 size_t aadlen, const u8 *nonce, u8 *t, size_t tagsize)
{
	honest->aead.seal(c, dst, src, len, a, aadlen, nonce, t, tagsize);
	if (planted == planted_state) {
		honest->aead.begin(c, planted_state, nonce, aadlen, len, tagsize);
		honest->aead.aad(c, planted_state, a, aadlen);
	}
	leave();
}

static int planted_setkey(void *c, const u8 *raw, size_t len)
{
	const int result = honest->setkey(c, raw, len);

	__asm__ volatile("mov (%0), %%r9" : : "r"(raw) : "r9");
	return result;
}

static const struct kiln_impl *impl_by_name(const char *driver)
{
	size_t i;

	for (i = 0; i < kiln_impls(); i++)
		if (streq(kiln_impl(i)->driver, driver))
			return kiln_impl(i);
	fprintf(stderr, "no %s\n", driver);
	exit(2);
}

static const struct {
	const char *name;
	const void *planted;
	void (*leave)(void);	/* NULL: setkey leaves the raw key in a register */
} controls[] = {
	{ "round-key", ((struct gcm_key *)ctx)->aes.enc[5], leave_on_stack },
	{ "hash-power", ctx, leave_on_stack },
	{ "text", plain_text + 3, leave_on_stack },
	/* Once the associated data has been processed, GCM's state begins with the GHASH sum. */
	{ "state", planted_state, leave_on_stack },
	{ "deep", ctx, leave_deep },
	{ "vector-register", ctx, leave_in_register },
	{ "general-register", NULL, NULL },
};

static int control(const char *name)
{
	struct kiln_impl copy;
	size_t i;

	honest = impl_by_name("gcm-aes-fixed-time");
	copy = *honest;
	copy.driver = "planted";
	for (i = 0; i < ARRAY_SIZE(controls); i++) {
		if (!streq(controls[i].name, name))
			continue;
		planted = controls[i].planted;
		leave = controls[i].leave;
		if (leave)
			copy.aead.seal = planted_seal;
		else
			copy.setkey = planted_setkey;
		try_impl(&copy);
		return 0;
	}
	fprintf(stderr, "no control %s\n", name);
	return 2;
}

/* Tests empty texts with a NULL address. All AEADs must accept them and write nothing. */
static int try_empty(void)
{
	static u8 room[2048] __aligned(64);
	size_t i, k, n;
	int wrong = 0;

	for (i = 0; i < kiln_impls(); i++) {
		struct call c = { CALL("", NULL, ARG(ctx), ARG(room), 0, 0, ARG(aad), 13, ARG(iv),
				       ARG(tag)) };

		impl = kiln_impl(i);
		if (impl->kind != KILN_AEAD || kiln_tier_lacks(impl->tier))
			continue;
		impl->setkey(ctx, key, impl->key_max);
		fresh_iv();
		memset(room, 0x5a, sizeof(room));
		c.arg[8] = impl->digestsize;
		c.fn = impl->aead.seal;
		make_observed(&c);
		c.fn = impl->aead.open;
		c.answers = true;
		if ((int)make_observed(&c)) {
			printf("%s refuses an empty text without an address\n", impl->driver);
			wrong = 1;
		}
		for (k = n = 0; k < sizeof(room); k++)
			if (room[k] != 0x5a)
				n = k + 1;
		if (n) {
			printf("%s writes %zu bytes for an empty text\n", impl->driver, n);
			wrong = 1;
		}
	}
	return wrong;
}

static int report(void)
{
	const struct finding *f;

	for (f = findings; f < findings + nr_findings; f++) {
		printf("%s %s leaves %s in %s: key of %u bytes, text of %u, byte %u of it",
		       f->driver, f->function, f->name, f->where, f->key_len, f->text_len, f->at);
		if (f->below)
			printf(", %ld bytes below the call", f->below);
		putchar('\n');
	}
	return nr_findings != 0;
}

int main(int argc, char **argv)
{
	const struct kiln_cpu_config config = { .ticks_per_us = 1 };
	const char *part;
	u32 tried = 0;
	size_t i;

	if (argc > 1 && streq(argv[1], "--call")) {
		after_call = true;
		argc--;
		argv++;
	}
	part = argc == 2 ? argv[1] : "";
	boot_cpu(&config);
	/* Set MXCSR in the XSAVE area to its value after a reset, 0x1f80. */
	init_state[24] = 0x80;
	init_state[25] = 0x1f;
	fill(plain_text, sizeof(plain_text));
	fill(aad, sizeof(aad));
	if (argc == 2 && streq(argv[1], "--empty"))
		return try_empty();
	if (argc == 3 && streq(argv[1], "--control")) {
		const int status = control(argv[2]);

		return status ? status : report();
	}
	for (i = 0; i < kiln_impls(); i++) {
		const struct kiln_impl *each = kiln_impl(i);

		if (!has(each->driver, part) || kiln_tier_lacks(each->tier))
			continue;
		try_impl(each);
		tried++;
	}
	printf("%u implementations\n", tried);
	return report();
}
