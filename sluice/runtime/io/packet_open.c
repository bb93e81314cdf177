/* Opens interfaces by AF_PACKET. */
#define _GNU_SOURCE
#include "io/source.h"

#include <stdio.h>

#if defined(__linux__) && __has_include(<linux/if_packet.h>)

#include "io/filter.h"
#include "io/packet_source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SLOT = 2048,                /* the kernel's frame size; in version 3, it only has to divide the block size */
    RING = 64 << 20,
    BLOCKS_LEAST = 4,
    BLOCKS_MOST = 16384,
    RETIRE = 10,                /* milliseconds */
    RETIRE_FORWARDING = 1,
};

static int refuse(struct sl_packet_source *s, const char *what)
{
    return sl_source_fail(&s->base, "%s: %s", what, strerror(errno));
}

static int find_interface(struct sl_packet_source *s)
{
    unsigned type = 0;
    if (strcmp(s->base.name, "any") == 0)
        return 0;
    if (strlen(s->base.name) >= IF_NAMESIZE || !(s->index = if_nametoindex(s->base.name)))
        return sl_source_fail(&s->base, "there is no interface of that name (`ip link` lists them)");
    if (sl_interface_examine(&s->base, s->socket, &type))
        return -1;
    int link_type = sl_link_type_of(type);
    s->link_type = (uint16_t)link_type;
    if (link_type < 0)
        return sl_source_fail(&s->base, "device type %d of the kernel has no link type that is known here", (int)type);
    sl_packet_count_from_now(s);
    return 0;
}

static int attach_program(int socket, struct sock_filter *instructions, unsigned count)
{
    struct sock_fprog program = {(unsigned short)count, instructions};
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

/* Attaches the capture filter, or, without one, the snap length. Frames whose VLAN tag the
 * kernel has taken off all pass: the filter is evaluated again when the tag is restored. If the kernel refuses the
 * program, as it refuses long ones, or the link types of packets differ, all packets are filtered in this process. */
static int attach_filter(struct sl_packet_source *s, int socket)
{
    enum { BEFORE = 3 };
    struct sock_filter cut = {BPF_RET | BPF_K, 0, 0, s->snap_length ? s->snap_length : 262144};
    const void *instructions;
    unsigned count;
    if (s->snap_length && attach_program(socket, &cut, 1))
        return refuse(s, "the snap length cannot be set");
    if (!s->base.filter || !s->index || !(count = sl_filter_program(s->base.filter, s->link_type, &instructions)))
        return 0;
    struct sock_filter *whole = calloc(BEFORE + count, sizeof *whole);
    if (!whole)
        return sl_source_fail(&s->base, "out of memory");
    whole[0] = (struct sock_filter){BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)};
    whole[1] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0};
    whole[2] = cut;
    memcpy(whole + BEFORE, instructions, count * sizeof *whole);
    s->base.filtered_in_kernel = attach_program(socket, whole, BEFORE + count) == 0;
    free(whole);
    return 0;
}

/* Gives a socket its ring, in the place of one that the source has. */
static int set_up_ring(struct sl_packet_source *s, int socket)
{
    int version = TPACKET_V3;
    unsigned reserve = 16;   /* at least SL_PACKET_TAG bytes */
    struct tpacket_req3 ring = {.tp_block_size = SL_PACKET_BLOCK, .tp_block_nr = s->blocks, .tp_frame_size = SLOT,
                                .tp_frame_nr = s->blocks * (SL_PACKET_BLOCK / SLOT),
                                .tp_retire_blk_tov = s->forwarding ? RETIRE_FORWARDING : RETIRE};
    if (attach_filter(s, socket))
        return -1;
    if (setsockopt(socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(socket, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof reserve) ||
        setsockopt(socket, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
        return refuse(s, "the kernel gives no receive ring");
    const int place = s->ring ? MAP_FIXED : 0;
    void *map = mmap(s->ring, (size_t)s->blocks * SL_PACKET_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | place, socket, 0);
    if (map == MAP_FAILED) {
        s->removal.gone = s->ring != NULL;   /* where it was, there may be nothing now */
        return refuse(s, "the receive ring cannot be mapped");
    }
    s->ring = map;
    return 0;
}

/* Lets packets pass again: the filter of the source replaces the one that lets none pass. */
static int let_pass(void *source, int socket)
{
    struct sl_packet_source *s = source;
    int unused = 0;
    if (attach_filter(s, socket))
        return -1;
    if (s->snap_length || s->base.filtered_in_kernel)
        return 0;
    return setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) ? refuse(s, "the filter cannot be detached")
                                                                                    : 0;
}

static int attach(struct sl_packet_source *s)
{
    struct sock_filter none = {BPF_RET | BPF_K, 0, 0, 0};
    if (s->fanout.of && (s->link_type != 1 || !s->index))
        return sl_source_fail(&s->base, "the kernel divides packets of Ethernet interfaces only");
    if (s->fanout.of && attach_program(s->socket, &none, 1))
        return refuse(s, "the filter cannot be attached");
#ifdef PACKET_IGNORE_OUTGOING
    int ignored = 1;   /* saves their copies; a kernel before 4.20 has no such option */
    if (s->forwarding)
        (void)setsockopt(s->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignored, sizeof ignored);
#endif
    if (sl_packet_bind(s))
        return refuse(s, "cannot receive from it");
    if (!s->fanout.of)
        return 0;
    s->base.fault[0] = 0;
    if (sl_fanout_join(&s->fanout, s->index, s->socket, let_pass, s))
        return s->base.fault[0] ? -1 : refuse(s, "the kernel does not divide its packets among sockets");
    return 0;
}

/* Returns a socket that gets no packets until it is bound; or -1, with the fault. */
static int open_socket(struct sl_packet_source *s)
{
    int found = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (found >= 0)
        return found;
    return errno == EPERM ? sl_source_fail(&s->base, "to use interfaces takes root, or the capability CAP_NET_RAW")
                          : refuse(s, "the kernel gives no packet socket");
}

int sl_packet_open_again(struct sl_source *source)
{
    struct sl_packet_source *s = (struct sl_packet_source *)(void *)source;
    const unsigned before = s->index;
    int socket = open_socket(s);
    if (socket < 0)
        return -1;
    pthread_mutex_lock(&s->lock);
    sl_packet_count_drops(s);
    int result = set_up_ring(s, socket);
    /* the descriptor stays the same, as other members of the group and pollers know it */
    if (!result && dup3(socket, s->socket, O_CLOEXEC) < 0)
        result = refuse(s, "its socket cannot be replaced");
    close(socket);
    s->block = s->held = s->left = 0;
    result = result || find_interface(s) || attach(s) ? -1 : 0;
    s->index = result ? before : s->index;
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* A source with its socket; NULL, with the message. */
static struct sl_packet_source *make(const char *interface, char *message, size_t message_size)
{
    struct sl_packet_source *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", interface);
        return NULL;
    }
    s->base.back_end = &sl_packet_back_end;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(s->base.name, sizeof s->base.name, "%s", interface);
    s->socket = open_socket(s);
    if (s->socket >= 0)
        return s;
    snprintf(message, message_size, "%s", s->base.fault);
    free(s);
    return NULL;
}

/* What was made, or, where something failed, nothing, with the message. */
static int finish(struct sl_packet_source *s, bool failed, struct sl_source **out, char *message, size_t message_size)
{
    if (failed) {
        snprintf(message, message_size, "%s", s->base.fault);
        s->base.back_end->close(&s->base);
        sl_filter_close(s->base.filter);
        free(s);
        return -1;
    }
    *out = &s->base;
    return 0;
}

int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size)
{
    *out = NULL;
    struct sl_packet_source *s = make(interface, message, message_size);
    if (!s)
        return -1;
    const uint64_t blocks = (options->ring_bytes ? options->ring_bytes : RING) / SL_PACKET_BLOCK;
    s->blocks = (unsigned)(blocks < BLOCKS_LEAST ? BLOCKS_LEAST : blocks > BLOCKS_MOST ? BLOCKS_MOST : blocks);
    s->snap_length = options->snap_length;
    s->forwarding = options->forwarding;
    s->no_promiscuous = options->no_promiscuous;
    s->fanout.of = options->fanout;
    s->removal.awaits = options->awaits_removed;
    bool failed = options->filter && !(s->base.filter = sl_filter_open(options->filter, options->snap_length, s->base.fault,
                                                                       sizeof s->base.fault));
    failed = failed || find_interface(s) || set_up_ring(s, s->socket) || attach(s);
    return finish(s, failed, out, message, message_size);
}

int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size)
{
    *out = NULL;
    struct sl_packet_source *s = make(interface, message, message_size);
    if (!s)
        return -1;
    bool failed = find_interface(s) != 0;
    if (!failed && !s->index)
        failed = sl_source_fail(&s->base, "packets leave at one interface: give its name") != 0;
    if (!failed && sl_packet_bind(s))
        failed = refuse(s, "cannot send to it") != 0;
    return finish(s, failed, out, message, message_size);
}

#else

int sl_packet_source_open(struct sl_source **out, const char *interface, const struct sl_source_options *options,
                          char *message, size_t message_size)
{
    (void)options;
    *out = NULL;
    snprintf(message, message_size, "%s: no interfaces here: the kernel's headers (linux/if_packet.h) were not there when this "
             "was compiled", interface);
    return -1;
}

int sl_packet_source_create(struct sl_source **out, const char *interface, char *message, size_t message_size)
{
    return sl_packet_source_open(out, interface, NULL, message, message_size);
}

#endif
