#define _GNU_SOURCE
#include "driver/isolated_worker.h"

#include "driver/crash.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* What a worker's process does for its caller: it says what it is about to do, what it has done, and where it crashed. */

static struct sl_worker *own;   /* the worker whose process this is */

/* Everything that a fault may have spoilt is read last: another fault ends the process at once. */
static void crashed(int number)
{
    struct sl_worker_state *state = own->state;
    const struct sl_box *box = own->box;
    signal(number, SIG_DFL);
    /* boxes that translate arriving packets process each in a group of its own */
    state->at = box->arrival ? box->output.place : box->lookahead.packet;
    state->function = box->calling;
    state->packet = box->number;
    state->signal = number;
    const struct sl_event *event = box->calling ? box->called : NULL;
    if (event && event->layer) {
        strncpy(state->layer, event->layer->name, sizeof state->layer - 1);
        state->flow = event->owner ? sl_event_number(event) : 0;
    }
    state->created = box->created;
    raise(number);   /* a core file */
}

void sl_isolation_run(const struct sl_worker *worker, uint32_t entries, bool is_packets)
{
    struct sl_worker_state *state = worker->state;
    state->run = 0;   /* nothing is taken until all of it is written */
    __atomic_store_n(&state->mark, state->mark & 1, __ATOMIC_RELEASE);
    state->begin = worker->ring->common->taken;
    state->is_packets = is_packets;
    __atomic_store_n(&state->run, entries, __ATOMIC_RELEASE);
}

void sl_isolation_ends(const struct sl_worker *worker) { worker->state->ends = 1; }

static void share_text(char *to, const char *text)
{
    if (to != text)
        snprintf(to, SL_ISOLATED_TEXT, "%s", text ? text : "");
}

void sl_isolation_publish(const struct sl_worker *worker, uint32_t done)
{
    const struct sl_isolation *isolation = worker->workers->isolation;
    struct sl_worker_state *state = worker->state;
    const struct sl_box *box = worker->box;
    uint64_t mark = ((uint64_t)done << 1) | (~state->mark & 1);
    uint64_t *counters = sl_isolated_counters(isolation, state, mark);
    memcpy(counters, box->counters, isolation->counter_count * sizeof *counters);
    counters += isolation->counter_count;
    for (uint32_t i = 0; i < isolation->function_count; counters += isolation->function_counters[i++])
        if (isolation->function_counters[i] && box->function_counters[i])
            memcpy(counters, box->function_counters[i], isolation->function_counters[i] * sizeof *counters);
    state->created = box->created;
    state->no_port = worker->drive.no_port;
    state->no_checksum = worker->drive.no_checksum;
    state->unseen_fault = worker->drive.unseen_fault;
    memcpy(state->failure, box->failure, sizeof state->failure);
    for (uint32_t i = 0; i < box->report_count; i++) {
        share_text(state->reports[i].name, box->reports[i].name);
        share_text(state->reports[i].function, box->reports[i].function);
        state->reports[i].value = box->reports[i].value;
    }
    state->report_count = box->report_count;
    memcpy(state->refused, box->refused, sizeof state->refused);
    state->refused_count = box->refused_count;
    __atomic_store_n(&state->mark, mark, __ATOMIC_RELEASE);
}

void sl_isolation_ended(const struct sl_worker *worker)
{
    sl_isolation_publish(worker, 0);
    __atomic_store_n(&worker->state->done, 1, __ATOMIC_RELEASE);
}

/* What the other workers use is not mapped in this process, so that no fault of a function reaches it. */
static void leave_to_others(const struct sl_worker *worker)
{
    const struct sl_workers *workers = worker->workers;
    for (uint32_t i = 0; i < workers->count; i++) {
        if (i == worker->number)
            continue;
        munmap(workers->isolation->states[i], workers->isolation->state_size);
        if (workers->threads[i].ring)   /* those after this one have none when it is started first */
            munmap(workers->threads[i].ring->common, SL_ISOLATED_RING_SIZE);
    }
}

void sl_isolated_begin(struct sl_worker *worker)
{
    static uint8_t stack[SL_FAULT_STACK];
    own = worker;
    leave_to_others(worker);
    sl_faults_handle(crashed, NULL);
    sl_faults_unblock(stack);
}
