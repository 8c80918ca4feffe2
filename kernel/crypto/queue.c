// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A request queue with a length limit. A request beyond the limit joins a backlog if it may wait;
 * otherwise it is rejected.
 */
#include <kiln/crypto.h>

int crypto_enqueue_request(struct crypto_queue *queue, struct crypto_request *req)
{
	int err = -EINPROGRESS;

	if (queue->qlen >= queue->max_qlen) {
		if (!(req->flags & CRYPTO_TFM_REQ_MAY_BACKLOG))
			return -ENOSPC;
		err = -EBUSY;
		if (!queue->backlog)
			queue->backlog = req;
	}
	queue->qlen++;
	req->next = NULL;
	req->prev = queue->tail;
	if (queue->tail)
		queue->tail->next = req;
	else
		queue->head = req;
	queue->tail = req;
	return err;
}

/* Removes the first request. The first backlogged request, if any, then enters the queue. */
struct crypto_request *crypto_dequeue_request(struct crypto_queue *queue)
{
	struct crypto_request *req = queue->head;

	if (!req)
		return NULL;
	queue->qlen--;
	if (queue->backlog)
		queue->backlog = queue->backlog->next;
	queue->head = req->next;
	if (queue->head)
		queue->head->prev = NULL;
	else
		queue->tail = NULL;
	return req;
}
