// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Executes each command in a child process, so that init can relay the log in the meantime: a
 * command such as loading a module may take minutes.
 *
 * The words of a command are separated by tabs:
 *	module PATH [PARAMETERS]	load a module (the kernel decompresses .ko.xz and similar)
 *	remove NAME			unload a module; if it is in use, retry for a few
 *					seconds, because its users may take a while to release it
 *	run PATH [ARGUMENT...]		run a program
 *	print PATH			print a file, line by line
 *	write PATH TEXT			write to an existing file
 *	lines PATTERN [WORD...]		print the lines of all files that match the glob(7) pattern,
 *					each preceded by the file's path and a tab; if words
 *					are given, print only lines that contain one of them. Skip
 *					unreadable files
 * If a command begins with a minus, the following commands are executed even if it fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/module.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

enum { WORDS = 64, REMOVE_TRIES = 100, REMOVE_PAUSE_US = 100000 };

/* Headers older than Linux 5.17 do not define this flag. */
#ifndef MODULE_INIT_COMPRESSED_FILE
#define MODULE_INIT_COMPRESSED_FILE 4
#endif

/*
 * Converts a system call's result to an errno value, which becomes the exit status of a child that
 * does not run a program.
 */
static int status_of(long result)
{
	return result < 0 ? errno : 0;
}

static int load(char *const *word)
{
	const int fd = open(word[1], O_RDONLY | O_CLOEXEC);
	const size_t len = strlen(word[1]);
	int flags = 0;

	if (fd < 0)
		return errno;
	if (len > 3 && strcmp(word[1] + len - 3, ".ko"))
		flags = MODULE_INIT_COMPRESSED_FILE;
	return status_of(syscall(SYS_finit_module, fd, word[2] ? word[2] : "", flags));
}

static int unload(char *const *word)
{
	for (int i = 0; syscall(SYS_delete_module, word[1], O_NONBLOCK); i++) {
		if (errno != EAGAIN || i == REMOVE_TRIES)
			return errno;
		usleep(REMOVE_PAUSE_US);
	}
	return 0;
}

static int print(char *const *word)
{
	char part[4096];
	const int fd = open(word[1], O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return errno;
	while ((n = read(fd, part, sizeof(part))) > 0)
		for (ssize_t done = 0, now; done < n; done += now) {
			now = write(STDOUT_FILENO, part + done, (size_t)(n - done));
			if (now < 0)
				return errno;
		}
	return status_of(n);
}

static int put(char *const *word)
{
	const int fd = open(word[1], O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	return status_of(write(fd, word[2], strlen(word[2])));
}

static bool wanted(const char *line, char *const *word)
{
	if (!*word)
		return true;
	for (; *word; word++)
		if (strstr(line, *word))
			return true;
	return false;
}

static int lines(char *const *word)
{
	glob_t found;

	if (glob(word[1], 0, NULL, &found))
		return ENOENT;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *file = fopen(found.gl_pathv[i], "re");
		char *line = NULL;
		size_t room = 0;
		ssize_t n;

		while (file && (n = getline(&line, &room, file)) > 0) {
			line[strcspn(line, "\n")] = '\0';
			if (wanted(line, word + 2))
				printf("%s\t%s\n", found.gl_pathv[i], line);
		}
		free(line);
		if (file)
			fclose(file);
	}
	return fflush(stdout) ? errno : 0;
}

static int run(char *const *word)
{
	static char *const environment[] = { "PATH=/bin", "HOME=/", NULL };

	execve(word[1], word + 1, environment);
	/*
	 * Use the same exit statuses as shells: 127 if the program was not found, 126 if it cannot
	 * be run.
	 */
	dprintf(STDERR_FILENO, "%s: %s\n", word[1], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

static const struct verb {
	const char *name;
	int words;	/* minimum number of words, including the name of the command */
	int (*obey)(char *const *word);
} verbs[] = {
	{ "module", 2, load },
	{ "remove", 2, unload },
	{ "run", 2, run },
	{ "print", 2, print },
	{ "write", 3, put },
	{ "lines", 2, lines },
};

static const struct verb *find(const char *name, int words)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name))
			return words < verbs[i].words ? NULL : &verbs[i];
	return NULL;
}

static int split(char *line, char **word)
{
	int n = 0;

	while (n < WORDS && (word[n] = strsep(&line, "\t")))
		n++;
	if (n == WORDS)
		return 0;
	return n;
}

static void child(const struct verb *verb, char *const *word, const int *out, const int *err)
{
	const int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	dup2(err[1], STDERR_FILENO);
	_exit(verb->obey(word));
}

/*
 * Relays output until the child has exited and its pipes are empty. Returns the child's wait
 * status.
 */
static int attend(pid_t pid, struct relay *out, struct relay *err, int log)
{
	sigset_t none;
	bool ended = false;
	int status = 0;

	sigemptyset(&none);
	for (;;) {
		/* poll() ignores negative descriptors. */
		struct pollfd fds[3] = {
			{ .fd = out->fd, .events = POLLIN },
			{ .fd = err->fd, .events = POLLIN },
			{ .fd = log, .events = POLLIN },
		};
		static const struct timespec now;
		/* Do not wait for EOF, because descendants of the child may keep the pipes open. */
		const int n = ppoll(fds, 3, ended ? &now : NULL, &none);

		log_relay(log);
		if (n > 0 && (fds[0].revents || fds[1].revents)) {
			if (fds[0].revents && !relay_read(out))
				out->fd = -1;
			if (fds[1].revents && !relay_read(err))
				err->fd = -1;
			continue;
		}
		if (ended)
			return status;
		ended = waitpid(pid, &status, WNOHANG) == pid;
	}
}

bool order_obey(unsigned number, char *line, int log)
{
	static struct relay out, err;
	const bool may_fail = *line == '-';
	const struct verb *verb;
	char *word[WORDS + 1] = { NULL };
	int outs[2], errs[2], status, n;
	pid_t pid;

	n = split(line + may_fail, word);
	verb = n ? find(word[0], n) : NULL;
	if (!verb || pipe2(outs, O_CLOEXEC) || pipe2(errs, O_CLOEXEC)) {
		say_numbers("end", number, verb ? "errno" : "unknown", verb ? errno : 0);
		return may_fail;
	}
	pid = fork();
	if (!pid)
		child(verb, word, outs, errs);
	close(outs[1]);
	close(errs[1]);
	out = (struct relay){ .kind = "out", .fd = outs[0] };
	err = (struct relay){ .kind = "err", .fd = errs[0] };
	if (pid < 0) {
		say_numbers("end", number, "errno", errno);
		status = -1;
	} else {
		status = attend(pid, &out, &err, log);
		relay_end(&out);
		relay_end(&err);
		if (WIFSIGNALED(status))
			say_numbers("end", number, "signal", WTERMSIG(status));
		else
			say_numbers("end", number, verb->obey == run ? "exit" : "errno",
				    WEXITSTATUS(status));
	}
	close(outs[0]);
	close(errs[0]);
	return !status || may_fail;
}
