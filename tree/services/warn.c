// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree's warnings and bugs. Each is raised by a UD2 instruction, and a table in the tree
 * describes all of them.
 */
#include "service.h"

extern char __start___bug_table[] __attribute__((weak));
extern char __stop___bug_table[] __attribute__((weak));

int kiln_image_bug(unsigned long ip, const char **file, unsigned int *line);

/*
 * Classifies the UD2 instruction at @ip for the host's signal handler. Returns 0 for an unknown
 * address, 1 for a warning, which is also counted, and 2 for a bug.
 */
int kiln_image_bug(unsigned long ip, const char **file, unsigned int *line)
{
	const int kind = kiln_glue_bug(ip, __start___bug_table, __stop___bug_table, file,
				       line);

	if (kind == 1 && on_cpu)
		kiln_warn();
	return kind;
}

/* Reports a warning that is raised by a call rather than a UD2 (versions.c). */
void SERVICE(kiln_warn)(unsigned long ip, const char *file, unsigned int line)
{
	tell("{\"event\":\"warn\",\"address\":%lu,\"file\":\"%s\",\"line\":%u}", ip,
	     file ? file : "", line);
}
