// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An IPsec gateway on one CPU. Packets arrive through network card interrupts. Softirqs decrypt the
 * packets of one security association and encrypt those of another. Meanwhile a task encrypts disk
 * sectors and sends its own packets through the second association.
 */
#include <kiln/abi/crypto.h>
#include <kiln/abi/esp.h>
#include <kiln/cpu.h>
#include <kiln/crypto.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/slab.h>
#include <kiln/string.h>

#include "common.h"

/* BUDGET matches Linux's net_rx_action(): packets beyond it are left for the next softirq. */
enum { SOFTIRQ_NET_RX = 3, BUDGET = 300 };
/* Index of the phase with a high packet rate. */
enum { HIGH = 1 };
/* Index of the flow that the task sends on. */
enum { OUT = 1 };

static u64 now(const struct kiln_esp_load *load)
{
	return rdtsc() - load->start - load->stolen;
}

static u32 phase(const struct kiln_esp_load *load, u64 when)
{
	u32 i = 0;

	while (i < KILN_ESP_PHASES - 1 && when >= load->phase_end[i])
		i++;
	return i;
}

static struct kiln_esp_slot *take(struct kiln_esp_flow *flow)
{
	const bool off = local_irq_save();
	struct kiln_esp_slot *slot = flow->free;

	if (slot) {
		flow->free = slot->next;
		flow->in_flight++;
		slot->seq = ++flow->put;
	}
	local_irq_restore(off);
	return slot;
}

static u32 in_flight(const struct kiln_esp_load *load)
{
	return *(const volatile u32 *)&load->flow[0].in_flight +
	       *(const volatile u32 *)&load->flow[1].in_flight;
}

/* Records the first time after the high phase at which no packet is waiting or in flight. */
static void note_recovery(struct kiln_esp_load *load)
{
	const u64 t = now(load);

	if (!load->recovered && load->started && t >= load->phase_end[HIGH] &&
	    !in_flight(load) && load->ring_head == load->ring_tail)
		load->recovered = t - load->phase_end[HIGH] + 1;
}

static void give_back(struct kiln_esp_slot *slot)
{
	struct kiln_esp_flow *flow = slot->flow;
	const bool off = local_irq_save();

	slot->next = flow->free;
	flow->free = slot;
	flow->in_flight--;
	local_irq_restore(off);
}

/* Updates the counts after a packet has been passed to its receiver. */
static void count_received(struct kiln_esp_slot *slot)
{
	struct kiln_esp_flow *flow = slot->flow;
	struct kiln_esp_load *load = flow->load;
	const bool off = local_irq_save();

	if (slot->seq < flow->answered)
		flow->reordered++;
	else
		flow->answered = slot->seq;
	if (load->log && flow == &load->flow[OUT] && load->logged < load->max_log)
		load->log[load->logged++] = slot->seq;
	if (kiln_replay_accept(&flow->window, slot->seq) && !slot->own)
		flow->bytes[phase(load, now(load))] += flow->packet[slot->packet].payload;
	local_irq_restore(off);
}

static void take_answer(struct kiln_esp_slot *slot, int answer)
{
	struct kiln_esp_flow *flow = slot->flow;
	const struct kiln_esp_packet *packet = &flow->packet[slot->packet];

	flow->done++;
	if (answer) {
		flow->errors++;
		flow->corrupted++;
	} else {
		if (memcmp(slot->buffer, packet->want, packet->want_len))
			flow->corrupted++;
		count_received(slot);
	}
	give_back(slot);
}

static void done(void *data, int answer)
{
	struct kiln_esp_slot *slot = data;
	struct kiln_esp_load *load = slot->flow->load;

	take_answer(slot, answer);
	note_recovery(load);
}

/*
 * Copies the packet into a buffer, as a network card does, and encrypts or decrypts it in place.
 * ESP does not use the crypto API's backlog: if the queue is full, the packet is dropped.
 */
static void put(struct kiln_esp_flow *flow, u32 i, bool own)
{
	const struct kiln_esp_packet *packet = &flow->packet[i];
	struct kiln_esp_slot *slot = take(flow);
	struct crypto_request *req;
	int err;

	if (!slot) {
		flow->dropped++;
		return;
	}
	slot->packet = i;
	slot->own = own;
	memcpy(slot->buffer, packet->in, packet->in_len);
	memcpy(slot->iv, packet->iv, sizeof(slot->iv));
	sg_init_one(&slot->sg, slot->buffer,
		    flow->decrypt ? packet->in_len : packet->want_len);
	req = slot->request;
	crypto_request_set_callback(req, 0, done, slot);
	crypto_request_set_crypt(req, &slot->sg, &slot->sg, packet->in_len - flow->assoclen,
				 slot->iv);
	req->assoclen = flow->assoclen;
	err = flow->decrypt ? crypto_decrypt(req) : crypto_encrypt(req);
	switch (err) {
	case -EINPROGRESS:
		flow->async_punts++;
		break;
	case -ENOSPC:
		flow->dropped++;
		give_back(slot);
		break;
	default:
		take_answer(slot, err);
	}
}

static void put_next(struct kiln_esp_flow *flow, bool own)
{
	put(flow, take_turn(&flow->next, flow->packets), own);
}

/* Emulates the network card: puts the packets that have arrived by now into the ring. */
static void card(struct kiln_esp_load *load)
{
	const bool off = local_irq_save();
	const u64 t = now(load);

	while (load->next_arrival < load->arrivals &&
	       load->arrival[load->next_arrival].when <= t) {
		if (load->ring_tail - load->ring_head == KILN_ESP_RING)
			load->missed++;
		else
			load->ring[load->ring_tail++ % KILN_ESP_RING] =
				load->next_arrival;
		load->next_arrival++;
	}
	local_irq_restore(off);
}

/* Spins for the time that the rest of the network stack would take. */
static void route(const struct kiln_esp_load *load)
{
	const u64 start = rdtsc();

	while (rdtsc() - start < load->stack)
		__asm__ volatile("pause");
}

static void net_rx(struct cpu *cpu)
{
	struct kiln_esp_load *load = cpu->irq_data;
	u32 budget = BUDGET;

	while (budget && *(volatile u32 *)&load->ring_tail != load->ring_head) {
		const struct kiln_esp_arrival *a =
			&load->arrival[load->ring[load->ring_head % KILN_ESP_RING]];

		load->ring_head++;
		budget--;
		if (load->stack)
			route(load);
		put(&load->flow[a->flow], a->packet, false);
	}
	card(load);
	if (load->ring_tail != load->ring_head)
		raise_softirq(SOFTIRQ_NET_RX);
	note_recovery(load);
}

static u64 accepted_bytes(const struct kiln_esp_flow *flow)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < KILN_ESP_PHASES; i++)
		sum += flow->bytes[i];
	return sum;
}

static void sample(struct kiln_esp_load *load, u64 when)
{
	const struct kiln_esp_flow *f = load->flow;
	struct kiln_esp_sample *s;

	if (load->samples == load->max_samples || when < load->samples * load->sample_every)
		return;
	s = &load->sample[load->samples++];
	s->when = when;
	s->bytes = accepted_bytes(&f[0]) + accepted_bytes(&f[1]);
	s->arrived = load->next_arrival;
	s->dropped = f[0].dropped + f[1].dropped;
	s->lost = f[0].window.lost + f[1].window.lost;
	s->sectors = load->sectors;
	s->queued = cryptd_queue_length();
	s->waiting = load->ring_tail - load->ring_head;
}

static void esp_hardirq(struct cpu *cpu)
{
	struct kiln_esp_load *load = cpu->irq_data;
	u64 t;

	if (!load->started) {
		load->started = true;
		load->start = load->last_irq = cpu->irq_time;
	}
	/*
	 * The emulated CPU stops while the host runs other processes, so the card's clock must
	 * stop, too.
	 */
	if (cpu->irq_time - load->last_irq > load->steal_limit)
		load->stolen += cpu->irq_time - load->last_irq - load->steal_usual;
	load->last_irq = cpu->irq_time;
	t = now(load);
	sample(load, t);
	card(load);
	if (load->ring_tail != load->ring_head)
		raise_softirq(SOFTIRQ_NET_RX);
	else
		note_recovery(load);
	if (t >= load->phase_end[KILN_ESP_PHASES - 1])
		load->over = true;
}

static void sector(struct kiln_esp_load *load)
{
	const u32 i = take_turn(&load->sector_next, load->sector_count);
	const size_t offset = (size_t)i * load->sector_len;
	struct crypto_request *req = load->sector_request;
	struct crypto_wait wait = { 0 };
	struct scatterlist src, dst;
	u8 iv[16];
	int err;

	memcpy(iv, load->iv + 16 * i, sizeof(iv));
	sg_init_one(&src, (u8 *)load->src + offset, load->sector_len);
	sg_init_one(&dst, load->dst + offset, load->sector_len);
	crypto_request_set_callback(req, CRYPTO_TFM_REQ_MAY_SLEEP |
				    CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done, &wait);
	crypto_request_set_crypt(req, &src, &dst, load->sector_len, iv);
	err = crypto_wait_req(crypto_encrypt(req), &wait);
	load->sectors++;
	if (err || memcmp(load->dst + offset, load->want + offset, load->sector_len))
		load->sectors_corrupted++;
	/* Invalidate the result, so that a stale one cannot pass the next check. */
	load->dst[offset] = ~load->want[offset];
}

u64 kiln_esp_run(void *arg)
{
	struct kiln_esp_load *load = arg;
	u64 n;

	for (n = 0; n < load->ops; n++) {
		sector(load);
		if (load->own_every && load->sectors % load->own_every == 0) {
			put_next(&load->flow[OUT], true);
			load->own_packets++;
		}
		cond_resched();
	}
	return 0;
}

u64 kiln_esp_close(void *arg)
{
	struct kiln_esp_load *load = arg;
	u32 f, i;

	kfree(load->sector_request);
	load->sector_request = NULL;
	for (f = 0; f < ARRAY_SIZE(load->flow); f++) {
		for (i = 0; i < load->flow[f].slots; i++) {
			kfree(load->flow[f].slot[i].request);
			load->flow[f].slot[i].request = NULL;
		}
	}
	return 0;
}

u64 kiln_esp_open(void *arg)
{
	struct kiln_esp_load *load = arg;
	bool full;
	u32 f, i;

	load->sector_request = crypto_request_alloc(load->sectors_tfm, 0);
	full = !load->sector_request;
	for (f = 0; f < ARRAY_SIZE(load->flow); f++) {
		struct kiln_esp_flow *flow = &load->flow[f];

		flow->load = load;
		flow->free = NULL;
		for (i = 0; i < flow->slots && !full; i++) {
			struct kiln_esp_slot *slot = &flow->slot[i];

			slot->flow = flow;
			slot->request = crypto_request_alloc(flow->tfm, 0);
			slot->next = flow->free;
			flow->free = slot;
			full = !slot->request;
		}
	}
	if (full)
		kiln_esp_close(load);
	return full;
}

static void reset_counts(struct kiln_esp_load *load)
{
	u32 f;

	for (f = 0; f < ARRAY_SIZE(load->flow); f++) {
		struct kiln_esp_flow *flow = &load->flow[f];

		kiln_replay_init(&flow->window, flow->window.size);
		flow->put = flow->answered = flow->done = 0;
		flow->corrupted = flow->errors = flow->async_punts = 0;
		flow->dropped = flow->reordered = 0;
		memset(flow->bytes, 0, sizeof(flow->bytes));
	}
	load->started = load->over = false;
	load->start = load->stolen = load->missed = load->recovered = 0;
	load->samples = load->next_arrival = load->logged = 0;
	load->ring_head = load->ring_tail = 0;
	load->sectors = load->sectors_corrupted = load->own_packets = 0;
}

u64 kiln_esp_attach(void *arg)
{
	struct kiln_esp_load *load = arg;
	struct cpu *cpu = this_cpu();

	reset_counts(load);
	cpu->last_irq = rdtsc();
	cpu->steal_limit = load->steal_limit;
	irq_attach(load, SOFTIRQ_NET_RX, net_rx, esp_hardirq);
	return 0;
}

u64 kiln_esp_detach(void *arg)
{
	struct kiln_esp_load *load = arg;

	this_cpu()->steal_limit = 0;
	irq_detach();
	while (in_flight(load))
		yield();
	note_recovery(load);
	return 0;
}

u64 kiln_esp_price(void *arg)
{
	struct kiln_esp_load *load = arg;
	u64 start, took, n;

	reset_counts(load);
	local_bh_disable();
	start = rdtsc();
	for (n = 0; n < load->ops; n++)
		put_next(&load->flow[n % 2], false);
	took = rdtsc() - start;
	local_bh_enable();
	return took;
}
