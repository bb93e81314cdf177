/* Finds hosts and what they run from their traffic alone, as PRADS does: addresses with their link address, services with their
 * versions, and operating systems by the form of their SYN and SYN/ACK. Each is written once, when it is seen first.
 *
 * Signatures are read from files that the user names, in the forms of PRADS and p0f; a few own ones are there without a file. */
#include "sluice.h"

#include "assets_service.h"
#include "assets_system.h"
#include "endpoints.h"
#include "output_file.h"
#include "core/siphash.h"

SLUICE_LIBRARY("pcre2-8")

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(services, text, "", "signatures of services, in the form of PRADS and PADS; without a file, own ones")
SLUICE_PARAMETER(clients, text, "", "signatures of clients, in the same form; without a file, own ones")
SLUICE_PARAMETER(systems, text, "", "signatures of operating systems, in p0f's form (version 2); without a file, own ones")
SLUICE_PARAMETER(bytes, number, 1024, "bytes of each side of a connection that are compared with signatures, at most 4096")
SLUICE_PARAMETER(flows, number, 65536, "sides of connections whose first bytes are stored at once, at most")

SLUICE_COUNTER(assets_hosts, "addresses that were seen to send")
SLUICE_COUNTER(assets_services, "services that answered")
SLUICE_COUNTER(assets_named, "of these those whose product a signature gave")
SLUICE_COUNTER(assets_clients, "programs of clients that a signature gave")
SLUICE_COUNTER(assets_systems, "operating systems that a signature gave")
SLUICE_COUNTER(assets_unknown_systems, "SYNs and SYN/ACKs over IPv4 whose form no signature has")
SLUICE_COUNTER(assets_left_out, "sides of connections that were not compared with signatures, as too many were open")
SLUICE_COUNTER(assets_bounded, "comparisons that ended at the bound of their steps")
SLUICE_COUNTER(assets_skipped, "lines of signatures that cannot be used")
SLUICE_COUNTER(assets_no_room, "findings that may be written again, as there was no room to remember them")

SLUICE_SHARED(known, set, all, read_write, zero, "what was written, by its hash")

enum { ASSETS_BYTES_MOST = 4096 };
enum assets_kind { ASSETS_HOST = 1, ASSETS_PORT, ASSETS_PRODUCT, ASSETS_CLIENT, ASSETS_OS };

/* The first bytes of a side. */
struct assets_side { uint32_t used; uint8_t bytes[ASSETS_BYTES_MOST]; };

struct assets_flow { struct assets_side *side[2]; bool seen[2], compared[2]; };
SLUICE_STATE(struct assets_flow)

struct assets {
    FILE *out;
    struct assets_signatures services, clients;
    struct assets_systems systems;
    uint64_t sides;
};
SLUICE_WORKER(struct assets)

/* Our own signatures, derived from the output of these programs and systems. */
static const char *const assets_own_services[] = {
    "http,v/$1/$2//,(?i)^HTTP/1\\.[01] \\d{3}[^\\r\\n]*\\r\\n(?:[^\\r\\n]+\\r\\n)*?Server: *([^/\\r\\n ]+)(?:/([^\\r\\n ]+))?",
    "ssh,v/$2/$3/protocol $1/,^SSH-([0-9.]+)-([A-Za-z]+)[_-]?([0-9][^\\r\\n ]*)?",
    "ftp,v/$1/$2//,(?i)^220[ -][^\\r\\n]*?(vsftpd|proftpd|pure-ftpd|filezilla server)[ (]*v?([0-9][0-9a-z.]*)?",
    "smtp,v/$1///,(?i)^220[ -][^\\r\\n]*?(postfix|exim|sendmail|opensmtpd)",
    "imap,v/$1///,(?i)^\\* OK [^\\r\\n]*?(dovecot|courier|cyrus)",
    "pop3,v/$1///,(?i)^\\+OK [^\\r\\n]*?(dovecot|courier|cyrus)",
    "mysql,v/MySQL/$1//,^.\\0\\0\\0\\x0a([0-9][^\\0]{2,40})\\0",
};
static const char *const assets_own_clients[] = {
    "http,v/$1/$2//,(?i)^[A-Z]+ [^\\r\\n]+ HTTP/1\\.[01]\\r\\n(?:[^\\r\\n]+\\r\\n)*?User-Agent: *([^/\\r\\n]+)(?:/([^\\r\\n ]+))?",
    "ssh,v/$2/$3/protocol $1/,^SSH-([0-9.]+)-([A-Za-z]+)[_-]?([0-9][^\\r\\n ]*)?",
};
static const char *const assets_own_systems[] = {
    "*:64:1:60:M*,S,T,N,W*:.:Linux:2.6 and later",
    "*:64:1:60:M*,S,T,N,W*:Z:Linux:2.6 and later",
    "*:64:1:60:M*,S,T,N,W*:ZA:Linux:2.6 and later, as a server",
    "*:64:1:60:M*,S,T,N,W*:A:Linux:2.6 and later, as a server",
    "*:128:1:52:M*,N,W*,N,N,S:.:Windows:Vista and later",
    "*:128:1:52:M*,N,W*,N,N,S:A:Windows:Vista and later, as a server",
    "65535:64:1:64:M*,N,W*,N,N,T,S,E:P:macOS:and iOS",
    "65535:64:1:64:M*,N,W*,N,N,T,S,E:.:macOS:and iOS",
    "65535:64:1:60:M*,N,W*,S,T:.:FreeBSD:9 and later",
    "16384:64:1:64:M*,N,N,S,N,W*,N,N,T:.:OpenBSD:",
};

/* --- rows --- */

/* Is something seen for the first time? It is remembered by a keyed hash. */
static bool assets_is_new(const struct sl_event *event, enum assets_kind kind, unsigned side, const void *text, size_t length) {
    const struct sl_key_part *address = sl_address_part(event->owner), *port = sl_port_part(event->owner);
    const uint64_t *half = sl_event_half(event, side);
    uint8_t key[16], bytes[48 + ASSETS_TEXT * 3] = {0};
    sl_siphash_key(key, sl_seed(event->box), "");
    bytes[0] = (uint8_t)kind;
    bytes[1] = (uint8_t)(address->bits / 8);
    memcpy(bytes + 8, half + address->word, address->bits <= 64 ? 0 : 16);
    if (address->bits <= 64)
        memcpy(bytes + 8, &(uint64_t){sl_part_number(address, half)}, 8);
    if (kind == ASSETS_PORT || kind == ASSETS_PRODUCT) {
        sl_store_be16(bytes + 2, port ? sl_part_number(port, half) : 0);
        bytes[4] = (uint8_t)event->owner->prototype[0];
    }
    if (length)
        memcpy(bytes + 32, text, sl_min(length, sizeof bytes - 32));
    int64_t added = 0;
    enum sl_store_status status = sl_shared_insert(SLUICE_SHARED_ALL(event->box, known), (int64_t)(sl_siphash(key, bytes, sizeof bytes) >> 12), &added);
    SLUICE_COUNTER_OF(event->box, assets_no_room) += status != SL_STORE_DONE;
    return status != SL_STORE_DONE || added;
}

static FILE *assets_row(const struct sl_event *event, const char *what, unsigned side, bool with_port) {
    FILE *out = SLUICE_WORKER_OF(event->box)->out;
    uint64_t time = sl_packet_time(event);
    fprintf(out, "{\"asset\":\"%s\",\"time\":\"%llu.%09llu\",\"packet\":%llu,\"address\":", what, (unsigned long long)(time / 1000000000),
            (unsigned long long)(time % 1000000000), (unsigned long long)sl_packet_number(event));
    sl_write_address(out, sl_address_part(event->owner), sl_event_half(event, side));
    if (with_port) {
        fprintf(out, ",\"protocol\":\"%s\",\"port\":", event->owner->prototype);
        sl_write_port(out, sl_port_part(event->owner), sl_event_half(event, side));
    }
    return out;
}

/* A member with a text from the network: bytes that are no printable ASCII become U+0000 to U+00FF. */
static void assets_put(FILE *out, const char *name, const char *text) {
    if (!*text)
        return;
    fprintf(out, ",\"%s\":\"", name);
    for (const uint8_t *at = (const uint8_t *)text; *at; at++)
        if (*at < 32 || *at > 126 || *at == '"' || *at == '\\')
            fprintf(out, "\\u%04x", *at);
        else
            fputc(*at, out);
    fputc('"', out);
}

static void assets_put_product(FILE *out, const struct assets_product *product) {
    assets_put(out, "service", product->service);
    assets_put(out, "product", product->part[0]);
    assets_put(out, "version", product->part[1]);
    assets_put(out, "info", product->part[2]);
    fputs("}\n", out);
}

/* --- findings --- */

static void assets_host(const struct sl_event *event, unsigned side) {
    struct assets_flow *flow = SLUICE_STATE_OF(event);
    const struct sl_frame *frame = sl_packet_frame(event);
    if (flow->seen[side])
        return;
    flow->seen[side] = true;
    if (!assets_is_new(event, ASSETS_HOST, side, NULL, 0))
        return;
    SLUICE_COUNTER_OF(event->box, assets_hosts)++;
    FILE *out = assets_row(event, "host", side, false);
    const uint8_t *at = frame && frame->link_type == 1 && frame->captured >= 14 ? frame->at + 6 : NULL;
    if (at)
        fprintf(out, ",\"mac\":\"%02x:%02x:%02x:%02x:%02x:%02x\"", at[0], at[1], at[2], at[3], at[4], at[5]);
    fputs("}\n", out);
}

static void assets_service(const struct sl_event *event, unsigned side) {
    if (!assets_is_new(event, ASSETS_PORT, side, NULL, 0))
        return;
    SLUICE_COUNTER_OF(event->box, assets_services)++;
    fputs("}\n", assets_row(event, "service", side, true));
}

/* The operating system of the sender of a SYN or SYN/ACK. */
static void assets_system(const struct sl_event *event, unsigned side) {
    const struct sl_frame *frame = sl_packet_frame(event);
    struct tcp_place place;
    struct assets_form form;
    unsigned distance;
    if (!tcp_place_of(event, frame, &place) || place.ip.version != 4)
        return;
    assets_form_of(frame, &place, &form);
    const struct assets_system *found = assets_system_of(&SLUICE_WORKER_OF(event->box)->systems, &form, &distance);
    if (!found) {
        SLUICE_COUNTER_OF(event->box, assets_unknown_systems)++;
        return;
    }
    if (!assets_is_new(event, ASSETS_OS, side, found->name, strlen(found->name)))
        return;
    SLUICE_COUNTER_OF(event->box, assets_systems)++;
    FILE *out = assets_row(event, "system", side, false);
    assets_put(out, "system", found->name);
    assets_put(out, "details", found->details);
    fprintf(out, ",\"by\":\"%s\",\"distance\":%u}\n", place.at[13] & TCP_ACK ? "synack" : "syn", distance);
}

/* Compares the first bytes of a side with the signatures. A line that is not complete waits until it is, or the other side
 * sends, or the connection ends: else its first letters would be a product. */
static void assets_compare(const struct sl_event *event, unsigned side) {
    struct assets *assets = SLUICE_WORKER_OF(event->box);
    const struct assets_side *first = SLUICE_STATE_OF(event)->side[side];
    struct assets_product product;
    bool client = side == 0;
    if (!first || SLUICE_STATE_OF(event)->compared[side])
        return;
    if (!assets_product_of(client ? &assets->clients : &assets->services, first->bytes, first->used, &product,
                           &SLUICE_COUNTER_OF(event->box, assets_bounded)))
        return;
    SLUICE_STATE_OF(event)->compared[side] = true;
    if (!assets_is_new(event, client ? ASSETS_CLIENT : ASSETS_PRODUCT, side, product.part, sizeof product.part))
        return;
    SLUICE_COUNTER_OF(event->box, assets_clients) += client;
    SLUICE_COUNTER_OF(event->box, assets_named) += !client;
    assets_put_product(assets_row(event, client ? "client" : "service", side, !client), &product);
}

/* --- events --- */

SLUICE_ON(tcp, packet) {
    if (!event->instance || event->unit.captured < 14)
        return;
    unsigned side = event->side & 1;
    uint8_t flags = event->unit.at[13] & (TCP_SYN | TCP_ACK | TCP_RST);
    assets_host(event, side);
    if (flags == TCP_SYN || flags == (TCP_SYN | TCP_ACK))
        assets_system(event, side);
    if (side == 1 && flags == (TCP_SYN | TCP_ACK))
        assets_service(event, side);
}

SLUICE_ON(tcp, data) {
    struct sl_box *box = event->box;
    struct assets *assets = SLUICE_WORKER_OF(box);
    struct assets_flow *flow = event->instance ? SLUICE_STATE_OF(event) : NULL;
    unsigned side = event->side & 1;
    uint64_t most = sl_min(SLUICE_PARAMETER_OF(box, bytes), ASSETS_BYTES_MOST);
    if (!flow || flow->compared[side])
        return;
    if (data->offset >= most) {
        flow->compared[side] = true;
        return;
    }
    if (!flow->side[side]) {
        bool room = assets->sides < SLUICE_PARAMETER_OF(box, flows);
        flow->side[side] = room ? calloc(1, sizeof *flow->side[side]) : NULL;
        if (!flow->side[side]) {
            SLUICE_COUNTER_OF(box, assets_left_out)++;
            flow->compared[side] = true;
            return;
        }
        assets->sides++;
    }
    struct assets_side *first = flow->side[side];
    uint32_t take = (uint32_t)sl_min(data->bytes.captured, most - first->used);
    if (take)
        memcpy(first->bytes + first->used, data->bytes.at, take);
    first->used += take;
    assets_compare(event, side ^ 1);
    if (first->used >= most || (take && first->bytes[first->used - 1] == '\n'))
        assets_compare(event, side);
    if (flow->compared[side] || first->used >= most || data->bytes.captured < data->bytes.length) {
        flow->compared[side] = true;
        free(first);
        flow->side[side] = NULL;
        assets->sides--;
    }
}

SLUICE_ON(tcp, gap) {
    if (event->instance)
        SLUICE_STATE_OF(event)->compared[event->side & 1] = true;   /* earlier bytes were compared */
}

SLUICE_ON(tcp, end) {
    for (unsigned side = 0; side < 2 && event->instance; side++)
        assets_compare(event, side);
}

SLUICE_ON(udp, packet) {
    if (!event->instance)
        return;
    assets_host(event, event->side & 1);
    if (event->side & 1 && sl_port_part(event->owner))
        assets_service(event, 1);
}
SLUICE_ON(icmp, packet) {
    if (event->instance)
        assets_host(event, event->side & 1);
}
SLUICE_ON(icmp6, packet) {
    if (event->instance)
        assets_host(event, event->side & 1);
}

SLUICE_DESTROY {
    for (unsigned side = 0; side < 2; side++) {
        SLUICE_WORKER_OF(box)->sides -= state->side[side] != NULL;
        free(state->side[side]);
        state->side[side] = NULL;
    }
}

/* --- signatures --- */

/* Adds the signatures of a file, or own ones; `add` returns the error of a line. False if the file cannot be read. */
static bool assets_read(struct sl_box *box, const char *path, const char *const *own, size_t count, void *to,
                        const char *(*add)(void *to, char *line)) {
    char line[ASSETS_LINE];
    for (size_t i = 0; !*path && i < count; i++) {
        snprintf(line, sizeof line, "%s", own[i]);
        const char *wrong = add(to, line);
        if (wrong)
            sl_fail(box, own[i], wrong);
    }
    FILE *file = *path ? fopen(path, "r") : NULL;
    for (unsigned number = 1; file && fgets(line, sizeof line, file); number++) {
        size_t length = strcspn(line, "\r\n");
        bool whole = line[length] || length + 1 < sizeof line;
        line[length] = 0;
        if (!length || *line == '#')
            continue;
        const char *wrong = whole ? add(to, line) : "it is too long";
        if (wrong) {
            fprintf(stderr, "assets: %s:%u: %s; the line is skipped\n", path, number, wrong);
            SLUICE_COUNTER_OF(box, assets_skipped)++;
        }
    }
    if (*path && !file)
        fprintf(stderr, "assets: %s: %s\n", path, strerror(errno));
    if (file)
        fclose(file);
    return !*path || file;
}

static const char *assets_add_service(void *to, char *line) { return assets_signature_add(to, line); }
static const char *assets_add_system(void *to, char *line) { return assets_system_add(to, line); }

SLUICE_OPEN {
    struct assets *assets = SLUICE_WORKER_OF(box);
    assets->systems.last = &assets->systems.first;
    if (!assets_signatures_open(&assets->services) || !assets_signatures_open(&assets->clients))
        return -1;
    bool read = assets_read(box, SLUICE_PARAMETER_OF(box, services), assets_own_services, sizeof assets_own_services / sizeof *assets_own_services,
                            &assets->services, assets_add_service) &&
                assets_read(box, SLUICE_PARAMETER_OF(box, clients), assets_own_clients, sizeof assets_own_clients / sizeof *assets_own_clients,
                            &assets->clients, assets_add_service) &&
                assets_read(box, SLUICE_PARAMETER_OF(box, systems), assets_own_systems, sizeof assets_own_systems / sizeof *assets_own_systems,
                            &assets->systems, assets_add_system);
    if (!read)
        return -1;
    assets->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return assets->out ? 0 : -1;
}

SLUICE_CLOSE {
    struct assets *assets = SLUICE_WORKER_OF(box);
    if (assets->out)
        sl_rows_close(box, assets->out, "assets");
    assets_signatures_free(&assets->services);
    assets_signatures_free(&assets->clients);
    assets_systems_free(&assets->systems);
}
