// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Implements /proc/kiln. Each write contains one question, and returns when the question has been
 * answered. A read returns the last answer.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "fidelity.h"

enum { LONGEST = 4096, ANSWER = 1 << 16 };

static const struct {
	const char *name;
	int (*ask)(char *question, struct answer *to);
} kinds[] = {
	{ "scene", scene_ask },
	{ "requests", requests_ask },
	{ "costs", costs_ask },
	{ "nested", nested_ask },
};

static DEFINE_MUTEX(asking);
static struct answer last;

void answer(struct answer *to, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	to->len += vscnprintf(to->text + to->len, to->size - to->len, format, args);
	va_end(args);
}

static int ask(char *question)
{
	char *rest = question;
	const char *name = strsep(&rest, " \n");
	size_t i;

	last.len = 0;
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return kinds[i].ask(rest ? rest : question + strlen(question), &last);
	return -EINVAL;
}

static ssize_t ask_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	char *question;
	int err;

	if (len > LONGEST)
		return -E2BIG;
	question = memdup_user_nul(from, len);
	if (IS_ERR(question))
		return PTR_ERR(question);
	mutex_lock(&asking);
	err = ask(question);
	mutex_unlock(&asking);
	kfree(question);
	return err ? err : len;
}

static ssize_t ask_read(struct file *file, char __user *to, size_t len, loff_t *at)
{
	ssize_t n;

	mutex_lock(&asking);
	n = simple_read_from_buffer(to, len, at, last.text, last.len);
	mutex_unlock(&asking);
	return n;
}

static const struct proc_ops ask_ops = {
	.proc_write = ask_write,
	.proc_read = ask_read,
};

static int __init ask_init(void)
{
	last.text = vmalloc(ANSWER);
	last.size = ANSWER;
	if (!last.text)
		return -ENOMEM;
	if (!proc_create("kiln", 0600, NULL, &ask_ops)) {
		vfree(last.text);
		return -ENOMEM;
	}
	return 0;
}

static void __exit ask_exit(void)
{
	remove_proc_entry("kiln", NULL);
	vfree(last.text);
}

module_init(ask_init);
module_exit(ask_exit);
MODULE_DESCRIPTION("Kiln: questions to a real kernel");
MODULE_LICENSE("Dual MIT/GPL");
