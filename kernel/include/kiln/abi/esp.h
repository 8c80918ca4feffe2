/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The host's interface to load/esp.c and load/replay.c, an ESP packet workload. */
#ifndef KILN_ABI_ESP_H
#define KILN_ABI_ESP_H

#include <kiln/abi/crypto.h>
#include <kiln/types.h>

/* load/replay.c: an anti-replay window (RFC 4303, 3.4.3). Sequence numbers start at 1. */
#define KILN_REPLAY_MAX 4096
struct kiln_replay {
	u32 size;		/* size of the window in packets */
	u64 top;		/* highest sequence number received */
	u64 lost, replayed;	/* packets refused: older than the window; replayed */
	u64 seen[KILN_REPLAY_MAX / 64];
};

KILN_EXPORT void kiln_replay_init(struct kiln_replay *window, u32 size);
/* Records an authentic packet's sequence number. Returns whether the packet is accepted. */
KILN_EXPORT bool kiln_replay_accept(struct kiln_replay *window, u64 seq);

/* Fault injection for tests: each bit makes the window break one of its rules. */
enum kiln_replay_broken {
	KILN_REPLAY_ENDLESS = 1,	/* accept packets older than the window */
	KILN_REPLAY_BLIND = 2,		/* accept packets that were received before */
};

KILN_EXPORT void kiln_replay_break(u32 broken);

/*
 * load/esp.c: softirqs encrypt and decrypt ESP packets while a task encrypts disk sectors. The
 * host provides all memory.
 */
struct kiln_esp_packet {
	const u8 *in;		/* header, IV, text; when decrypting, followed by the ICV */
	const u8 *want;		/* the expected result */
	u32 in_len, want_len;
	u32 payload;		/* bytes that count as received when the packet is accepted */
	u8 iv[16];		/* IV of the crypto request */
};

struct kiln_esp_slot {
	struct kiln_esp_flow *flow;
	struct kiln_esp_slot *next;	/* link in the list of free slots */
	void *request;
	u64 seq;
	u32 packet;
	bool own;		/* the packet was sent by the task, not forwarded */
	struct scatterlist sg;
	u8 iv[16];
	u8 *buffer;
};

enum { KILN_ESP_PHASES = 3 };

/* Packets of one security association in one direction. */
struct kiln_esp_flow {
	void *tfm;
	bool decrypt;
	u32 assoclen;
	const struct kiln_esp_packet *packet;
	u32 packets;
	u32 next;
	struct kiln_esp_slot *slot;
	u32 slots;
	struct kiln_esp_load *load;
	struct kiln_replay window;	/* anti-replay window of the receiver */
	u64 put;			/* sequence numbers used so far */
	u64 done;			/* number of requests completed */
	u64 bytes[KILN_ESP_PHASES];	/* payload bytes that the receiver accepted */
	u64 corrupted, errors, async_punts, dropped, reordered;
	struct kiln_esp_slot *free;
	u32 in_flight;
	u64 answered;			/* highest sequence number completed */
};

/* A packet that arrives at the time @when, in ticks on the load's clock. */
struct kiln_esp_arrival {
	u64 when;
	u32 packet;
	u32 flow;
};

struct kiln_esp_sample {
	u64 when;
	u64 bytes;		/* payload bytes accepted so far */
	u64 arrived, dropped, lost, sectors;
	u32 queued;		/* requests in cryptd's queue */
	u32 waiting;		/* packets that wait in the ring for a softirq */
};

enum { KILN_ESP_RING = 4096 };

struct kiln_esp_load {
	struct kiln_esp_flow flow[2];
	const struct kiln_esp_arrival *arrival;
	u32 arrivals;
	u64 phase_end[KILN_ESP_PHASES];	/* end of each phase in ticks */
	u64 stack;			/* ticks per packet, to emulate the network stack */
	/*
	 * Limits in ticks. If a gap between interrupts is longer than @steal_limit, its excess over
	 * @steal_usual counts as time that the host took away.
	 */
	u64 steal_limit, steal_usual;
	/*
	 * Each call encrypts @ops sectors. After every @own_every sectors, the task sends a packet.
	 */
	void *sectors_tfm;
	const u8 *src, *want;
	u8 *dst;
	const u8 *iv;
	u32 sector_len, sector_count, sector_next;
	u32 own_every;			/* 0: the task sends no packets */
	u64 ops;
	void *sector_request;
	u64 sectors, sectors_corrupted, own_packets;
	struct kiln_esp_sample *sample;
	u32 max_samples;
	u64 sample_every;
	/* The fields from here on are output, except for @log and @max_log. */
	u32 samples;
	bool started, over;
	u64 start, stolen;
	u64 last_irq;
	u32 next_arrival;
	u64 missed;			/* packets that arrived while the ring was full */
	/*
	 * 1 + the number of ticks from the end of the high phase until no packet was waiting; 0 if
	 * this has not happened yet.
	 */
	u64 recovered;
	u32 ring[KILN_ESP_RING];
	u32 ring_head, ring_tail;
	u32 *log;			/* NULL, or sequence numbers of flow 1 by completion */
	u32 max_log, logged;
};

/* Allocates the requests. Called through kiln_gate(). Returns non-zero if out of memory. */
KILN_EXPORT u64 kiln_esp_open(void *load);
KILN_EXPORT u64 kiln_esp_close(void *load);
/*
 * Resets all counts and attaches the load to interrupts. The load's clock starts at the next
 * interrupt.
 */
KILN_EXPORT u64 kiln_esp_attach(void *load);
/* Makes the task encrypt @ops sectors. */
KILN_EXPORT u64 kiln_esp_run(void *load);
/* Stops the arrival of packets and waits until all requests are complete. */
KILN_EXPORT u64 kiln_esp_detach(void *load);
/* Returns how many ticks the task needs to process @ops packets, one by one, with softirqs off. */
KILN_EXPORT u64 kiln_esp_price(void *load);

#endif
