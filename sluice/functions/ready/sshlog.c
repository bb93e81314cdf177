/* Writes a row for each connection of SSH (RFC 4253): versions of both sides, the algorithms that they offer and agree on,
 * and the fingerprints HASSH and HASSHServer of these offers.
 *
 * SSH is detected by its identification line (4.2), on any port; a server may send other lines before it. A row is
 * written when both sides have offered their algorithms, or when the connection ends. */
#include "sluice.h"

#include "log_reader.h"
#include "log_stream.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side in which the identification line may begin")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 67108864, "bytes that all of them store together, at most")

SLUICE_COUNTER(ssh_gaps, "sides of which nothing more is read, as bytes are missing")
SLUICE_COUNTER(ssh_bad_packets, "sides whose first packets are not those of SSH: their length or padding is wrong")
SLUICE_COUNTER(ssh_too_long, "sides with an offer or a line beyond the bounds")
SLUICE_COUNTER(ssh_names_left_out, "lists of algorithms of which only the first 256 names are compared")
SLUICE_COUNTER(ssh_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(ssh_no_memory, "sides that are not read for want of memory, or of the bound's")

enum {
    SSHLOG_PORT = 22, SSHLOG_LINE = 255,       /* RFC 4253, 4.2 */
    SSHLOG_PACKET = 1 << 16,                   /* 6.1: 35000 bytes must be accepted; some offers are longer */
    SSHLOG_NAMES = 256,                        /* of a list of each side; every pair of them may be compared */
    SSHLOG_KEXINIT = 20, SSHLOG_NEWKEYS = 21, SSHLOG_LISTS = 10, SSHLOG_PACKETS = 16,
};
enum sshlog_list { SSHLOG_KEX, SSHLOG_HOST_KEY, SSHLOG_CIPHER, SSHLOG_MAC = 4, SSHLOG_COMPRESSION = 6 };   /* client to server */

enum sshlog_step { SSHLOG_SEARCHING, SSHLOG_PACKETS_STEP, SSHLOG_OFFERED, SSHLOG_STOPPED };

enum sshlog_error { SSHLOG_NONE, SSHLOG_LENGTH, SSHLOG_MEMORY, SSHLOG_PADDING, SSHLOG_NO_OFFER, SSHLOG_LONG, SSHLOG_VERSION_1, SSHLOG_GAP };
static const char *const sshlog_errors[] = {NULL,       "packet length", "no memory", "padding",
                                            "no offer", "line too long", "version 1", "gap"};

struct sshlog_side {
    enum sshlog_step step;
    uint8_t error;                  /* enum sshlog_error */
    uint64_t searched;
    uint32_t packets;
    bool cut;
    struct log_held line, packet;   /* the identification; the current packet, then the offer */
};

struct sshlog_connection {
    struct log_flow flow;
    uint64_t time;
    uint8_t client;
    struct sshlog_side side[2];
};

struct sshlog_state { struct sshlog_connection *connection; uint32_t path; bool over; };
SLUICE_STATE(struct sshlog_state)

struct sshlog { struct log_output log; struct log_budget budget; uint64_t open; };
SLUICE_WORKER(struct sshlog)

/* --- offers --- */

/* A list of names in the offer of a side; empty if there is none. */
static struct log_reader sshlog_list(const struct sshlog_side *side, unsigned list)
{
    struct log_reader offer = {side->packet.at, side->packet.used, false}, names = {NULL, 0, false};
    if (side->step != SSHLOG_OFFERED)
        return names;
    log_read_part(&offer, 17);   /* the type and a cookie (RFC 4253, 7.1) */
    for (unsigned i = 0; i <= list; i++)
        names = log_read_part(&offer, log_read(&offer, 4));
    return names;
}

/* The length of the first name of a list. */
static uint32_t sshlog_first(const struct log_reader *names)
{
    const uint8_t *comma = names->left ? memchr(names->at, ',', names->left) : NULL;
    return comma ? (uint32_t)(comma - names->at) : names->left;
}

/* The first names of a list, SSHLOG_NAMES at most. */
static struct log_reader sshlog_names(struct sl_box *box, const struct sshlog_side *side, unsigned list)
{
    struct log_reader names = sshlog_list(side, list);
    unsigned count = 0;
    for (uint32_t i = 0; i < names.left; i++)
        if (names.at[i] == ',' && ++count == SSHLOG_NAMES) {
            SLUICE_COUNTER_OF(box, ssh_names_left_out)++;
            names.left = i;
        }
    return names;
}

/* Writes the algorithm that both sides agree on: the client's first one that the server offers, too (7.1). */
static void sshlog_agreed(struct sl_box *box, struct log_text *row, const char *name, const struct sshlog_connection *connection,
                          unsigned list)
{
    struct log_reader client = sshlog_names(box, &connection->side[connection->client], list);
    const struct log_reader offered = sshlog_names(box, &connection->side[connection->client ^ 1], list);
    while (client.left) {
        uint32_t length = sshlog_first(&client);
        struct log_reader server = offered;
        while (server.left) {
            uint32_t other = sshlog_first(&server);
            if (other == length && !memcmp(client.at, server.at, length)) {
                log_octets(row, name, client.at, length);
                return;
            }
            log_read_part(&server, sl_min(other + 1u, server.left));
        }
        log_read_part(&client, sl_min(length + 1u, client.left));
    }
    log_word(row, name, NULL);
}

/* Writes the lists of a fingerprint, and its hash. `server`: those from the server to the client. */
static void sshlog_hassh(struct log_text *row, const struct log_hashes *hashes, const struct sshlog_side *side, bool server)
{
    const unsigned lists[] = {SSHLOG_KEX, SSHLOG_CIPHER + server, SSHLOG_MAC + server, SSHLOG_COMPRESSION + server};
    struct log_text text = {0};
    uint8_t hash[LOG_HASH_MOST];
    for (unsigned i = 0; i < 4; i++) {
        struct log_reader names = sshlog_list(side, lists[i]);
        log_put(&text, i ? ";" : "");
        log_bytes(&text, names.at, names.left);
    }
    bool offered = side->step == SSHLOG_OFFERED && !text.failed;
    log_name(row, server ? "hassh_server" : "hassh");
    if (offered && log_hash(hashes, &hashes->md5, text.at, text.used, hash)) {
        log_put(row, "\"");
        log_hex(row, hash, 16);
        log_put(row, "\"");
    } else {
        log_put(row, "null");
    }
    log_octets(row, server ? "hassh_server_algorithms" : "hassh_algorithms", offered ? (const uint8_t *)text.at : NULL, (uint32_t)text.used);
    free(text.at);
}

static void sshlog_row(struct sl_box *box, struct sshlog_connection *connection)
{
    struct sshlog *ssh = SLUICE_WORKER_OF(box);
    struct sshlog_side *client = &connection->side[connection->client], *server = &connection->side[connection->client ^ 1];
    if (!connection->time)
        return;
    struct log_text *row = log_begin(&ssh->log, box, &connection->flow, connection->client, connection->time);
    log_octets(row, "client", client->line.at, client->step == SSHLOG_SEARCHING ? 0 : client->line.used);
    log_octets(row, "server", server->line.at, server->step == SSHLOG_SEARCHING ? 0 : server->line.used);
    sshlog_hassh(row, &ssh->log.hashes, client, false);
    sshlog_hassh(row, &ssh->log.hashes, server, true);
    sshlog_agreed(box, row, "kex", connection, SSHLOG_KEX);
    sshlog_agreed(box, row, "host_key", connection, SSHLOG_HOST_KEY);
    sshlog_agreed(box, row, "client_cipher", connection, SSHLOG_CIPHER);
    sshlog_agreed(box, row, "server_cipher", connection, SSHLOG_CIPHER + 1);
    sshlog_agreed(box, row, "client_mac", connection, SSHLOG_MAC);
    sshlog_agreed(box, row, "server_mac", connection, SSHLOG_MAC + 1);
    sshlog_agreed(box, row, "compression", connection, SSHLOG_COMPRESSION);
    log_word(row, "client_error", sshlog_errors[client->error]);
    log_word(row, "server_error", sshlog_errors[server->error]);
    log_finish(&ssh->log);
    connection->time = 0;
}

/* --- reading --- */

static void sshlog_stop(struct sshlog_side *side, enum sshlog_error why)
{
    side->step = SSHLOG_STOPPED;
    side->error = (uint8_t)why;
}

/* Reads packets that are not encrypted, up to the offer (RFC 4253, 6). */
static void sshlog_packets(struct sl_box *box, struct sshlog_side *side, const uint8_t *at, uint32_t length)
{
    struct sshlog *ssh = SLUICE_WORKER_OF(box);
    while (length && side->step == SSHLOG_PACKETS_STEP) {
        uint64_t whole = side->packet.used < 4 ? 4 : 4 + sl_load_be32(side->packet.at);
        if (side->packet.used >= 4 && (whole < 4 + 2 || whole > SSHLOG_PACKET)) {
            SLUICE_COUNTER_OF(box, ssh_bad_packets)++;
            sshlog_stop(side, SSHLOG_LENGTH);
            return;
        }
        uint32_t take = (uint32_t)sl_min(whole - side->packet.used, length);
        if (!log_held_add(&side->packet, &ssh->budget, at, take, SSHLOG_PACKET)) {
            SLUICE_COUNTER_OF(box, ssh_no_memory)++;
            sshlog_stop(side, SSHLOG_MEMORY);
            return;
        }
        at += take;
        length -= take;
        if (side->packet.used < 5 || side->packet.used < 4 + sl_load_be32(side->packet.at))
            continue;
        uint8_t padding = side->packet.at[4];
        uint32_t payload = side->packet.used - 5;
        if (padding >= payload) {
            SLUICE_COUNTER_OF(box, ssh_bad_packets)++;
            sshlog_stop(side, SSHLOG_PADDING);
            return;
        }
        uint8_t type = side->packet.at[5];
        if (type == SSHLOG_KEXINIT) {
            log_held_skip(&side->packet, 5);
            side->packet.used -= padding;
            side->step = SSHLOG_OFFERED;
        } else if (type == SSHLOG_NEWKEYS || ++side->packets >= SSHLOG_PACKETS) {
            sshlog_stop(side, SSHLOG_NO_OFFER);
        } else {
            side->packet.used = 0;
        }
    }
}

/* Finds the identification line. */
static void sshlog_search(struct sl_box *box, struct sshlog_connection *connection, struct sshlog_side *side, const uint8_t *at,
                          uint32_t length)
{
    struct sshlog *ssh = SLUICE_WORKER_OF(box);
    while (length && side->step == SSHLOG_SEARCHING) {
        const uint8_t *before = at;
        bool line = log_held_line(&side->line, &ssh->budget, &at, &length, SSHLOG_LINE, &side->cut);
        side->searched += (uint64_t)(at - before);
        bool begins = side->line.used >= 4 && !memcmp(side->line.at, "SSH-", 4);
        if (begins && !connection->time)
            connection->time = sl_box_time(box);
        if (begins && line) {
            SLUICE_COUNTER_OF(box, ssh_too_long) += side->cut;
            side->step = SSHLOG_PACKETS_STEP;
        } else if (!begins && side->searched >= SLUICE_PARAMETER_OF(box, search)) {
            side->step = SSHLOG_STOPPED;
        } else if (begins && side->cut && side->searched > 2 * SSHLOG_LINE) {
            SLUICE_COUNTER_OF(box, ssh_too_long)++;
            sshlog_stop(side, SSHLOG_LONG);
        } else if (line) {
            side->line.used = 0;
            side->cut = false;
        }
    }
    if (length && side->step == SSHLOG_PACKETS_STEP && side->line.used >= 8 && !memcmp(side->line.at, "SSH-1.5", 7))
        sshlog_stop(side, SSHLOG_VERSION_1);
    if (length && side->step == SSHLOG_PACKETS_STEP)
        sshlog_packets(box, side, at, length);
}

static void sshlog_free(struct sl_box *box, struct sshlog_state *state)
{
    struct sshlog *ssh = SLUICE_WORKER_OF(box);
    if (!state->connection)
        return;
    for (unsigned i = 0; i < 2; i++) {
        log_held_free(&state->connection->side[i].line, &ssh->budget);
        log_held_free(&state->connection->side[i].packet, &ssh->budget);
    }
    free(state->connection);
    state->connection = NULL;
    ssh->open--;
}

/* Ends the reading of a connection on which both sides have ended, with its row. */
static void sshlog_settle(struct sl_box *box, struct sshlog_state *state)
{
    struct sshlog_connection *connection = state->connection;
    for (unsigned i = 0; i < 2; i++)
        if (connection->side[i].step < SSHLOG_OFFERED)
            return;
    sshlog_row(box, connection);
    sshlog_free(box, state);
    state->over = true;
}

static struct sshlog_connection *sshlog_connection(const struct sl_event *event)
{
    struct sshlog *ssh = SLUICE_WORKER_OF(event->box);
    struct sshlog_state *state = SLUICE_STATE_OF(event);
    if (state->connection || state->over)
        return state->connection;
    bool many = ssh->open >= SLUICE_PARAMETER_OF(event->box, connections);
    state->connection = many ? NULL : calloc(1, sizeof *state->connection);
    if (!state->connection) {
        SLUICE_COUNTER_OF(event->box, ssh_connections_left_out) += many;
        SLUICE_COUNTER_OF(event->box, ssh_no_memory) += !many;
        state->over = true;
        return NULL;
    }
    ssh->open++;
    state->connection->flow = log_flow_of(event, state->path);
    state->connection->client = (uint8_t)log_client(event, SSHLOG_PORT);
    return state->connection;
}

SLUICE_ON(tcp, created) {
    if (event->instance)
        SLUICE_STATE_OF(event)->path = log_path_of(&SLUICE_WORKER_OF(event->box)->log, event->box);
}

SLUICE_ON(tcp, data) {
    struct sshlog_connection *connection = event->instance ? sshlog_connection(event) : NULL;
    if (!connection)
        return;
    struct sshlog_side *side = &connection->side[event->side & 1];
    if (side->step == SSHLOG_SEARCHING)
        sshlog_search(event->box, connection, side, data->bytes.at, data->bytes.captured);
    else if (side->step == SSHLOG_PACKETS_STEP)
        sshlog_packets(event->box, side, data->bytes.at, data->bytes.captured);
    sshlog_settle(event->box, SLUICE_STATE_OF(event));
}

SLUICE_ON(tcp, gap) {
    struct sshlog_state *state = event->instance ? SLUICE_STATE_OF(event) : NULL;
    if (!state || !state->connection)
        return;
    struct sshlog_side *side = &state->connection->side[event->side & 1];
    if (side->step >= SSHLOG_OFFERED)
        return;
    SLUICE_COUNTER_OF(event->box, ssh_gaps) += state->connection->time != 0;
    sshlog_stop(side, SSHLOG_GAP);
    sshlog_settle(event->box, state);
}

SLUICE_ON(tcp, end) {
    if (event->instance && SLUICE_STATE_OF(event)->connection)
        sshlog_row(event->box, SLUICE_STATE_OF(event)->connection);
}

SLUICE_DESTROY { sshlog_free(box, state); }

SLUICE_STORED(zero, "what both sides have said before they encrypt") {
    struct sshlog *ssh = SLUICE_WORKER_OF(box);
    log_path_stored(stored, &ssh->log, box, &state->path);
    SL_STORED(stored, state->over);
    if (!sl_stored_more(stored, state->connection != NULL))
        return;
    struct sshlog_connection *connection = sl_stored_block(stored, state->connection, sizeof *connection, sizeof *connection);
    if (!connection)
        return;
    state->connection = connection;
    ssh->open += stored->reads;
    log_flow_stored(stored, &ssh->log, box, &connection->flow);
    SL_STORED(stored, connection->time);
    SL_STORED(stored, connection->client);
    connection->client &= 1;
    for (unsigned i = 0; i < 2; i++) {
        struct sshlog_side *side = &connection->side[i];
        sl_stored_bytes(stored, side, offsetof(struct sshlog_side, line));
        log_held_stored(stored, &side->line, &ssh->budget, SSHLOG_LINE);
        log_held_stored(stored, &side->packet, &ssh->budget, SSHLOG_PACKET);
        if (side->step > SSHLOG_STOPPED || side->error >= sizeof sshlog_errors / sizeof *sshlog_errors) {
            *side = (struct sshlog_side){.step = SSHLOG_STOPPED, .line = side->line, .packet = side->packet};
            stored->failed = true;
        }
    }
}

SLUICE_OPEN {
    SLUICE_WORKER_OF(box)->budget.most = SLUICE_PARAMETER_OF(box, memory);
    return log_open(&SLUICE_WORKER_OF(box)->log, box, "ssh", SLUICE_PARAMETER_OF(box, out));
}

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "sshlog rows", "sshlog rows lost for want of memory",
              "sshlog flows without layers");
}
