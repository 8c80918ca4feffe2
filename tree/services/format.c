// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The printf family, for a tree whose own lib/vsprintf.o cannot be linked. The C
 * library knows none of the kernel's %p formats.
 */
#include <stdio.h>

#include "service.h"

int SERVICE(vsnprintf)(char *text, size_t size, const char *format, va_list args)
{
	return vsnprintf(text, size, format, args);
}

int SERVICE(snprintf)(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, size, format, args);
	va_end(args);
	return n;
}

int SERVICE(scnprintf)(char *text, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, size, format, args);
	va_end(args);
	return size && n >= (int)size ? (int)size - 1 : n;
}

int SERVICE(sprintf)(char *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsprintf(text, format, args);
	va_end(args);
	return n;
}

/* Symbols by address: Kiln resolves them from the link, not here. */
int SERVICE(sprint_symbol)(char *text, unsigned long address)
{
	return sprintf(text, "0x%lx", address);
}

int SERVICE(sprint_symbol_build_id)(char *text, unsigned long address)
{
	return sprintf(text, "0x%lx", address);
}

int SERVICE(sprint_symbol_no_offset)(char *text, unsigned long address)
{
	return sprintf(text, "0x%lx", address);
}

int SERVICE(sprint_backtrace)(char *text, unsigned long address)
{
	return sprintf(text, "0x%lx", address);
}

int SERVICE(sprint_backtrace_build_id)(char *text, unsigned long address)
{
	return sprintf(text, "0x%lx", address);
}
