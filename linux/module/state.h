/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The registers that code in a section may use, saved to memory and restored: by XSAVEC if
 * available, which omits unused state, else by XSAVE. Neither is privileged.
 *
 * state.c APIs:
 *	kiln_state_init, kiln_state_save, kiln_state_restore
 */
#ifndef KILN_STATE_H
#define KILN_STATE_H

#include <linux/types.h>

enum { KILN_STATE_ALIGN = 64 };

/*
 * To be called first. Bytes that a state takes, 0 if this CPU cannot save one; they have to
 * be zero before the first save, which leaves most of the header as it is.
 */
u32 kiln_state_init(void);

void kiln_state_save(u8 *area);

/* Of an area of zeros: everything as after reset, but MXCSR as the area has it (at byte 24). */
void kiln_state_restore(const u8 *area);

#endif
