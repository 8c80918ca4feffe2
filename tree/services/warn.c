// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Warnings that come by a call and not by a trap, from versions.c.
 */
#include "service.h"

void SERVICE(kiln_warn)(unsigned long ip, const char *file, unsigned int line)
{
	tell("{\"event\":\"warn\",\"address\":%lu,\"file\":\"%s\",\"line\":%u}", ip,
	     file ? file : "", line);
}
