// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Changes the module's parameters between each pair of consecutive reads. Exits with 1 if a section
 * is opened over another section without saving the registers, if a section is not closed in the
 * same way as it was opened, or if the saved registers of an interrupted section remain in memory.
 */
#include "section.c"

int warnings, preempt_depth, linux_sections;
bool fpu_usable, serving_softirq;

static int reads, change_at;
static int saves, restores, wipes;

void parameter_read(void)
{
	if (reads++ != change_at)
		return;
	nested = !nested;
	nested_unsaved = !nested_unsaved;
}

u32 kiln_state_init(void)
{
	return 1024;
}

void kiln_state_save(u8 *area)
{
	(void)area;
	saves++;
}

void kiln_state_restore(const u8 *area)
{
	(void)area;
	restores++;
}

/* Count only wipes that follow a restore: wiping first would destroy the saved registers. */
void kiln_state_wipe(u8 *area)
{
	(void)area;
	wipes += restores == wipes + 1;
}

#define CHECK(condition)                                                          \
	do {                                                                      \
		if (!(condition)) {                                               \
			printf("line %d: %s, change after read %d\n", __LINE__, #condition, \
			       change_at);                                        \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

static const struct kiln_impl simd = { KILN_TIER_AESNI }, scalar = { KILN_TIER_GENERIC };
static const struct kiln_alg alg = { &simd, &scalar, 4096 };

/* Encrypts in a softirq that has interrupted a section. */
static bool crypt_over_section(bool may_nest, bool unsaved)
{
	const struct kiln_impl *impl;

	fpu_usable = false;
	serving_softirq = true;
	nested = may_nest;
	nested_unsaved = unsaved;
	reads = saves = restores = wipes = 0;
	impl = kiln_simd_begin(&alg);
	CHECK(!warnings && !linux_sections);
	CHECK((impl == &simd) == preempt_depth);
	kiln_simd_end(impl);
	CHECK(!linux_sections && !preempt_depth);
	CHECK(saves == restores && wipes == restores);
	return impl == &simd;
}

int main(void)
{
	kiln_section_init(true);

	/*
	 * Controls: the parameters must have an effect, and the code must use Linux's own section
	 * where the kernel allows one.
	 */
	change_at = -1;
	CHECK(crypt_over_section(true, false) && saves == 1);
	CHECK(crypt_over_section(true, true) && saves == 0);
	CHECK(!crypt_over_section(false, false));
	fpu_usable = true;
	CHECK(kiln_simd_begin(&alg) == &simd && linux_sections == 1);
	kiln_simd_end(&simd);
	CHECK(linux_sections == 0);
	/*
	 * A section that interrupts the program named by user_unsaved must not be Linux's own.
	 * Sections that interrupt other programs are not affected.
	 */
	user_unsaved = "others";
	CHECK(kiln_simd_begin(&alg) == &simd && linux_sections == 1);
	kiln_simd_end(&simd);
	user_unsaved = "registers";
	CHECK(kiln_simd_begin(&alg) == &simd && linux_sections == 0 && preempt_depth == 1);
	kiln_simd_end(&simd);
	CHECK(linux_sections == 0 && preempt_depth == 0);
	user_unsaved = NULL;

	for (change_at = 0; change_at < 4; change_at++) {
		crypt_over_section(true, false);
		crypt_over_section(true, true);
		crypt_over_section(false, false);
		crypt_over_section(false, true);
	}
	kiln_section_exit();

	/* After a failed self-test, setting the parameter again must not enable nested sections. */
	change_at = -1;
	areas = NULL;
	kiln_section_init(false);
	CHECK(!nested && !crypt_over_section(true, false) && saves == 0);
	return 0;
}
