/* Connections that move to another proxy: their state in the kernel's TCP is read and set by TCP_REPAIR (tcp(7); Linux 3.5,
 * with windows 4.8), as CRIU does. A socket that is closed in this mode sends nothing. No packet may arrive in between: the
 * kernel would answer with a reset.
 *
 * The file has a head, and for each connection both ends: a struct moved_end, then the bytes that were received and not
 * read, those that were sent and not acknowledged, and those that are still to be sent. */
#ifndef SLUICE_PROXY_REPAIR_H
#define SLUICE_PROXY_REPAIR_H

#include "proxy_pairs.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

enum { MOVED_MAGIC = 0x736c7470, MOVED_MOST = 64 << 20 /* bytes of each kind */ };

struct moved_head { uint32_t magic, size; };

struct moved_end {
    union address local, peer;
    uint32_t sent, received;              /* the numbers after all bytes of both queues */
    uint32_t unread, unacknowledged, unsent;
    uint32_t stamp, mss;
    uint8_t options, send_scale, receive_scale, windowed;
    struct tcp_repair_window window;
};

static bool set_repair(int socket, int option, int value) {
    return setsockopt(socket, IPPROTO_TCP, option, &value, sizeof value) == 0;
}

static bool get_repair(int socket, int option, void *value, socklen_t size) {
    return getsockopt(socket, IPPROTO_TCP, option, value, &size) == 0;
}

/* --- saving --- */

/* Appends bytes of a queue, which remain in it. */
static bool save_queue(FILE *out, int socket, int queue, uint32_t count) {
    char *bytes = malloc(count + 1u);
    bool done = bytes && set_repair(socket, TCP_REPAIR_QUEUE, queue) &&
                (!count || recv(socket, bytes, count, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)count) &&
                fwrite(bytes, 1, count, out) == count;
    free(bytes);
    return done;
}

/* Writes the state of an end. False: it is not open in both directions, or cannot be read. */
static bool save_end(FILE *out, const struct end *end) {
    struct moved_end moved = {.windowed = 1};
    struct tcp_info info;
    socklen_t local = sizeof moved.local, peer = sizeof moved.peer;
    int socket = end->socket, unread, unacknowledged, unsent;
    if (end->connecting || end->read_end || end->write_end || !set_repair(socket, TCP_REPAIR, 1) ||
        !get_repair(socket, TCP_INFO, &info, sizeof info) || info.tcpi_state != TCP_ESTABLISHED ||
        getsockname(socket, &moved.local.any, &local) || getpeername(socket, &moved.peer.any, &peer) ||
        ioctl(socket, SIOCINQ, &unread) || ioctl(socket, SIOCOUTQ, &unacknowledged) || ioctl(socket, SIOCOUTQNSD, &unsent) ||
        !get_repair(socket, TCP_TIMESTAMP, &moved.stamp, sizeof moved.stamp) ||
        !get_repair(socket, TCP_MAXSEG, &moved.mss, sizeof moved.mss) ||
        !set_repair(socket, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE) || !get_repair(socket, TCP_QUEUE_SEQ, &moved.received, 4) ||
        !set_repair(socket, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE) || !get_repair(socket, TCP_QUEUE_SEQ, &moved.sent, 4))
        return false;
    moved.windowed = get_repair(socket, TCP_REPAIR_WINDOW, &moved.window, sizeof moved.window);
    moved.options = info.tcpi_options;
    moved.send_scale = info.tcpi_snd_wscale;
    moved.receive_scale = info.tcpi_rcv_wscale;
    moved.unread = (uint32_t)unread;
    moved.unacknowledged = (uint32_t)unacknowledged;
    moved.unsent = end->held ? end->to - end->from : 0;
    return fwrite(&moved, sizeof moved, 1, out) == 1 && save_queue(out, socket, TCP_RECV_QUEUE, moved.unread) &&
           save_queue(out, socket, TCP_SEND_QUEUE, moved.unacknowledged) &&
           (!moved.unsent || fwrite(end->held + end->from, 1, moved.unsent, out) == moved.unsent);
}

/* Writes the connections that are open in both directions; they are not closed towards their ends. Others are reset. */
static bool save_pairs(const char *path, uint64_t *saved) {
    umask(077);   /* what connections carry is for no other user */
    FILE *out = fopen(path, "wbx");
    struct moved_head head = {MOVED_MAGIC, sizeof(struct moved_end)};
    bool good = out && fwrite(&head, sizeof head, 1, out) == 1;
    for (struct pair *pair; good && (pair = proxy.oldest_newest.newer) != &proxy.oldest_newest;) {
        long at = ftell(out);
        bool moves = save_end(out, &pair->end[0]) && save_end(out, &pair->end[1]);
        if (!moves)
            good = !fflush(out) && !fseek(out, at, SEEK_SET) && !ftruncate(fileno(out), at);
        for (unsigned i = 0; i < 2 && !moves; i++)
            set_repair(pair->end[i].socket, TCP_REPAIR, 0);
        *saved += moves;
        end_pair(pair, !moves);
    }
    return out && !fclose(out) && good;
}

/* --- restoring --- */

/* Reads bytes from the file; NULL at its end. The caller frees them. */
static uint8_t *moved_bytes(FILE *in, uint32_t count) {
    uint8_t *bytes = count <= MOVED_MOST ? malloc(count + 1u) : NULL;
    if (bytes && fread(bytes, 1, count, in) != count) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

/* Puts bytes into a queue of a socket in this mode. */
static bool fill_queue(int socket, int queue, const uint8_t *bytes, uint32_t count) {
    if (!set_repair(socket, TCP_REPAIR_QUEUE, queue))
        return false;
    for (uint32_t done = 0; done < count;) {
        ssize_t part = send(socket, bytes + done, count - done > CHUNK ? CHUNK : count - done, MSG_NOSIGNAL);
        if (part <= 0)
            return false;
        done += (uint32_t)part;
    }
    return true;
}

static bool open_moved(int socket, const struct moved_end *moved, const uint8_t *unread, const uint8_t *unacknowledged) {
    struct tcp_repair_opt option[4] = {{TCPOPT_MAXSEG, moved->mss}};
    unsigned options = 1;
    int room = (int)(2 * (moved->unacknowledged + moved->unread) + CHUNK);
    if (moved->options & TCPI_OPT_WSCALE)
        option[options++] = (struct tcp_repair_opt){TCPOPT_WINDOW, moved->send_scale | (uint32_t)moved->receive_scale << 16};
    if (moved->options & TCPI_OPT_SACK)
        option[options++] = (struct tcp_repair_opt){TCPOPT_SACK_PERMITTED, 0};
    if (moved->options & TCPI_OPT_TIMESTAMPS)
        option[options++] = (struct tcp_repair_opt){TCPOPT_TIMESTAMP, 0};
    setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    return set_repair(socket, TCP_REPAIR, 1) && !bind(socket, &moved->local.any, length_of(&moved->local)) &&
           set_repair(socket, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE) &&
           set_repair(socket, TCP_QUEUE_SEQ, (int)(moved->sent - moved->unacknowledged)) &&
           set_repair(socket, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE) &&
           set_repair(socket, TCP_QUEUE_SEQ, (int)(moved->received - moved->unread)) &&
           !connect(socket, &moved->peer.any, length_of(&moved->peer)) &&
           !setsockopt(socket, IPPROTO_TCP, TCP_REPAIR_OPTIONS, option, options * (socklen_t)sizeof *option) &&
           set_repair(socket, TCP_TIMESTAMP, (int)moved->stamp) && fill_queue(socket, TCP_RECV_QUEUE, unread, moved->unread) &&
           fill_queue(socket, TCP_SEND_QUEUE, unacknowledged, moved->unacknowledged) &&
           (!moved->windowed || !setsockopt(socket, IPPROTO_TCP, TCP_REPAIR_WINDOW, &moved->window, sizeof moved->window)) &&
           set_repair(socket, TCP_REPAIR_QUEUE, TCP_NO_QUEUE);
}

/* Reads an end from the file, and opens its socket, which sends nothing yet. False: the file ends, or makes no sense. An end
 * that the kernel refuses has no socket. */
static bool restore_end(FILE *in, struct end *end) {
    struct moved_end moved;
    end->socket = -1;
    if (fread(&moved, sizeof moved, 1, in) != 1 || (moved.local.any.sa_family != AF_INET && moved.local.any.sa_family != AF_INET6))
        return false;
    uint8_t *unread = moved_bytes(in, moved.unread), *unacknowledged = unread ? moved_bytes(in, moved.unacknowledged) : NULL;
    end->held = unacknowledged && moved.unsent ? moved_bytes(in, moved.unsent) : NULL;
    end->to = end->held ? moved.unsent : 0;
    bool whole = unacknowledged && (!moved.unsent || end->held);
    if (whole)
        end->socket = transparent(moved.local.any.sa_family);
    if (end->socket >= 0 && !open_moved(end->socket, &moved, unread, unacknowledged)) {
        close(end->socket);
        end->socket = -1;
    }
    free(unread);
    free(unacknowledged);
    return whole;
}

/* Continues the connections of a file. Counts those that the kernel refused. False: it is no such file. */
static bool restore_pairs(const char *path, uint64_t *restored, uint64_t *failed) {
    FILE *in = fopen(path, "rb");
    struct moved_head head;
    bool good = in && fread(&head, sizeof head, 1, in) == 1 && head.magic == MOVED_MAGIC && head.size == sizeof(struct moved_end);
    for (int next; good && (next = getc(in)) != EOF;) {
        ungetc(next, in);
        struct pair *pair = calloc(1, sizeof *pair);
        good = pair && restore_end(in, &pair->end[0]);
        good = restore_end(in, pair ? &pair->end[1] : &(struct end){0}) && good;
        if (!pair)
            break;
        pair->end[0].pair = pair->end[1].pair = pair;
        proxy.open++;
        link_pair(pair);
        bool opened = pair->end[0].socket >= 0 && pair->end[1].socket >= 0;
        for (unsigned i = 0; i < 2; i++) {
            if (pair->end[i].socket >= 0)
                set_repair(pair->end[i].socket, TCP_REPAIR, 0);
            set_switch(pair->end[i].socket, IPPROTO_TCP, TCP_NODELAY);
        }
        opened = opened && watch_both(pair);
        *restored += opened;
        *failed += !opened;
        if (!opened)
            end_pair(pair, true);
    }
    if (in)
        fclose(in);
    return good;
}

#endif
