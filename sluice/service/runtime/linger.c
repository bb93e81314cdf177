#define _GNU_SOURCE 1 /* strptime */
/* A client whose request is malformed, or is answered by a backend before its end, may still be sending then. If the connection
 * were closed at once, what comes after would reset it, and the client could lose the answer (RFC 9112, section 9.6). So the
 * connection is shut, and what comes is dropped for a while.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "http_date.h"
#include "linger.h"
#include "message.h"
#include "tls.h"

enum {
    MOST = 1 << 20, /* bytes that are dropped */
    AT_ONCE = 16    /* reads in a turn */
};

static struct service_channel *client_of(const struct service_instance *self)
{
    return service_port((struct service_instance *)self, ((struct service_lane *)self->core)->config->listen_port);
}

/* Whether a client of HTTP has all that was sent to it: there is room for an answer. */
static bool is_served(const struct service_instance *self)
{
    const struct service_channel *c;

    if (self->h2 || self->begins)
        return false;
    c = client_of(self);
    if (!self->core->program->ports[c->port].web || c->link != SERVICE_OPEN || c->from || c->out)
        return false;
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (self->channels[i].to == c)
            return false;
    return true;
}

/* Whether the answer to a malformed request is the next that is due. */
static bool has_turn(const struct service_instance *self)
{
    const struct service_channel *c = client_of(self);

    if (self->fault != SERVICE_BAD_MESSAGE || c->out_ending || service_transit(c))
        return false;
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (self->channels[i].sent > self->channels[i].received)
            return false;
    return true;
}

/* Whether the client has all of the answer to a request whose rest its backend does not take any more. */
static bool was_answered(const struct service_instance *self)
{
    const struct service_channel *c = client_of(self);

    return (self->fault == SERVICE_RESET || self->fault == SERVICE_BACKEND_CLOSED) && !c->out_ended && service_transit(c) && c->to &&
           c->to->received >= c->to->sent;
}

/* Sends the answer to a malformed request. False if it cannot be sent as a whole. */
static bool refuse(struct service_channel *c)
{
    char answer[128];
    int size =
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 400 Bad Request\r\nDate: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", service_date_now());

    return service_socket_give(c, answer, (size_t)size) == size;
}

bool service_linger_begin(struct service_instance *self)
{
    struct service_channel *c = client_of(self);

    if (!is_served(self) || !(was_answered(self) || (has_turn(self) && refuse(c))))
        return false;
    if (c->secure)
        service_tls_shut(c);
    shutdown(c->fd, SHUT_WR);
    for (uint32_t i = 0; i < self->channel_count; i++)
        if (&self->channels[i] != c)
            service_io_close(&self->channels[i]);
    if (c->in)
        service_buffer_give(&self->core->buffers, c->in);
    c->in = NULL;
    self->fault = 0;
    self->lingers = true;
    self->since = self->core->now;
    self->dropped = 0;
    return true;
}

enum service_life service_linger_turn(struct service_instance *self)
{
    int fd = client_of(self)->fd;
    uint8_t bytes[4096];

    for (int i = 0; i < AT_ONCE; i++) {
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return SERVICE_ASLEEP;
        self->dropped += got > 0 ? (uint32_t)got : 0;
        if (got <= 0 || self->dropped > MOST)
            return SERVICE_DEAD;
    }
    return SERVICE_AGAIN;
}

bool service_linger_over(const struct service_instance *self)
{
    return self->lingers && self->core->now - self->since > SERVICE_LINGER;
}
