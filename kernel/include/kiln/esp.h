/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What crosses the border for loads of ESP packets. */
#ifndef KILN_ESP_H
#define KILN_ESP_H

#include <kiln/kiln.h>

/* load/replay.c: an anti-replay window (RFC 4303, 3.4.3). Sequence numbers begin with 1. */
#define KILN_REPLAY_MAX 4096
struct kiln_replay {
	u32 size;		/* numbers in the window */
	u64 top;		/* the highest that has come */
	u64 lost, replayed;	/* refused: older than the window; come before */
	u64 seen[KILN_REPLAY_MAX / 64];
};

KILN_EXPORT void kiln_replay_init(struct kiln_replay *window, u32 size);
/* Whether a packet of this number, which is authentic, is taken. */
KILN_EXPORT bool kiln_replay_accept(struct kiln_replay *window, u64 seq);

/* Controls: what the window does not refuse from now on. */
enum kiln_replay_broken {
	KILN_REPLAY_ENDLESS = 1,	/* what is older than it */
	KILN_REPLAY_BLIND = 2,		/* what has come before */
};

KILN_EXPORT void kiln_replay_break(u32 broken);

/*
 * load/esp.c: ESP packets that softirqs en- and decrypt over a task that encrypts disk
 * sectors. The host gives all memory.
 */
struct kiln_esp_packet {
	const u8 *in;		/* header, IV, text; with ICV when decrypting */
	const u8 *want;		/* what becomes of it */
	u32 in_len, want_len;
	u32 payload;		/* bytes that somebody sent */
	u8 iv[16];		/* of the request */
};

struct kiln_esp_slot {
	struct kiln_esp_flow *flow;
	struct kiln_esp_slot *next;	/* of those that are free */
	void *request;
	u64 seq;
	u32 packet;
	bool own;		/* of the task's */
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
	struct kiln_replay window;	/* the receiver's */
	u64 put;			/* sequence numbers given */
	u64 done;			/* answers */
	u64 bytes[KILN_ESP_PHASES];	/* payload that arrived and was taken by the receiver */
	u64 corrupted, errors, async_punts, dropped, reordered;
	struct kiln_esp_slot *free;
	u32 in_flight;
	u64 answered;			/* highest number */
};

/* When a packet arrives: ticks of the load's clock. */
struct kiln_esp_arrival {
	u64 when;
	u32 packet;
	u32 flow;
};

struct kiln_esp_sample {
	u64 when;
	u64 bytes;		/* payload taken so far */
	u64 arrived, dropped, lost, sectors;
	u32 queued;		/* requests that wait for cryptd */
	u32 waiting;		/* packets that wait for a softirq */
};

enum { KILN_ESP_RING = 4096 };

struct kiln_esp_load {
	struct kiln_esp_flow flow[2];
	const struct kiln_esp_arrival *arrival;
	u32 arrivals;
	u64 phase_end[KILN_ESP_PHASES];	/* ticks */
	u64 stack;			/* ticks that each packet takes before it is a request */
	u64 steal_limit, steal_usual;	/* a longer gap between interrupts is the host's */
	/* The task: so many sectors a call, and a packet of its own after each so many. */
	void *sectors_tfm;
	const u8 *src, *want;
	u8 *dst;
	const u8 *iv;
	u32 sector_len, sector_count, sector_next;
	u32 own_every;			/* 0: none */
	u64 ops;
	void *sector_request;
	u64 sectors, sectors_corrupted, own_packets;
	struct kiln_esp_sample *sample;
	u32 max_samples;
	u64 sample_every;
	/* Out. */
	u32 samples;
	bool started, over;
	u64 start, stolen;
	u64 last_irq;
	u32 next_arrival;
	u64 missed;			/* arrived when the ring was full */
	u64 recovered;			/* ticks after the high phase at which nothing waited; 0: not yet */
	u32 ring[KILN_ESP_RING];
	u32 ring_head, ring_tail;
	u32 *log;			/* numbers of flow 1 in the order of their answers, or NULL */
	u32 max_log, logged;
};

/* For kiln_gate(). Non-zero: no memory for requests. */
KILN_EXPORT u64 kiln_esp_open(void *load);
KILN_EXPORT u64 kiln_esp_close(void *load);
/* From zero, with the clock at zero at the next interrupt. */
KILN_EXPORT u64 kiln_esp_attach(void *load);
/* @ops sectors of the task. */
KILN_EXPORT u64 kiln_esp_run(void *load);
/* No more packets; wait for all answers. */
KILN_EXPORT u64 kiln_esp_detach(void *load);
/* So many packets (@ops), one after the other, by the task with softirqs off: ticks they took. */
KILN_EXPORT u64 kiln_esp_price(void *load);

#endif
