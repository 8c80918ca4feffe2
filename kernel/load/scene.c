// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The scene interpreter. It is freestanding and does not depend on a particular kernel. */
#include <kiln/scene.h>

static void put(struct kiln_scene *s, char c)
{
	const u32 at = s->len;

	if (at < s->size) {
		s->trace[at] = c;
		s->len = at + 1;
	}
}

static void put_hex(struct kiln_scene *s, u32 value)
{
	int shift = 28;

	while (shift > 0 && !(value >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		put(s, "0123456789abcdef"[value >> shift & 15]);
}

static void word(struct kiln_scene *s, enum kiln_level level, char letter, char answer)
{
	const u32 count = s->ops->preempt_count();

	if (s->len)
		put(s, ' ');
	put(s, "THSO"[level]);
	put(s, letter);
	if (answer)
		put(s, answer);
	put_hex(s, count);
	s->trace[s->len] = '\0';
}

static void step(struct kiln_scene *s, enum kiln_level level, char letter)
{
	const struct kiln_scene_ops *ops = s->ops;

	switch (letter) {
	case '?':
		word(s, level, letter, ops->fpu_usable() ? 'y' : 'n');
		return;
	case 's':
		word(s, level, letter, ops->simd_usable() ? 'y' : 'n');
		return;
	case '[':
		ops->fpu_begin();
		break;
	case ']':
		ops->fpu_end();
		break;
	case '(':
		ops->bh_disable();
		break;
	case ')':
		ops->bh_enable();
		break;
	case '!':
		ops->interrupt();
		break;
	case '^':
		ops->raise();
		break;
	case '~':
		ops->make_way();
		break;
	default:
		letter = '.';
	}
	word(s, level, letter, 0);
}

void kiln_scene_play(struct kiln_scene *s, enum kiln_level level)
{
	const char *letter = s->program[level];

	if (s->played[level]++) {
		word(s, level, '.', 0);
		return;
	}
	for (; *letter; letter++)
		step(s, level, *letter);
}
