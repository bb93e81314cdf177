/* What applications flows carry: nDPI's detection on reassembled data, a row and an event for each flow.
 *
 * nDPI reads IP packets. It gets those of UDP and ICMP as they came, and of TCP packets made of the stream: each piece that
 * was delivered in order is the payload of one, so that segments out of order, or sent again, are not seen by it. As
 * ndpiReader does, a flow is inspected until its application is known and no more is to be learned of it, or until
 * `tcp_packets` or `udp_packets` were inspected; then nDPI says what is likely. */
#include "sluice.h"

#include "dpi_event.h"
#include "flow_ends.h"

#if !__has_include(<ndpi/ndpi_api.h>)
#error applications are detected by nDPI: install libndpi-dev (Debian)
#endif
#include <ndpi/ndpi_api.h>

SLUICE_LIBRARY("ndpi")

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(tcp_packets, number, 80, "packets and pieces of a TCP connection that are inspected, at most")
SLUICE_PARAMETER(udp_packets, number, 24, "packets of another flow that are inspected, at most")
SLUICE_PARAMETER(flows, number, 262144, "flows that are inspected at once, at most")

SLUICE_PUBLISH(dpi_application, DPI_APPLICATION)

SLUICE_COUNTER(dpi_unknown, "flows whose application was not recognised")
SLUICE_COUNTER(dpi_guessed, "flows whose application was guessed, as by their ports")
SLUICE_COUNTER(dpi_given_up, "flows that were given up after the bound of packets")
SLUICE_COUNTER(dpi_left_out, "flows that are not inspected, as too many were open")
SLUICE_COUNTER(dpi_begun_anew, "flows whose inspection began again with their next packets, as another process has them now")
SLUICE_COUNTER(dpi_no_addresses, "flows that are not inspected, as they have no IP addresses")
SLUICE_COUNTER(dpi_cut_packets, "packets that are inspected as far as the snap length or 64 KiB go")

enum {
    DPI_PACKET_MOST = 65535,
    DPI_RISKS_MOST = 64,          /* risks are the bits of a number (ndpi_risk) */
    DPI_RISK_MOST = 128,          /* bytes of a risk's name */
};

struct dpi_flow {
    struct log_flow flow;
    struct flow_ends ends;
    struct ndpi_flow_struct *ndpi;   /* NULL: it is decided */
    ndpi_protocol found;
    uint64_t begin, packets;         /* time of the first packet; packets that were inspected */
    uint64_t offset[2];              /* bytes of each side that were inspected */
    uint8_t protocol;
    bool guessed;
    uint64_t risks;
    bool recognised;                 /* by another process, which had not settled it */
    char name[64], host[80];
};

struct dpi_state {
    struct dpi_flow *flow;
    uint32_t path;
    bool left_out;
};
SLUICE_STATE(struct dpi_state)

struct dpi {
    struct log_output log;
    struct ndpi_detection_module_struct *module;
    uint64_t flows;
    uint8_t packet[DPI_PACKET_MOST];
    char risks[DPI_RISKS_MOST * DPI_RISK_MOST];
};
SLUICE_WORKER(struct dpi)

static bool dpi_is_unknown(const struct dpi_flow *flow)
{
    return flow->found.app_protocol == NDPI_PROTOCOL_UNKNOWN && flow->found.master_protocol == NDPI_PROTOCOL_UNKNOWN;
}

static sl_bytes dpi_text(const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    return (sl_bytes){(const uint8_t *)text, length, length};
}

/* The names of risks, a newline between them. */
static sl_bytes dpi_risk_names(struct dpi *dpi, uint64_t risks)
{
    size_t used = 0;
    for (unsigned risk = 1; risk < NDPI_MAX_RISK && risk < DPI_RISKS_MOST; risk++)
        if (risks >> risk & 1)
            used += (size_t)snprintf(dpi->risks + used, DPI_RISK_MOST, "%s%.*s", used ? "\n" : "", DPI_RISK_MOST - 2,
                                     ndpi_risk2str((ndpi_risk_enum)risk));
    return (sl_bytes){(const uint8_t *)dpi->risks, (uint32_t)used, (uint32_t)used};
}

/* Stores what nDPI knows of a flow besides its application. */
static void dpi_remember(struct dpi_flow *flow)
{
    flow->risks = flow->ndpi->risk;
    snprintf(flow->host, sizeof flow->host, "%s", (const char *)flow->ndpi->host_server_name);
}

/* Ends the inspection of a flow, and publishes what was found. */
static void dpi_settle(const struct sl_event *event, struct dpi_flow *flow)
{
    struct dpi *dpi = SLUICE_WORKER_OF(event->box);
    if (!flow->ndpi)
        return;
    if (flow->found.app_protocol == NDPI_PROTOCOL_UNKNOWN) {
        uint8_t guessed = 0;
        flow->found = ndpi_detection_giveup(dpi->module, flow->ndpi, 1, &guessed);
        flow->guessed = guessed;
    }
    if (!flow->recognised)
        dpi_remember(flow);
    if (!dpi_is_unknown(flow))
        ndpi_protocol2name(dpi->module, flow->found, flow->name, sizeof flow->name);
    ndpi_free_flow_data(flow->ndpi);
    free(flow->ndpi);
    flow->ndpi = NULL;
    SLUICE_EMIT(event, dpi_application, .protocol = flow->found.app_protocol, .master = flow->found.master_protocol,
                .guessed = flow->guessed, .risks = flow->risks, .application = dpi_text(flow->name),
                .category = dpi_text(ndpi_category_get_name(dpi->module, flow->found.category)),
                .hostname = dpi_text(flow->host), .risk_names = dpi_risk_names(dpi, flow->risks));
}

/* A packet with these bytes from a transport header on, for nDPI; the header's own length is `header`. */
static void dpi_inspect(const struct sl_event *event, struct dpi_flow *flow, const uint8_t *header, uint32_t header_length,
                        sl_bytes payload)
{
    struct sl_box *box = event->box;
    unsigned side = event->side & 1;
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    if (flow->recognised)
        dpi_settle(event, flow);
    if (!flow->ndpi)
        return;
    const struct flow_ends *ends = &flow->ends;
    uint8_t *at = dpi->packet;
    uint32_t ip = ends->size == 4 ? 20 : 40, room = DPI_PACKET_MOST - ip - header_length;
    uint32_t bytes = (uint32_t)sl_min(payload.captured, room), length = header_length + bytes;
    SLUICE_COUNTER_OF(box, dpi_cut_packets) += bytes < payload.length;
    memset(at, 0, ip);
    if (ends->size == 4) {
        at[0] = 0x45;
        sl_store_be16(at + 2, ip + length);
        at[8] = 64;
        at[9] = flow->protocol;
        memcpy(at + 12, ends->address[side], 4);
        memcpy(at + 16, ends->address[side ^ 1], 4);
    } else {
        at[0] = 0x60;
        sl_store_be16(at + 4, length);
        at[6] = flow->protocol;
        at[7] = 64;
        memcpy(at + 8, ends->address[side], 16);
        memcpy(at + 24, ends->address[side ^ 1], 16);
    }
    memcpy(at + ip, header, header_length);
    if (bytes)
        memcpy(at + ip + header_length, payload.at, bytes);
    flow->packets++;
    flow->found = ndpi_detection_process_packet(dpi->module, flow->ndpi, at, (unsigned short)(ip + length),
                                                sl_packet_time(event) / 1000000);
    bool tcp = flow->protocol == 6;
    bool enough = flow->packets > (tcp ? SLUICE_PARAMETER_OF(box, tcp_packets) : SLUICE_PARAMETER_OF(box, udp_packets));
    bool known = flow->found.app_protocol != NDPI_PROTOCOL_UNKNOWN;
    if (enough || (known && !ndpi_extra_dissection_possible(dpi->module, flow->ndpi))) {
        SLUICE_COUNTER_OF(box, dpi_given_up) += !known;
        dpi_settle(event, flow);
    }
}

/* The flow of an event, made when it is needed first; NULL beyond the bounds. */
static struct dpi_flow *dpi_flow_of(const struct sl_event *event)
{
    struct sl_box *box = event->box;
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    struct dpi_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || state->flow || state->left_out)
        return state ? state->flow : NULL;
    bool many = dpi->flows >= SLUICE_PARAMETER_OF(box, flows);
    struct dpi_flow *flow = many ? NULL : calloc(1, sizeof *flow);
    struct ndpi_flow_struct *ndpi = flow ? calloc(1, SIZEOF_FLOW_STRUCT) : NULL;
    state->left_out = true;
    if (!ndpi) {
        free(flow);
        SLUICE_COUNTER_OF(box, dpi_left_out)++;
        return NULL;
    }
    flow->flow = log_flow_of(event, state->path);
    flow_ends_of(&flow->ends, &flow->flow);
    flow->protocol = log_protocol(&flow->flow);
    if (!flow->ends.size || !flow->protocol) {
        free(ndpi);
        free(flow);
        SLUICE_COUNTER_OF(box, dpi_no_addresses)++;
        return NULL;
    }
    flow->ndpi = ndpi;
    flow->begin = sl_packet_time(event);
    dpi->flows++;
    return state->flow = flow;
}

/* --- events --- */

SLUICE_ON(any, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

/* The TCP header of a packet that is made: numbers count from the first inspected byte. */
static void dpi_tcp_header(const struct dpi_flow *flow, unsigned side, uint8_t flags, uint8_t header[20])
{
    memset(header, 0, 20);
    sl_store_be16(header, flow->ends.port[side]);
    sl_store_be16(header + 2, flow->ends.port[side ^ 1]);
    sl_store_be32(header + 4, (uint32_t)flow->offset[side] + !(flags & 2));
    sl_store_be32(header + 8, flags & 16 ? (uint32_t)flow->offset[side ^ 1] + 1 : 0);
    header[12] = 5 << 4;
    header[13] = flags;
    sl_store_be16(header + 14, 65535);
}

SLUICE_ON(tcp, data) {
    struct dpi_flow *flow = dpi_flow_of(event);
    if (!flow || !flow->ndpi)
        return;
    unsigned side = event->side & 1;
    uint8_t header[20];
    dpi_tcp_header(flow, side, 24, header);
    dpi_inspect(event, flow, header, sizeof header, data->bytes);
    flow->offset[side] += data->bytes.length;
}

/* Packets without data are inspected, too: nDPI learns from flags. */
SLUICE_ON(tcp, packet) {
    struct dpi_flow *flow = data->length ? NULL : dpi_flow_of(event);
    if (!flow || !flow->ndpi || event->unit.captured < 14)
        return;
    unsigned side = event->side & 1;
    uint8_t header[20];
    dpi_tcp_header(flow, side, event->unit.at[13], header);
    dpi_inspect(event, flow, header, sizeof header, (sl_bytes){0});
}

/* A packet of UDP or ICMP unchanged, from its transport header on. */
static void dpi_packet(const struct sl_event *event)
{
    struct dpi_flow *flow = dpi_flow_of(event);
    if (flow && flow->ndpi && event->unit.captured >= 8)
        dpi_inspect(event, flow, event->unit.at, 8, sl_bytes_after(event->unit, 8));
}

SLUICE_ON(udp, packet) { dpi_packet(event); }
SLUICE_ON(icmp, packet) { dpi_packet(event); }
SLUICE_ON(icmp6, packet) { dpi_packet(event); }

SLUICE_ON(any, end) {
    struct dpi_flow *flow = event->instance ? SLUICE_STATE_OF(event)->flow : NULL;
    if (!flow)
        return;
    struct sl_box *box = event->box;
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    dpi_settle(event, flow);
    SLUICE_COUNTER_OF(box, dpi_unknown) += dpi_is_unknown(flow);
    SLUICE_COUNTER_OF(box, dpi_guessed) += flow->guessed;
    struct log_text *row = log_begin(&dpi->log, box, &flow->flow, 0, flow->begin);
    log_number(row, "protocol", flow->protocol);
    log_word(row, "application", *flow->name ? flow->name : NULL);
    log_word(row, "category", ndpi_category_get_name(dpi->module, flow->found.category));
    log_flag(row, "guessed", flow->guessed);
    log_word(row, "hostname", *flow->host ? flow->host : NULL);
    log_put(row, ",\"risks\":[");
    for (unsigned risk = 1, some = 0; risk < NDPI_MAX_RISK; risk++)
        if (flow->risks >> risk & 1) {
            log_put(row, some++ ? "," : "");
            const char *text = ndpi_risk2str((ndpi_risk_enum)risk);
            log_string(row, text, strlen(text));
        }
    log_put(row, "]");
    log_number(row, "inspected", flow->packets);
    log_finish(&dpi->log);
}

SLUICE_DESTROY {
    if (!state->flow)
        return;
    if (state->flow->ndpi) {
        ndpi_free_flow_data(state->flow->ndpi);
        free(state->flow->ndpi);
    }
    free(state->flow);
    state->flow = NULL;
    SLUICE_WORKER_OF(box)->flows--;
}

/* What nDPI knows of a flow that is not decided cannot be stored. */
SLUICE_STORED(zero, "the application of a flow, once it is recognised") {
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    struct dpi_flow *flow = state->flow;
    log_path_stored(stored, &dpi->log, box, &state->path);
    SL_STORED(stored, state->left_out);
    if (!sl_stored_more(stored, flow != NULL) || !(flow = sl_stored_block(stored, flow, sizeof *flow, sizeof *flow)))
        return;
    if (stored->reads) {
        state->flow = flow;
        dpi->flows++;
    } else if (flow->ndpi && !flow->recognised && flow->found.app_protocol != NDPI_PROTOCOL_UNKNOWN) {
        dpi_remember(flow);
    }
    log_flow_stored(stored, &dpi->log, box, &flow->flow);
    SL_STORED(stored, flow->found.master_protocol);
    SL_STORED(stored, flow->found.app_protocol);
    SL_STORED(stored, flow->found.category);
    bool decided = !flow->ndpi, recognised = flow->ndpi && flow->found.app_protocol != NDPI_PROTOCOL_UNKNOWN;
    SL_STORED(stored, decided);
    sl_stored_bytes(stored, &flow->begin, sizeof *flow - offsetof(struct dpi_flow, begin));
    SL_STORED(stored, recognised);
    flow->recognised |= stored->reads && recognised;
    if (!stored->reads)
        return;
    flow_ends_of(&flow->ends, &flow->flow);
    flow->host[sizeof flow->host - 1] = flow->name[sizeof flow->name - 1] = 0;
    flow->protocol = log_protocol(&flow->flow);
    if (decided)
        return;
    flow->ndpi = calloc(1, SIZEOF_FLOW_STRUCT);
    stored->failed |= !flow->ndpi || !flow->ends.size;
    SLUICE_COUNTER_OF(box, dpi_begun_anew) += !recognised;
}

SLUICE_OPEN {
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    dpi->module = ndpi_init_detection_module(ndpi_no_prefs);
    if (!dpi->module) {
        fprintf(stderr, "dpi: nDPI cannot be set up: this libndpi is not the one that its headers belong to, or no memory\n");
        return -1;
    }
    NDPI_PROTOCOL_BITMASK all;
    NDPI_BITMASK_SET_ALL(all);
    ndpi_set_protocol_detection_bitmask2(dpi->module, &all);
    ndpi_finalize_initialization(dpi->module);
    return log_open(&dpi->log, box, "dpi", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    struct dpi *dpi = SLUICE_WORKER_OF(box);
    if (dpi->log.out)
        log_close(&dpi->log, box, "dpi rows", "dpi rows lost for want of memory", "dpi flows without layers");
    if (dpi->module)
        ndpi_exit_detection_module(dpi->module);
}
