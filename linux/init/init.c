// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Executes the commands in the initramfs one after another, reports each on the console, and powers
 * off. The reports are lines that begin with PREFIX:
 *
 *	start RELEASE MACHINE		init is running
 *	begin N ORDER			the command in line N begins
 *	out, err TEXT			a line of the program's output, or of a printed file
 *	log LEVEL SECONDS TEXT		a line of the kernel's log
 *	end N exit|errno|signal NUMBER	how the command ended
 *	exit 0|1			all commands succeeded, or one failed
 */
#include <fcntl.h>
#include <linux/reboot.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "init.h"

enum { CONSOLE_LEVEL = 8, ONLY_PANICS = 1 };

static void children_interrupt_polls(int signal)
{
	(void)signal;
}

static void set_up(void)
{
	static const char *const mounts[][2] = {
		{ "devtmpfs", "/dev" },
		{ "proc", "/proc" },
		{ "sysfs", "/sys" },
		{ "debugfs", "/sys/kernel/debug" },
		{ "tmpfs", "/tmp" },
	};
	struct sigaction action = { .sa_handler = children_interrupt_polls };
	sigset_t mask;
	int console;

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i][1], 0755);
		/*
		 * Ignore errors. If the kernel lacks this file system, the commands that need it
		 * fail.
		 */
		mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL);
	}
	/*
	 * Open the console here, because the kernel cannot open it for init if the initramfs does
	 * not contain /dev/console.
	 */
	console = open("/dev/console", O_RDWR | O_NOCTTY);
	if (console >= 0)
		for (int fd = 0; fd < 3; fd++)
			dup2(console, fd);
	if (console > 2)
		close(console);
	/* Unblock the signal only in ppoll(). Otherwise a child's exit could be missed. */
	sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	klogctl(CONSOLE_LEVEL, NULL, ONLY_PANICS);
}

static bool obey_all(FILE *orders, int log)
{
	char line[4096];

	for (unsigned number = 1; fgets(line, sizeof(line), orders); number++) {
		char begin[sizeof(line) + 16];
		bool well;

		line[strcspn(line, "\n")] = '\0';
		if (!*line)
			continue;
		snprintf(begin, sizeof(begin), "%u %s", number, line);
		say_string("begin", begin);
		well = order_obey(number, line, log);
		log_relay(log);
		if (!well)
			return false;
	}
	return true;
}

int main(void)
{
	struct utsname name;
	char start[256];
	FILE *orders;
	bool well;

	set_up();
	uname(&name);
	snprintf(start, sizeof(start), "%s %s", name.release, name.machine);
	say_string("start", start);
	orders = fopen("/orders", "re");
	well = orders && obey_all(orders, log_open());
	say_string("exit", well ? "0" : "1");
	sync();
	reboot(RB_POWER_OFF);
	/*
	 * If powering off fails, init exits. The kernel then panics, which also stops the machine.
	 */
	return 1;
}
