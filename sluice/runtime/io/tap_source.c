/* Packets of a TAP device (linux/if_tun.h): the box is the wire of a network interface of this host. What the host
 * transmits on the interface is received, and packets that are sent arrive at the host.
 *
 * The device is created if there is none of that name, and then exists as long as the source. The kernel completes
 * checksums and divides large packets before it passes them on, as the device announces no offloads. Each packet costs a
 * system call. */
#define _GNU_SOURCE
#include "io/interface.h"
#include "io/removal.h"
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER = 4 << 20,      /* bytes of received packets, unless the user gives another size */
    PACKET_MOST = 65600,   /* with its Ethernet header and tags */
    EXAMINED = 10 * 1000 * 1000,   /* nanoseconds between two searches for a device that was removed */
};

struct tap_source {
    struct sl_source base;
    int device;
    uint8_t *buffer;
    size_t size, used;
    uint32_t snap_length;
    uint64_t number, sent, refused;
    struct sl_interface_counter dropped;
    struct sl_removal removal;
};

static int set_up(struct tap_source *s);

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void close_device(struct tap_source *s)
{
    if (s->device >= 0)
        close(s->device);
    s->device = -1;
}

static int set_up_again(struct sl_source *source)
{
    struct tap_source *s = (struct tap_source *)source;
    if (!set_up(s))
        return 0;
    close_device(s);
    return -1;
}

/* The device was removed: uses another one of its name, once there is one. */
static int32_t await_device(struct tap_source *s)
{
    if (!sl_removal_due(&s->removal, EXAMINED))
        return 0;
    close_device(s);
    return sl_removal_try(&s->removal, &s->base, if_nametoindex(s->base.name) != 0, set_up_again);
}

static int32_t tap_receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct tap_source *s = (struct tap_source *)source;
    uint64_t time = now();
    uint32_t count = 0;
    if (s->removal.gone)
        return SL_SOURCE_FAULT;
    if (sl_is_removed(&s->removal))
        return await_device(s);
    while (count < most && s->size - s->used >= PACKET_MOST) {
        ssize_t length = read(s->device, s->buffer + s->used, PACKET_MOST);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EBADFD && s->removal.awaits) {
            sl_removal_begins(&s->removal, source);
            break;
        }
        if (length < 0 && errno != EAGAIN && !count) {
            sl_source_fail(source, "cannot be read, or was removed: %s", strerror(errno));
            return SL_SOURCE_FAULT;
        }
        if (length <= 0)
            break;
        uint32_t wire = (uint32_t)length, captured = s->snap_length && s->snap_length < wire ? s->snap_length : wire;
        frames[count++] = (struct sl_frame){.at = s->buffer + s->used, .captured = captured, .length = wire, .time = time,
                                            .link_type = 1, .number = ++s->number};
        s->used += (wire + 63) / 64 * 64;
    }
    return (int32_t)count;
}

static void tap_release(struct sl_source *source) { ((struct tap_source *)source)->used = 0; }

static uint32_t tap_send(struct sl_source *source, const struct sl_frame *frames, uint32_t count)
{
    struct tap_source *s = (struct tap_source *)source;
    uint32_t accepted = 0;
    for (uint32_t i = 0; i < count; i++) {
        ssize_t written;
        do
            written = write(s->device, frames[i].at, frames[i].captured);
        while (written < 0 && errno == EINTR);
        if (written == (ssize_t)frames[i].captured) {
            accepted++;
            continue;
        }
        s->refused++;
        sl_source_fail(source, "a packet of %u bytes was not sent: %s", frames[i].captured,
                       written < 0 ? strerror(errno) : "it was cut off");
    }
    s->sent += accepted;
    return accepted;
}

static unsigned tap_descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    const struct tap_source *s = (const struct tap_source *)source;
    if (!most || sl_is_removed(&s->removal))
        return 0;
    fds[0] = (struct pollfd){.fd = ((struct tap_source *)source)->device, .events = POLLIN};
    return 1;
}

static uint64_t tap_clock(struct sl_source *source)
{
    (void)source;
    return now();
}

static struct sl_source *tap_part(struct sl_source *source, size_t index) { return index ? NULL : source; }

static void tap_statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    struct tap_source *s = (struct tap_source *)source;
    sl_interface_counter_set(&s->dropped, sl_read_counter(source->name, "tx_dropped"));
    *out = (struct sl_source_statistics){
        .packets = s->number, .sent = s->sent, .refused = s->refused,
        .dropped_kernel = sl_interface_counted(&s->dropped),
    };
    sl_removal_statistics(&s->removal, out);
}

static int tap_close(struct sl_source *source)
{
    struct tap_source *s = (struct tap_source *)source;
    close_device(s);
    free(s->buffer);
    return 0;
}

static const struct sl_source_back_end back_end = {
    .scheme = "tap",
    .receive = tap_receive,
    .release = tap_release,
    .send = tap_send,
    .descriptors = tap_descriptors,
    .clock = tap_clock,
    .part = tap_part,
    .statistics = tap_statistics,
    .close = tap_close,
};

/* Makes the interface ready for packets. */
static int set_up(struct tap_source *s)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    if (!s->base.name[0] || strlen(s->base.name) >= sizeof request.ifr_name)
        return sl_source_fail(&s->base, "a name of an interface has from 1 to %zu characters", sizeof request.ifr_name - 1);
    memcpy(request.ifr_name, s->base.name, strlen(s->base.name));
    s->device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (s->device < 0)
        return sl_source_fail(&s->base, "/dev/net/tun cannot be opened: %s (modprobe tun)", strerror(errno));
    if (ioctl(s->device, TUNSETIFF, &request)) {
        if (errno == EPERM)
            return sl_source_fail(&s->base, "to make a TAP device takes root, or CAP_NET_ADMIN");
        if (errno == EBUSY)
            return sl_source_fail(&s->base, "another program uses this device");
        if (errno == EINVAL)
            return sl_source_fail(&s->base, "an interface of that name exists, and is no TAP device");
        return sl_source_fail(&s->base, "cannot be made a TAP device: %s", strerror(errno));
    }
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int result = control < 0 || ioctl(control, SIOCGIFFLAGS, &request);
    request.ifr_flags |= IFF_UP;
    result = result || (ioctl(control, SIOCSIFFLAGS, &request) && errno != EPERM);   /* its owner may set it up */
    if (control >= 0)
        close(control);
    sl_interface_counter_begin(&s->dropped, sl_read_counter(s->base.name, "tx_dropped"));
    return result ? sl_source_fail(&s->base, "the interface cannot be set up: %s", strerror(errno)) : 0;
}

int sl_tap_source_open(struct sl_source **out, const char *name, const struct sl_source_options *options, char *message,
                       size_t message_size)
{
    struct tap_source *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", name);
        return -1;
    }
    s->base.back_end = &back_end;
    s->device = -1;
    s->snap_length = options->snap_length;
    s->removal.awaits = options->awaits_removed;
    s->size = options->ring_bytes ? options->ring_bytes : BUFFER;
    s->buffer = malloc(s->size);
    snprintf(s->base.name, sizeof s->base.name, "%s", name);
    if (!(s->buffer ? set_up(s) : sl_source_fail(&s->base, "no memory for packets"))) {
        *out = &s->base;
        return 0;
    }
    snprintf(message, message_size, "%s", s->base.fault);
    tap_close(&s->base);
    free(s);
    return -1;
}
