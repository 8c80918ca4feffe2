// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A small printf. It supports %d %i %u %x %lu %lx %lld %s %.Ns %.*s %c %p %%, with a width and
 * leading zeros. It also replaces vsnprintf() in trees whose lib/vsprintf.o cannot be linked, but
 * without the kernel's %p extensions.
 */
#include "service.h"

struct output {
	char *p, *end;	/* current position, and last position for the closing NUL */
	size_t n;	/* length that the text has without truncation */
};

static void put(struct output *out, char c)
{
	if (out->p < out->end)
		*out->p++ = c;
	out->n++;
}

static void pad(struct output *out, char with, int n)
{
	while (n-- > 0)
		put(out, with);
}

static void put_number(struct output *out, uint64_t value, unsigned int base, bool minus,
		       int width, bool zeros)
{
	char digits[24];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	width -= n + minus;
	if (!zeros)
		pad(out, ' ', width);
	if (minus)
		put(out, '-');
	if (zeros)
		pad(out, '0', width);
	while (n)
		put(out, digits[--n]);
}

static void put_string(struct output *out, const char *s, int width, int most)
{
	int n = 0;

	if (!s)
		s = "(null)";
	while ((most < 0 || n < most) && s[n])
		n++;
	pad(out, ' ', width - n);
	while (n--)
		put(out, *s++);
}

static const char *read_number(const char *s, int *value)
{
	for (*value = 0; *s >= '0' && *s <= '9'; s++)
		*value = *value * 10 + (*s - '0');
	return s;
}

int format_args(char *text, size_t size, const char *s, va_list args)
{
	struct output out = { text, size ? text + size - 1 : text, 0 };

	for (; *s; s++) {
		int width = 0, most = -1, longs = 0;
		bool zeros = false;
		int64_t value;

		if (*s != '%') {
			put(&out, *s);
			continue;
		}
		for (s++; *s == '0' || *s == '#' || *s == '-' || *s == '+' || *s == ' '; s++)
			zeros |= *s == '0';
		if (*s == '*')
			width = va_arg(args, int), s++;
		else
			s = read_number(s, &width);
		if (*s == '.') {
			if (*++s == '*')
				most = va_arg(args, int), s++;
			else
				s = read_number(s, &most);
		}
		for (; *s == 'l' || *s == 'z' || *s == 'h' || *s == 't'; s++)
			longs += *s != 'h';
		switch (*s) {
		case 'd':
		case 'i':
			value = longs ? va_arg(args, int64_t) : va_arg(args, int);
			put_number(&out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value,
				   10, value < 0, width, zeros);
			break;
		case 'u':
		case 'x':
		case 'X':
			put_number(&out,
				   longs ? va_arg(args, uint64_t) : va_arg(args, unsigned int),
				   *s == 'u' ? 10 : 16, false, width, zeros);
			break;
		case 'p':
			put(&out, '0');
			put(&out, 'x');
			put_number(&out, va_arg(args, uint64_t), 16, false, width, false);
			break;
		case 's':
			put_string(&out, va_arg(args, const char *), width, most);
			break;
		case 'c':
			put(&out, (char)va_arg(args, int));
			break;
		case 0:
			s--;
			break;
		default:
			put(&out, *s);
		}
	}
	if (size)
		*out.p = 0;
	return (int)out.n;
}

int format(char *text, size_t size, const char *s, ...)
{
	va_list args;
	int n;

	va_start(args, s);
	n = format_args(text, size, s, args);
	va_end(args);
	return n;
}

int SERVICE(vsnprintf)(char *text, size_t size, const char *s, va_list args)
{
	return format_args(text, size, s, args);
}

int SERVICE(snprintf)(char *text, size_t size, const char *s, ...)
{
	va_list args;
	int n;

	va_start(args, s);
	n = format_args(text, size, s, args);
	va_end(args);
	return n;
}

int SERVICE(scnprintf)(char *text, size_t size, const char *s, ...)
{
	va_list args;
	int n;

	va_start(args, s);
	n = format_args(text, size, s, args);
	va_end(args);
	return size && n >= (int)size ? (int)size - 1 : n;
}

int SERVICE(sprintf)(char *text, const char *s, ...)
{
	va_list args;
	int n;

	va_start(args, s);
	n = format_args(text, 1ul << 30, s, args);
	va_end(args);
	return n;
}

/* Prints only the address. Kiln later resolves it with the symbols of the linked image. */
#define SYMBOL(name)                                            \
	int SERVICE(name)(char *text, unsigned long address)    \
	{                                                       \
		return format(text, 32, "0x%lx", address);      \
	}

SYMBOL(sprint_symbol)
SYMBOL(sprint_symbol_build_id)
SYMBOL(sprint_symbol_no_offset)
SYMBOL(sprint_backtrace)
SYMBOL(sprint_backtrace_build_id)
