// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs a script of requests and records the result of each, to check the behaviour of an
 * asynchronous crypto API as its users see it.
 */
#include <kiln/abi/load.h>
#include <kiln/abi/submission.h>
#include <kiln/context.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/slab.h>
#include <kiln/string.h>

/* A step that lets other tasks run gives up after PATIENCE calls to yield(). */
enum { PATIENCE = 1 << 20, IV = 16 };

struct run;

struct message {
	struct run *run;
	struct message *next;
	void *request;
	u32 number;
	bool owned;		/* the API may still write to this message */
	u8 iv[IV];
	u8 dst[];
};

struct run {
	struct kiln_script *script;
	struct message *messages;
	u32 submitted, answered;
	u32 later;		/* how many of the @answered requests a callback completed */
	u32 awaited;		/* number of callbacks that the steps so far have waited for */
};

static void note(struct run *run, const struct message *m, bool answer, int err)
{
	struct kiln_script *s = run->script;
	const bool off = local_irq_save();
	const u32 i = s->events++;
	struct kiln_script_event *event;

	local_irq_restore(off);
	if (i >= s->max_events)
		return;
	event = &s->event[i];
	event->request = m->number;
	event->answer = answer;
	event->kthread = current->flags & TF_KTHREAD;
	event->wrong = !err && memcmp(m->dst, s->want, s->len);
	event->err = err;
	event->preempt_count = preempt_count();
}

/* Realigns the stack: hosted trees also call this function, with eight-byte alignment only. */
static void __attribute__((force_align_arg_pointer)) take_answer(void *data, int err)
{
	struct message *m = data;

	note(m->run, m, true, err);
	if (err != -EINPROGRESS) {
		m->owned = false;
		m->run->answered++;
		m->run->later++;
	}
}

struct submission {
	struct run *run;
	const struct kiln_step *step;
	struct message *m;
};

static void submit_there(void *arg)
{
	const struct submission *s = arg;
	struct kiln_script *script = s->run->script;
	struct kiln_submission submission = {
		.dst = s->m->dst,
		.src = script->src,
		.iv = s->m->iv,
		.len = script->len,
		.flags = s->step->flags,
		.complete = take_answer,
		.data = s->m,
	};
	int err;

	s->m->owned = true;
	err = script->ops->submit(s->m->request, &submission);
	if (err != -EINPROGRESS && err != -EBUSY) {
		s->m->owned = false;
		s->run->answered++;
	}
	note(s->run, s->m, false, err);
}

static bool submit(struct run *run, const struct kiln_step *step)
{
	struct submission s = { .run = run, .step = step };
	void *tfm = run->script->tfm[step->tfm];

	s.m = kmalloc(sizeof(*s.m) + run->script->len);
	if (!s.m)
		return false;
	s.m->request = run->script->ops->request_alloc(tfm);
	if (!s.m->request) {
		kfree(s.m);
		return false;
	}
	s.m->run = run;
	s.m->number = run->submitted++;
	memcpy(s.m->iv, run->script->iv, IV);
	s.m->next = run->messages;
	run->messages = s.m;
	return run_in_context(step->context, submit_there, &s);
}

static bool let_run(const u32 *answers, u32 until)
{
	u32 turns;

	for (turns = 0; *(volatile const u32 *)answers < until; turns++) {
		if (turns == PATIENCE)
			return false;
		yield();
	}
	return true;
}

static bool take(struct run *run, const struct kiln_step *step)
{
	u32 i;

	switch (step->kind) {
	case KILN_STEP_SUBMIT:
		for (i = 0; i < step->count; i++)
			if (!submit(run, step))
				return false;
		return true;
	case KILN_STEP_RUN:
		/*
		 * Add to the total of the previous steps. Some of the requests may already have
		 * completed, because a tick may have let other tasks run.
		 */
		run->awaited += step->count;
		return let_run(&run->later, run->awaited);
	case KILN_STEP_SECTION_BEGIN:
		kernel_fpu_begin();
		return true;
	case KILN_STEP_SECTION_END:
		kernel_fpu_end();
		return true;
	case KILN_STEP_BH_OFF:
		local_bh_disable();
		return true;
	case KILN_STEP_BH_ON:
		local_bh_enable();
		return true;
	case KILN_STEP_FREE:
		run->script->ops->tfm_free(run->script->tfm[step->tfm]);
		return true;
	default:
		return false;
	}
}

u64 kiln_script(void *arg)
{
	struct kiln_script *s = arg;
	struct run run = { .script = s };
	u32 i;

	s->events = s->stuck = 0;
	for (i = 0; i < s->steps && !s->stuck; i++)
		if (!take(&run, &s->step[i]))
			s->stuck = i + 1;
	/* Do not free incomplete requests, because the API may still write to their memory. */
	if (!let_run(&run.answered, run.submitted) && !s->stuck)
		s->stuck = s->steps + 1;
	while (run.messages) {
		struct message *m = run.messages;

		run.messages = m->next;
		if (m->owned)
			continue;
		s->ops->request_free(m->request);
		kfree(m);
	}
	return s->stuck;
}
