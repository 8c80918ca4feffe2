/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Saves to memory the registers that code in a section may use, and restores them. Uses XSAVEC,
 * which omits unused state, if available, and XSAVE otherwise. Neither instruction is privileged.
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
 * Restores registers. An area of zeros resets all registers except MXCSR, which is loaded from byte
 * 24.
 */
void kiln_state_restore(const u8 *area);

/*
 * Overwrites the registers in an area with zeros, so that keys and plaintext of the interrupted code
 * do not stay there. The area must not have been wiped since the last save.
 */
void kiln_state_wipe(u8 *area);

#endif
