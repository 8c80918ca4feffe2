// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Warnings and bugs of the tree: a UD2, and a table that says what it means.
 */
#include "service.h"

extern char __start___bug_table[] __attribute__((weak));
extern char __stop___bug_table[] __attribute__((weak));

int kiln_image_bug(unsigned long ip, const char **file, unsigned int *line);

/* For the host's signal handler. 0: nothing known; 1: a warning, counted; 2: a bug. */
int kiln_image_bug(unsigned long ip, const char **file, unsigned int *line)
{
	const int kind = kiln_glue_bug(ip, __start___bug_table, __stop___bug_table, file,
				       line);

	if (kind == 1 && on_cpu)
		kiln_warn();
	return kind;
}

/* Those that come by a call and not by a trap: versions.c. */
void SERVICE(kiln_warn)(unsigned long ip, const char *file, unsigned int line)
{
	tell("{\"event\":\"warn\",\"address\":%lu,\"file\":\"%s\",\"line\":%u}", ip,
	     file ? file : "", line);
}
