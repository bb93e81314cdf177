/* Two SCTP ends of usrsctp that communicate over a link with loss and reordering, in one process and in virtual time.
 *
 *     sctp_pair SEED LOSS MESSAGES CAPTURE [udp|homes] [interleaved] [partial]
 *
 * LOSS is in per cent. The packets that the link delivers are written to CAPTURE, as raw IPv4; with `udp`, in UDP port
 * 9899; with `homes`, after the handshake also under a second address of the first end. With `interleaved`, the ends
 * negotiate I-DATA chunks (RFC 8260). With `partial`, every second message is abandoned (RFC 3758): half of these after
 * one unsuccessful transmission, half after 30 ms. Each end sends MESSAGES. A line is printed for every message that is
 * sent (S) or received completely (R):
 *
 *     S|R  side of the sender  stream  payload protocol  unordered  number  bytes
 *
 * A message begins with its number (4 bytes, big-endian); its other bytes are computed from number and position. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <usrsctp.h>

enum { STREAMS = 6, LONGEST = 20000, ONE_CHUNK = 1100, PORT = 5001, DEEP = 4096, MOST_DELAY = 8 };

struct packet {
    uint8_t *at;
    size_t length;
    int to;           /* the receiving end */
    unsigned due;     /* millisecond */
};

static struct packet queue[DEEP];
static unsigned queued, now, loss, seed;
static FILE *capture;
static int ends[2];   /* their addresses identify the two ends of the link */
static int in_udp, homes, interleaved, partial, accepted;

#ifndef SCTP_INTERLEAVING_SUPPORTED
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206   /* the library knows it; its header does not say so */
#endif

/* Replaces the time of day for usrsctp. */
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    *time = (struct timeval){1000000 + now / 1000, now % 1000 * 1000};
    return 0;
}

static unsigned dice(void) {
    seed = seed * 1103515245u + 12345u;
    return seed >> 16 & 0x7fff;
}

static int output(void *address, void *buffer, size_t length, uint8_t tos, uint8_t do_not_fragment) {
    (void)tos, (void)do_not_fragment;
    if (queued == DEEP || dice() % 100 < loss)
        return 0;
    uint8_t *copy = malloc(length);
    if (!copy)
        abort();
    memcpy(copy, buffer, length);
    queue[queued++] = (struct packet){copy, length, address == &ends[0], now + 1 + dice() % MOST_DELAY};
    return 0;
}

static void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void write_packet(const struct packet *packet) {
    uint8_t head[28] = {0x45, [8] = 64, [9] = in_udp ? 17 : 132, [12] = 10, [15] = 1, [16] = 10, [19] = 2};
    unsigned size = in_udp ? 28 : 20, total = size + (unsigned)packet->length;
    if (packet->to == 0) {
        head[15] = 2;
        head[19] = 1;
    }
    if (homes && accepted && packet->at[12] != 1)   /* a delayed INIT has the address that it was sent from */
        head[packet->to ? 14 : 18] = (uint8_t)(dice() % 2);
    put16(head + 2, total);
    put16(head + 20, 9899);
    put16(head + 22, 9899);
    put16(head + 24, total - 20);
    unsigned sum = 0;
    for (int i = 0; i < 20; i += 2)
        sum += (unsigned)head[i] << 8 | head[i + 1];
    put16(head + 10, ~(sum + (sum >> 16)));
    uint32_t record[4] = {now / 1000, now % 1000 * 1000, total, total};
    fwrite(record, sizeof record, 1, capture);
    fwrite(head, size, 1, capture);
    fwrite(packet->at, packet->length, 1, capture);
}

/* One millisecond passes: the link delivers what is due. */
static void tick(void) {
    now++;
    usrsctp_handle_timers(1);
    for (unsigned i = 0; i < queued;) {
        struct packet packet = queue[i];
        if (packet.due > now) {
            i++;
            continue;
        }
        memmove(&queue[i], &queue[i + 1], (--queued - i) * sizeof *queue);
        write_packet(&packet);
        usrsctp_conninput(&ends[packet.to], packet.at, packet.length, 0);
        free(packet.at);
    }
}

static struct sockaddr_conn address_of(int end, unsigned port) {
    struct sockaddr_conn address = {.sconn_family = AF_CONN, .sconn_port = htons((uint16_t)port)};
    address.sconn_addr = &ends[end];
    return address;
}

static struct socket *open_socket(int end, unsigned port) {
    struct socket *made = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    struct sockaddr_conn own = address_of(end, port);
    const int on = 1, deep = 1 << 19;
    struct sctp_initmsg streams = {.sinit_num_ostreams = STREAMS, .sinit_max_instreams = STREAMS};
    uint32_t whole = 1 << 18;
    if (!made || usrsctp_bind(made, (struct sockaddr *)&own, sizeof own))
        exit(2);
    usrsctp_set_non_blocking(made, 1);
    usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
    usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof streams);
    usrsctp_setsockopt(made, SOL_SOCKET, SO_RCVBUF, &deep, sizeof deep);
    usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, &whole, sizeof whole);
    const int between_streams = 2;
    const struct sctp_assoc_value yes = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1};
    const struct sctp_assoc_value in_turn = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = SCTP_SS_ROUND_ROBIN};
    if (interleaved &&
        (usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &between_streams, sizeof between_streams) ||
         usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &yes, sizeof yes) ||
         usrsctp_setsockopt(made, IPPROTO_SCTP, SCTP_PLUGGABLE_SS, &in_turn, sizeof in_turn))) {
        perror("interleaving");
        exit(4);
    }
    return made;
}

struct next {
    unsigned number, stream, unordered, length;
};

static struct next choose(unsigned number) {
    unsigned length = dice() % 3 ? dice() % 1000 : dice() % LONGEST;
    return (struct next){number, dice() % STREAMS, dice() % 4 == 0, 4 + length};
}

static int send_one(struct socket *socket, int side, const struct next *next) {
    static uint8_t data[LONGEST + 4];
    for (unsigned i = 0; i < 4; i++)
        data[i] = (uint8_t)(next->number >> (24 - 8 * i));
    for (unsigned i = 4; i < next->length; i++)
        data[i] = (uint8_t)(next->number * 31 + i);
    struct sctp_sendv_spa how = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};
    how.sendv_sndinfo = (struct sctp_sndinfo){.snd_sid = (uint16_t)next->stream, .snd_ppid = htonl(40 + next->stream)};
    how.sendv_sndinfo.snd_flags = next->unordered ? SCTP_UNORDERED : 0;
    /* usrsctp 0.9.5 aborts when fragments in I-DATA chunks are abandoned: there, abandon messages of one chunk only. */
    if (partial && next->number % 2 && (!interleaved || next->length < ONE_CHUNK)) {
        how.sendv_flags |= SCTP_SEND_PRINFO_VALID;
        how.sendv_prinfo.pr_policy = next->number % 4 == 1 ? SCTP_PR_SCTP_RTX : SCTP_PR_SCTP_TTL;
        how.sendv_prinfo.pr_value = next->number % 4 == 1 ? 0 : 30;
    }
    if (usrsctp_sendv(socket, data, next->length, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0) < 0)
        return 0;
    printf("S %d %u %u %u %u %u\n", side, next->stream, 40 + next->stream, next->unordered, next->number, next->length);
    return 1;
}

/* Reads the available data; returns the number of messages that were completed. */
static unsigned receive(struct socket *socket, int side) {
    static uint8_t data[1 << 18];
    unsigned whole = 0;
    for (;;) {
        struct sctp_rcvinfo info;
        socklen_t size = sizeof info, from = 0;
        unsigned kind = 0;
        int flags = 0;
        ssize_t n = usrsctp_recvv(socket, data, sizeof data, NULL, &from, &info, &size, &kind, &flags);
        if (n <= 0)
            return whole;
        if (!(flags & MSG_EOR) || flags & MSG_NOTIFICATION)
            exit(3);
        unsigned number = (unsigned)data[0] << 24 | (unsigned)data[1] << 16 | (unsigned)data[2] << 8 | data[3];
        printf("R %d %u %u %u %u %zd\n", side, info.rcv_sid, ntohl(info.rcv_ppid), (info.rcv_flags & SCTP_UNORDERED) != 0,
               number, n);
        whole++;
    }
}

int main(int count, char **arguments) {
    if (count < 5 || !(capture = fopen(arguments[4], "wb")))
        return 2;
    seed = (unsigned)atoi(arguments[1]);
    loss = (unsigned)atoi(arguments[2]);
    for (int i = 5; i < count; i++) {
        in_udp |= !strcmp(arguments[i], "udp");
        homes |= !strcmp(arguments[i], "homes");
        interleaved |= !strcmp(arguments[i], "interleaved");
        partial |= !strcmp(arguments[i], "partial");
    }
    const unsigned wanted = (unsigned)atoi(arguments[3]);
    const uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 262144, 101};
    fwrite(head, sizeof head, 1, capture);
    usrsctp_init_nothreads(0, output, NULL);
    usrsctp_sysctl_set_sctp_ecn_enable(0);
    usrsctp_sysctl_set_sctp_rto_min_default(50);
    usrsctp_sysctl_set_sctp_rto_initial_default(100);
    usrsctp_sysctl_set_sctp_rto_max_default(400);
    usrsctp_register_address(&ends[0]);
    usrsctp_register_address(&ends[1]);
    struct socket *listener = open_socket(1, PORT), *socket[2] = {open_socket(0, PORT + 1), NULL};
    struct sockaddr_conn peer = address_of(0, PORT);
    usrsctp_listen(listener, 1);
    usrsctp_connect(socket[0], (struct sockaddr *)&peer, sizeof peer);
    unsigned received[2] = {0, 0};
    struct next next[2] = {choose(0), choose(0)};
    unsigned done = 0;   /* milliseconds since something was sent or received */
    while (received[0] + received[1] < 2 * wanted && now < 600000 && !(partial && done > 5000)) {
        tick();
        unsigned before = received[0] + received[1] + next[0].number + next[1].number;
        if (!socket[1] && (socket[1] = usrsctp_accept(listener, NULL, NULL)))
            accepted = !usrsctp_set_non_blocking(socket[1], 1);
        for (int side = 0; side < 2 && socket[1]; side++) {
            while (next[side].number < wanted && send_one(socket[side], side, &next[side]))
                next[side] = choose(next[side].number + 1);
            received[side] += receive(socket[side], !side);
        }
        done = before == received[0] + received[1] + next[0].number + next[1].number ? done + 1 : 0;
    }
    usrsctp_shutdown(socket[0], SHUT_WR);
    for (int i = 0; i < 3000; i++) {
        tick();
        if (socket[1])
            receive(socket[1], 0);
    }
    fclose(capture);
    return partial || received[0] + received[1] == 2 * wanted ? 0 : 1;
}
