// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sends packets between two network namespaces, while a disk is encrypted and a program keeps
 * values in vector registers. Everything runs on one CPU:
 *
 *	traffic FROM TO ADDRESS SECONDS DEVICE
 *	traffic FROM TO ADDRESS 0 DEVICE CYCLES IP MODULE PARAMETERS
 *
 * FROM and TO are namespaces of ip-netns(8). ADDRESS is an address of TO. DEVICE is a block device,
 * whose contents are overwritten.
 *
 * The second form sends packets until the module has been loaded and unloaded CYCLES times. Each
 * cycle loads the module and replaces the security associations of the namespaces a and b, so that
 * they use the module's drivers. When the drivers have opened a nested section, the cycle removes
 * the associations, unloads the module, and sets up the associations with Linux's drivers. The
 * program IP executes the batch files /sa.a and /sa.b for this.
 *
 * The last line of the output contains the names and values of all counters. In the second form, a
 * line `cycle N` is also printed after each cycle.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 4500 + 1,
	SHORTEST = 40,
	LONGEST = 1372,	/* the packet stays below 1500 bytes with ESP in a tunnel */
	/* One packet in LONG_EVERY has any length up to LONGEST. The others are short. */
	LONG_EVERY = 8,
	BURST = 32,
	/* Maximum number of packets in flight. For comparison, cryptd's queue has room for 1000. */
	WINDOW = 1500,
	PAUSE_NS = 1000000,
	/* If no packet arrives for this long, all packets in flight are considered lost. */
	LOST_NS = 500000000,
	SILENCE_S = 5,
	CHUNK = 64 << 10,
	SPINS = 20000,
	/* How long to keep sending packets after each change to the security associations. */
	CARRY_NS = 30000000,
	UNLOAD_S = 30,
	/* Maximum time to wait for a nested section. */
	USE_S = 10,
};

#define SAVES "/sys/module/kiln/parameters/nested_saves"

/* Counters and flags, in memory that all processes share. */
static struct counts {
	volatile bool stop, sent_all, cycled;
	volatile uint64_t sent, received;
	uint64_t reordered, wrong, refused;
	uint64_t chunks, chunks_wrong, rounds, rounds_wrong;
} *counts;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Fills a buffer with the output of SplitMix64, seeded with @seed. */
static void fill(uint8_t *to, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t z = seed += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		z ^= z >> 31;
		memcpy(to + i, &z, len - i < 8 ? len - i : 8);
	}
}

static size_t packet(uint8_t *to, uint32_t number)
{
	const uint32_t hash = number * 2654435761u >> 8;
	const size_t range = number % LONG_EVERY ? SHORTEST : LONGEST - SHORTEST;
	const size_t len = SHORTEST + hash % (range + 1);

	fill(to, len, number);
	memcpy(to, &number, sizeof(number));
	return len;
}

/* Returns the monotonic clock's time in nanoseconds. */
static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void pause_for(uint64_t ns)
{
	struct timespec time;

	time.tv_sec = (time_t)(ns / 1000000000);
	time.tv_nsec = (long)(ns % 1000000000);
	nanosleep(&time, NULL);
}

static int socket_in(const char *namespace)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", namespace);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		fail(path);
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail("socket");
	return fd;
}

struct packets {
	uint8_t bytes[BURST][2048];
	struct iovec vectors[BURST];
	struct mmsghdr headers[BURST];
};

static struct packets *new_packets(void)
{
	struct packets *all = calloc(1, sizeof(*all));

	if (!all)
		fail("calloc");
	for (size_t i = 0; i < BURST; i++) {
		all->vectors[i].iov_base = all->bytes[i];
		all->vectors[i].iov_len = sizeof(all->bytes[i]);
		all->headers[i].msg_hdr.msg_iov = &all->vectors[i];
		all->headers[i].msg_hdr.msg_iovlen = 1;
	}
	return all;
}

static void compare(const uint8_t *found, size_t len)
{
	static uint32_t next;
	uint8_t want[2048];
	uint32_t number;

	counts->received++;
	if (len < SHORTEST) {
		counts->wrong++;
		return;
	}
	memcpy(&number, found, sizeof(number));
	counts->wrong += packet(want, number) != len || memcmp(want, found, len);
	counts->reordered += number < next;
	if (number >= next)
		next = number + 1;
}

static void receive(int fd)
{
	struct packets *all = new_packets();
	int n;

	while (!counts->sent_all || counts->received < counts->sent) {
		n = recvmmsg(fd, all->headers, BURST, MSG_WAITFORONE, NULL);
		if (n < 0 && counts->sent_all)
			break;
		for (int i = 0; i < n; i++)
			compare(all->bytes[i], all->headers[i].msg_len);
	}
	exit(0);
}

static int bound_socket(const char *namespace)
{
	const struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	const struct timeval silence = { .tv_sec = SILENCE_S };
	const int fd = socket_in(namespace), room = 16 << 20;

	if (bind(fd, (const struct sockaddr *)&any, sizeof(any)))
		fail("bind");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	return fd;
}

static void send_burst(int fd, struct packets *all, uint32_t first, unsigned count)
{
	unsigned sent = 0;

	for (unsigned i = 0; i < count; i++)
		all->vectors[i].iov_len = packet(all->bytes[i], first + i);
	while (sent < count) {
		const int n = sendmmsg(fd, all->headers + sent, count - sent, 0);

		/*
		 * The kernel rejects a packet if, for example, the security association is missing.
		 */
		if (n <= 0) {
			counts->refused++;
			sent++;
			continue;
		}
		counts->sent += (unsigned)n;
		sent += (unsigned)n;
	}
}

/* Keeps WINDOW packets in flight. The delays of the namespaces' links determine the pace. */
static void send_all(int fd, const char *address, uint64_t seconds)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	const int room = 16 << 20;
	struct packets *all = new_packets();
	uint64_t begin, arrived = 0, since, lost = 0;
	uint32_t next = 0;

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		fail(address);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	/*
	 * Send a single packet first. Until the neighbours have been resolved, others would be
	 * dropped.
	 */
	send_burst(fd, all, next++, 1);
	pause_for(1000000000);
	begin = since = now();
	while (seconds ? now() - begin < seconds * 1000000000 : !counts->cycled) {
		const uint64_t received = counts->received;

		if (received != arrived) {
			arrived = received;
			since = now();
		} else if (now() - since > LOST_NS) {
			lost = counts->sent - received;
		}
		/* Packets that were considered lost may still arrive. */
		if (lost > counts->sent - received)
			lost = counts->sent - received;
		if (counts->sent - received - lost + BURST > WINDOW) {
			pause_for(PAUSE_NS);
			continue;
		}
		send_burst(fd, all, next, BURST);
		next += BURST;
	}
	exit(0);
}

/*
 * Writes the chunk's number into each sector. All chunks share the same pseudorandom bytes for the
 * rest. This is cheap, so most of the time is spent on the disk.
 */
static void stamp(uint8_t *chunk, uint64_t number)
{
	for (size_t i = 0; i < CHUNK; i += 512)
		memcpy(chunk + i, &number, sizeof(number));
}

/* Writes the whole device, reads it back and compares. Repeats this until the test ends. */
static void write_disk(const char *device)
{
	const int fd = open(device, O_RDWR | O_DIRECT | O_CLOEXEC);
	uint8_t *chunk = aligned_alloc(4096, CHUNK), *want = malloc(CHUNK);
	uint64_t size, seed = 1;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		fail(device);
	fill(want, CHUNK, seed);
	for (;; seed += size / CHUNK) {
		for (uint64_t i = 0; i < size / CHUNK; i++) {
			if (counts->stop)
				exit(0);
			memcpy(chunk, want, CHUNK);
			stamp(chunk, seed + i);
			if (pwrite(fd, chunk, CHUNK, (off_t)(i * CHUNK)) != CHUNK)
				fail("write");
		}
		for (uint64_t i = 0; i < size / CHUNK && !counts->stop; i++) {
			if (pread(fd, chunk, CHUNK, (off_t)(i * CHUNK)) != CHUNK)
				fail("read");
			stamp(want, seed + i);
			counts->chunks++;
			counts->chunks_wrong += !!memcmp(want, chunk, CHUNK);
		}
	}
}

/* Keeps values in vector registers while many instructions execute, then compares them. */
static void hold_registers(void)
{
	uint8_t want[128] __attribute__((aligned(16))), found[128] __attribute__((aligned(16)));

	/* The module's control recognises the program by this name. */
	prctl(PR_SET_NAME, "registers");
	/*
	 * Leave most of the time to the disk. With a lower priority, softirqs would interrupt the
	 * program too rarely for the control to work.
	 */
	errno = 0;
	if (nice(5) < 0 && errno)
		fail("nice");
	for (uint64_t round = 0; !counts->stop; round++) {
		uint64_t spins = SPINS;

		fill(want, sizeof(want), round);
		asm volatile("movdqa (%1), %%xmm0\n\tmovdqa 16(%1), %%xmm1\n\t"
			     "movdqa 32(%1), %%xmm2\n\tmovdqa 48(%1), %%xmm3\n\t"
			     "movdqa 64(%1), %%xmm12\n\tmovdqa 80(%1), %%xmm13\n\t"
			     "movdqa 96(%1), %%xmm14\n\tmovdqa 112(%1), %%xmm15\n"
			     "1:\tdec %0\n\tjnz 1b\n\t"
			     "movdqa %%xmm0, (%2)\n\tmovdqa %%xmm1, 16(%2)\n\t"
			     "movdqa %%xmm2, 32(%2)\n\tmovdqa %%xmm3, 48(%2)\n\t"
			     "movdqa %%xmm12, 64(%2)\n\tmovdqa %%xmm13, 80(%2)\n\t"
			     "movdqa %%xmm14, 96(%2)\n\tmovdqa %%xmm15, 112(%2)"
			     : "+r"(spins)
			     : "r"(want), "r"(found)
			     : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm12", "xmm13",
			       "xmm14", "xmm15");
		counts->rounds++;
		counts->rounds_wrong += !!memcmp(want, found, sizeof(want));
	}
	exit(0);
}

static int status_of(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Returns the module's count of nested saves, or 0 if the module is not loaded. */
static uint64_t read_saves(void)
{
	FILE *file = fopen(SAVES, "re");
	unsigned long long saves = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%llu", &saves) != 1)
		saves = 0;
	fclose(file);
	return saves;
}

/* Runs ip in the namespace with three more arguments. Returns whether it succeeded. */
static bool run_ip(const char *ip, const char *namespace, const char *a, const char *b,
		   const char *c)
{
	const pid_t child = fork();

	if (!child) {
		execl(ip, ip, "-n", namespace, a, b, c, (char *)NULL);
		_exit(1);
	}
	return child > 0 && !status_of(child);
}

/* Sets up the receiver's association first, so that every packet sent can be decrypted. */
static bool associate(const char *ip)
{
	return run_ip(ip, "b", "-batch", "/sa.b", NULL) && run_ip(ip, "a", "-batch", "/sa.a", NULL);
}

static bool dissociate(const char *ip)
{
	return run_ip(ip, "a", "xfrm", "state", "flush") && run_ip(ip, "b", "xfrm", "state", "flush");
}

static bool load(const char *path, const char *parameters)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const bool well = fd >= 0 && !syscall(SYS_finit_module, fd, parameters, 0);

	close(fd);
	return well;
}

/* Unloads the module. Retries, because removed associations release their drivers only later. */
static bool unload(void)
{
	const uint64_t begin = now();

	while (syscall(SYS_delete_module, "kiln", O_NONBLOCK)) {
		if (errno != EAGAIN && errno != EBUSY)
			return false;
		if (now() - begin > UNLOAD_S * 1000000000ull)
			return false;
		pause_for(PAUSE_NS);
	}
	return true;
}

/*
 * Sends packets through the module's drivers until they have opened a nested section. Returns the
 * module's count, or 0 on timeout.
 */
static uint64_t use(void)
{
	const uint64_t begin = now();
	uint64_t saves;

	do
		pause_for(CARRY_NS);
	while (!(saves = read_saves()) && now() - begin < USE_S * 1000000000ull);
	return saves;
}

/* Loads, uses and unloads the module @cycles times. Returns how many cycles succeeded. */
static unsigned cycle(unsigned cycles, const char *ip, const char *path, const char *parameters,
		      uint64_t *saves)
{
	uint64_t used;
	unsigned done;

	for (done = 0; done < cycles; done++) {
		if (!load(path, parameters)) {
			perror("load");
			break;
		}
		if (!dissociate(ip) || !associate(ip)) {
			fprintf(stderr, "ip failed\n");
			break;
		}
		used = use();
		if (!used) {
			fprintf(stderr, "no nested section\n");
			break;
		}
		*saves += used;
		if (!dissociate(ip) || !unload()) {
			perror("unload");
			break;
		}
		if (!associate(ip)) {
			fprintf(stderr, "ip failed\n");
			break;
		}
		pause_for(CARRY_NS);
		printf("cycle %u\n", done + 1);
		fflush(stdout);
	}
	return done;
}

int main(int argc, char **argv)
{
	pid_t receiver, sender, disk, registers;
	uint64_t saves = 0, before, begin;
	unsigned cycles = 0;
	int fd, failed;

	if (argc != 6 && argc != 10) {
		fprintf(stderr, "traffic FROM TO ADDRESS SECONDS DEVICE [CYCLES IP MODULE PARAMETERS]\n");
		return 2;
	}
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		fail("mmap");
	before = read_saves();
	begin = now();
	/* Bind the receiver's socket before any packet is sent. */
	fd = bound_socket(argv[2]);
	receiver = fork();
	if (!receiver)
		receive(fd);
	close(fd);
	disk = fork();
	if (!disk)
		write_disk(argv[5]);
	registers = fork();
	if (!registers)
		hold_registers();
	sender = fork();
	if (!sender)
		send_all(socket_in(argv[1]), argv[3], strtoull(argv[4], NULL, 10));
	if (argc == 10)
		cycles = cycle((unsigned)strtoul(argv[6], NULL, 10), argv[7], argv[8], argv[9], &saves);
	counts->cycled = true;
	failed = status_of(sender);
	counts->sent_all = true;
	failed |= status_of(receiver);
	counts->stop = true;
	failed |= status_of(disk);
	failed |= status_of(registers);
	if (argc == 6)
		saves = read_saves() - before;
	printf("sent %llu received %llu reordered %llu wrong %llu refused %llu chunks %llu "
	       "chunks_wrong %llu rounds %llu rounds_wrong %llu cycles %u saves %llu ms %llu\n",
	       (unsigned long long)counts->sent, (unsigned long long)counts->received,
	       (unsigned long long)counts->reordered, (unsigned long long)counts->wrong,
	       (unsigned long long)counts->refused, (unsigned long long)counts->chunks,
	       (unsigned long long)counts->chunks_wrong, (unsigned long long)counts->rounds,
	       (unsigned long long)counts->rounds_wrong, cycles,
	       (unsigned long long)saves, (unsigned long long)((now() - begin) / 1000000));
	return failed;
}
