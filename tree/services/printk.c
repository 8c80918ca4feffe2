// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sends the tree's messages to the parent as events. The tree's own vsnprintf() formats the
 * messages, because it supports the kernel's format extensions.
 */
#include "service.h"

static void print(const char *event, const char *text, va_list args)
{
	char line[1024];

	/* Skip KERN_SOH and the log level. */
	if (text[0] == 1 && text[1])
		text += 2;
	kiln_glue_vsnprintf(line, sizeof(line), text, args);
	tell_text(event, line);
}

int SERVICE(_printk)(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	print("log", text, args);
	va_end(args);
	return 0;
}

void SERVICE(__warn_printk)(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	print("log", text, args);
	va_end(args);
}

void SERVICE(panic)(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	print("log", text, args);
	va_end(args);
	give_up("the tree called panic()");
}

int SERVICE(___ratelimit)(void *state, const char *fn)
{
	(void)state;
	(void)fn;
	return 1;
}
