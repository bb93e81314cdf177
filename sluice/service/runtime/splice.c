/* Bodies that nothing reads pass from one connection to the other in the kernel, through a pipe. */
#define _GNU_SOURCE 1 /* splice, pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "message.h"
#include "worker.h"

enum { AT_ONCE = 1 << 20 }; /* bytes that are moved in a row */

static struct service_pipe *pipe_of(const struct service_channel *c)
{
    return &service_lane_of(c)->worker->pipes[c->pipe - 1];
}

/* A pipe of the worker of a channel. Null if all are in use, or none can be made. */
static struct service_pipe *take(struct service_channel *c)
{
    struct service_worker *worker = service_lane_of(c)->worker;
    struct service_pipe *found = worker->pipes_free;

    if (!found || (found->ends[0] < 0 && pipe2(found->ends, O_NONBLOCK | O_CLOEXEC) != 0))
        return NULL;
    worker->pipes_free = found->next;
    found->held = 0;
    return found;
}

void service_pipe_give(struct service_channel *c)
{
    struct service_worker *worker = service_lane_of(c)->worker;
    struct service_pipe *pipe = pipe_of(c);

    c->pipe = 0;
    if (pipe->held) { /* of a connection that has ended: no other may get these bytes */
        close(pipe->ends[0]);
        close(pipe->ends[1]);
        pipe->ends[0] = pipe->ends[1] = -1;
    }
    pipe->next = worker->pipes_free;
    worker->pipes_free = pipe;
}

bool service_io_splices(struct service_channel *c)
{
    uint32_t least = service_lane_of(c)->config->splice;
    struct service_pipe *found;

    if (c->pipe)
        return true;
    if (!least || c->fd < 0 || c->copies || c->cached || !c->to || c->to->fd < 0 || c->to->cached || c->secure || c->to->secure ||
        c->stream || c->to->stream || c->taken ||
         c->passing < (uint64_t)service_buffer_held(c->in) + least)
        return false;
    if (c->in || c->to->out || c->link != SERVICE_OPEN || c->to->link != SERVICE_OPEN)
        return true; /* as soon as the bytes before are sent */
    found = take(c);
    c->pipe = found ? (uint8_t)(found - service_lane_of(c)->worker->pipes + 1) : 0;
    c->copies = !c->pipe;
    if (c->copies)
        service_count(c->instance, SERVICE_NO_PIPE, 1);
    return c->pipe;
}

/* From the connection into the pipe. False if the connection is broken. */
static bool draw(struct service_channel *c)
{
    struct service_pipe *pipe = pipe_of(c);
    uint64_t left = c->passing - pipe->held;
    ssize_t got;

    if (!c->readable || !left)
        return true;
    got = splice(c->fd, NULL, pipe->ends[1], NULL, left < AT_ONCE ? left : AT_ONCE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (got > 0) {
        pipe->held += (uint32_t)got;
        c->due_since = c->instance->core->now;
        c->instance->progressed = true;
        service_count(c->instance, SERVICE_BYTES_IN, (uint64_t)got);
    } else if (got == 0) {
        c->readable = false;
        c->in_ended = true;
        c->instance->progressed = true;
    } else if (errno == EAGAIN) {
        if (pipe->held == 0) /* else the pipe may be full */
            c->readable = false;
    } else if (errno != EINTR) {
        service_fail(c->instance, SERVICE_RESET);
        return false;
    }
    return true;
}

/* From the pipe to the connection. False if that is broken. */
static bool pour(struct service_channel *c)
{
    struct service_pipe *pipe = pipe_of(c);
    struct service_channel *to = c->to;
    ssize_t sent;

    if (!pipe->held || !to->writable)
        return true;
    sent = splice(pipe->ends[0], NULL, to->fd, NULL, pipe->held,
                  SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (c->passing > pipe->held ? SPLICE_F_MORE : 0));
    if (sent > 0) {
        pipe->held -= (uint32_t)sent;
        c->passing -= (uint64_t)sent;
        service_moved(&c->pass_bytes, (uint64_t)sent);
        service_moved(&to->out_bytes, (uint64_t)sent);
        if (c->instance->core->log)
            service_log_moved(to, (uint64_t)sent);
        if (!pipe->held)
            to->out_since = 0;
        c->instance->progressed = true;
        service_count(c->instance, SERVICE_BYTES_SPLICED, (uint64_t)sent);
        service_count(c->instance, SERVICE_BYTES_OUT, (uint64_t)sent);
    } else if (sent < 0 && errno == EAGAIN) {
        service_blocked(to);
    } else if (sent < 0 && errno != EINTR && !service_socket_answered(to)) {
        service_fail(c->instance, SERVICE_RESET);
        return false;
    }
    return true;
}

bool service_io_splice(struct service_channel *c)
{
    struct service_pipe *pipe = pipe_of(c);
    uint64_t passing;
    uint32_t held;

    do {
        passing = c->passing;
        held = pipe->held;
        if (!draw(c) || !pour(c))
            return false;
        if (!c->passing) {
            service_pipe_give(c);
            return true;
        }
    } while ((passing != c->passing || held != pipe->held) && !service_slice_over(c->instance->core));
    return true;
}

uint32_t service_io_piped(const struct service_channel *c) { return c->pipe ? pipe_of(c)->held : 0; }
