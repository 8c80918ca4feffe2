/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Saves and restores the registers that code in a section may use. If the CPU has XSAVEC, which
 * omits unused state, saves with it, otherwise with XSAVE. Neither instruction is privileged.
 *
 * state.c APIs:
 *	kiln_state_init, kiln_state_save, kiln_state_restore, kiln_state_wipe
 */
#ifndef KILN_STATE_H
#define KILN_STATE_H

#include <linux/types.h>

enum { KILN_STATE_ALIGN = 64 };

/*
 * Returns the size of a save area in bytes, or 0 if this CPU cannot save registers. Must be called
 * before the other functions. The area must be zero before the first save, because a save does not
 * write most of the header.
 */
u32 kiln_state_init(void);

void kiln_state_save(u8 *area);

/*
 * Restores registers. An all-zero area resets all registers except MXCSR, which is still loaded
 * from byte 24 of the area.
 */
void kiln_state_restore(const u8 *area);

/*
 * Overwrites the saved register contents with zeros, so that the interrupted code's keys and
 * plaintext do not remain in the area. Must be called at most once after each save.
 */
void kiln_state_wipe(u8 *area);

#endif
