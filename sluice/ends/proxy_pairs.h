/* Connections: a client's end and a server's, and the bytes that pass between them. */
#ifndef SLUICE_PROXY_PAIRS_H
#define SLUICE_PROXY_PAIRS_H

#include "proxy_sockets.h"

static void unlink_pair(struct pair *pair) {
    pair->older->newer = pair->newer;
    pair->newer->older = pair->older;
}

/* Makes it the one that was used last. */
static void link_pair(struct pair *pair) {
    pair->used = proxy.now;
    pair->older = proxy.oldest_newest.older;
    pair->newer = &proxy.oldest_newest;
    pair->older->newer = pair->newer->older = pair;
}

/* Its memory remains until the events of this iteration are handled. reset: the ends get a reset. */
static void end_pair(struct pair *pair, bool reset) {
    if (pair->dead)
        return;
    for (unsigned i = 0; i < 2; i++) {
        if (reset)
            setsockopt(pair->end[i].socket, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        close(pair->end[i].socket);
        free(pair->end[i].held);
    }
    unlink_pair(pair);
    pair->dead = true;
    pair->newer = proxy.dead;
    proxy.dead = pair;
    proxy.open--;
}

/* An end that waits for the other one is not watched, as EPOLLHUP is reported whether it is requested or not, and again
 * and again: both ends may have sent all they have while bytes for one of them wait for room. */
static bool watch(struct end *end, uint32_t events) {
    if (end->watched == events)
        return true;
    struct epoll_event event = {.events = events, .data.ptr = end};
    int how = !end->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    end->watched = events;
    return epoll_ctl(proxy.events, how, end->socket, &event) == 0;
}

/* Subscribes to the events of both ends that the pair needs next. */
static bool watch_both(struct pair *pair) {
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &pair->end[i], *other = &pair->end[!i];
        bool reads = !end->read_end && !other->held && !other->connecting && !end->connecting;
        bool writes = end->held || end->connecting;
        if (!watch(end, (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u)))
            return false;
    }
    return true;
}

static bool would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

/* Passes bytes from one end to the other; false where the connection is to end by a reset. */
static bool pass(struct end *from, struct end *to) {
    uint64_t *passed = from == &from->pair->end[0] ? &proxy.bytes_to_server : &proxy.bytes_to_client;
    if (to->held) {
        ssize_t sent = send(to->socket, to->held + to->from, to->to - to->from, MSG_NOSIGNAL);
        if (sent < 0)
            return would_block();
        to->from += (uint32_t)sent;
        if (to->from < to->to)
            return true;
        free(to->held);
        to->held = NULL;
    }
    for (unsigned round = 0; round < ROUNDS && !from->read_end; round++) {
        ssize_t got = recv(from->socket, proxy.bytes, CHUNK, 0);
        if (got < 0)
            return would_block();
        from->read_end = got == 0;
        *passed += (uint64_t)got;
        ssize_t sent = got ? send(to->socket, proxy.bytes, (size_t)got, MSG_NOSIGNAL) : 0;
        if (sent < 0 && !would_block())
            return false;
        sent = sent < 0 ? 0 : sent;
        if (sent < got) {
            to->from = 0;
            to->to = (uint32_t)(got - sent);
            to->held = malloc(to->to);
            if (!to->held)
                return false;
            memcpy(to->held, proxy.bytes + sent, to->to);
            return true;
        }
        if (got < CHUNK)
            break;   /* the next event reports further data */
    }
    if (from->read_end && !to->write_end) {
        to->write_end = true;
        shutdown(to->socket, SHUT_WR);
    }
    return true;
}

static void handle(struct end *end, uint32_t events) {
    struct pair *pair = end->pair;
    if (pair->dead)
        return;
    unlink_pair(pair);
    link_pair(pair);
    struct end *other = end == &pair->end[0] ? &pair->end[1] : &pair->end[0];
    if (end->connecting) {
        int wrong = 0;
        socklen_t length = sizeof wrong;
        getsockopt(end->socket, SOL_SOCKET, SO_ERROR, &wrong, &length);
        if (wrong) {
            proxy.refused++;
            end_pair(pair, true);
            return;
        }
        end->connecting = false;
    } else if (events & EPOLLERR) {
        end_pair(pair, true);
        return;
    }
    bool good = other->connecting || pass(end, other);
    if (good && !end->connecting && (end->held || events & EPOLLOUT))
        good = pass(other, end);
    bool done = pair->end[0].write_end && pair->end[1].write_end && !pair->end[0].held && !pair->end[1].held;
    if (!good || done || !watch_both(pair))
        end_pair(pair, !done);
}

static void end_idle(void) {
    while (proxy.idle && proxy.open && proxy.oldest_newest.newer->used + proxy.idle <= proxy.now) {
        proxy.idle_ended++;
        end_pair(proxy.oldest_newest.newer, true);
    }
}

#endif
