// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the tree prints: a line of the protocol, formatted by the tree's own
 * vsnprintf, which knows the kernel's formats.
 */
#include <stdio.h>
#include <stdlib.h>

#include "service.h"

static void print(const char *event, const char *format, va_list args)
{
	char text[1024];

	/* KERN_SOH and the level. */
	if (format[0] == 1 && format[1])
		format += 2;
	kiln_glue_vsnprintf(text, sizeof(text), format, args);
	tell_text(event, text);
}

int SERVICE(_printk)(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print("log", format, args);
	va_end(args);
	return 0;
}

void SERVICE(__warn_printk)(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print("log", format, args);
	va_end(args);
}

void SERVICE(panic)(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print("log", format, args);
	va_end(args);
	give_up("the tree called panic()");
}

int SERVICE(___ratelimit)(void *state, const char *fn)
{
	(void)state;
	(void)fn;
	return 1;
}
