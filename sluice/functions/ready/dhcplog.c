/* Writes a row for each message of DHCP (RFC 2131, and BOOTP, RFC 951) on UDP ports 67 and 68, and of DHCPv6 (RFC 8415) on
 * ports 546 and 547. */
#include "sluice.h"

#include "log_datagram.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(dhcp_short, "messages that end within their fixed part")
SLUICE_COUNTER(dhcp_not_dhcp, "datagrams on a port of DHCP that have no header of it")
SLUICE_COUNTER(dhcp_malformed, "messages whose options extend beyond their end")
SLUICE_COUNTER(dhcp_cut, "messages that the snap length cut off, read as far as they are there")

enum {
    DHCPLOG_SERVER = 67, DHCPLOG_CLIENT = 68, DHCPLOG_CLIENT6 = 546, DHCPLOG_SERVER6 = 547,
    DHCPLOG_FIXED = 236, DHCPLOG_OPTIONS = 256, DHCPLOG_TEXT = 1024, DHCPLOG_ADDRESSES = 16, DHCPLOG_RELAYS = 8,
};

struct dhcplog { struct log_output log; };
SLUICE_WORKER(struct dhcplog)

static const struct log_named dhcplog_types[] = {
    {1, "DISCOVER"}, {2, "OFFER"}, {3, "REQUEST"}, {4, "DECLINE"}, {5, "ACK"}, {6, "NAK"}, {7, "RELEASE"}, {8, "INFORM"},
    {9, "FORCERENEW"}, {10, "LEASEQUERY"}, {11, "LEASEUNASSIGNED"}, {12, "LEASEUNKNOWN"}, {13, "LEASEACTIVE"}};
static const struct log_named dhcplog_types6[] = {
    {1, "SOLICIT"}, {2, "ADVERTISE"}, {3, "REQUEST"}, {4, "CONFIRM"}, {5, "RENEW"}, {6, "REBIND"}, {7, "REPLY"}, {8, "RELEASE"},
    {9, "DECLINE"}, {10, "RECONFIGURE"}, {11, "INFORMATION-REQUEST"}, {12, "RELAY-FORW"}, {13, "RELAY-REPL"},
    {14, "LEASEQUERY"}, {15, "LEASEQUERY-REPLY"}};

/* The options of a message of DHCP by code. The parts of one that is given several times are joined (RFC 3396). */
struct dhcplog_options {
    struct { uint32_t at, length; } option[DHCPLOG_OPTIONS];
    uint8_t bytes[2048];
    uint32_t used;
};

/* Stores an option. Returns false if its parts together exceed the bound. */
static bool dhcplog_store(struct dhcplog_options *options, uint8_t code, const struct log_reader *value)
{
    uint32_t before = options->option[code].length;
    if (before + value->left > sizeof options->bytes - options->used)
        return false;
    /* the parts of an option are adjacent: an earlier one is copied in front of the next */
    memmove(options->bytes + options->used, options->bytes + options->option[code].at, before);
    if (value->left)
        memcpy(options->bytes + options->used + before, value->at, value->left);
    options->option[code].at = options->used;
    options->option[code].length = before + value->left;
    options->used += before + value->left;
    return true;
}

/* Reads the options of a field (RFC 2132, 2). Returns false if they extend beyond its end. */
static bool dhcplog_read(struct dhcplog_options *options, struct log_reader field)
{
    while (field.left) {
        uint8_t code = (uint8_t)log_read(&field, 1);
        if (code == 255)
            return true;
        if (!code)
            continue;
        struct log_reader value = log_read_part(&field, log_read(&field, 1));
        if (field.failed || !dhcplog_store(options, code, &value))
            return false;
    }
    return true;
}

static const uint8_t *dhcplog_option(const struct dhcplog_options *options, uint8_t code, uint32_t *length)
{
    *length = options->option[code].length;
    return *length ? options->bytes + options->option[code].at : NULL;
}

static void dhcplog_text(struct log_text *row, const char *name, const struct dhcplog_options *options, uint8_t code)
{
    uint32_t length;
    const uint8_t *at = dhcplog_option(options, code, &length);
    while (length && !at[length - 1])   /* some clients end texts with zeros (RFC 2132, 2) */
        length--;
    log_octets(row, name, at, length);
}

static void dhcplog_address(struct log_text *row, const char *name, const struct dhcplog_options *options, uint8_t code)
{
    uint32_t length;
    const uint8_t *at = dhcplog_option(options, code, &length);
    log_ip(row, name, at, length);
}

static void dhcplog_seconds(struct log_text *row, const char *name, const struct dhcplog_options *options, uint8_t code)
{
    uint32_t length;
    const uint8_t *at = dhcplog_option(options, code, &length);
    log_number_if(row, name, at && length == 4, at && length == 4 ? sl_load_be32(at) : 0);
}

/* Writes an option of several addresses as a list. */
static void dhcplog_addresses(struct log_text *row, const char *name, const struct dhcplog_options *options, uint8_t code)
{
    uint32_t length;
    const uint8_t *at = dhcplog_option(options, code, &length);
    char text[INET_ADDRSTRLEN];
    log_name(row, name);
    log_put(row, "[");
    for (uint32_t i = 0; i + 4 <= length && i < 4 * DHCPLOG_ADDRESSES; i += 4)
        log_format(row, "%s\"%s\"", i ? "," : "", inet_ntop(AF_INET, at + i, text, sizeof text));
    log_put(row, "]");
}

/* A header field that is an address; null if it is 0.0.0.0. */
static void dhcplog_field(struct log_text *row, const char *name, const uint8_t *at)
{
    log_ip(row, name, sl_load_be32(at) ? at : NULL, 4);
}

/* The name of the client (RFC 4702, 2): after the flags and two codes. It is in DNS's form if the E flag is set. */
static void dhcplog_fqdn(struct log_text *row, const struct dhcplog_options *options)
{
    uint32_t length;
    const uint8_t *at = dhcplog_option(options, 81, &length);
    char name[256];
    uint32_t used = 0;
    if (!at || length < 4) {
        log_word(row, "client_fqdn", NULL);
        return;
    }
    if (!(at[0] & 4)) {
        log_octets(row, "client_fqdn", at + 3, length - 3);
        return;
    }
    for (uint32_t i = 3; i < length && at[i] && at[i] < 64 && at[i] < length - i && used + at[i] + 1u < sizeof name; i += at[i] + 1u) {
        if (used)
            name[used++] = '.';
        memcpy(name + used, at + i + 1, at[i]);
        used += at[i];
    }
    log_octets(row, "client_fqdn", (const uint8_t *)name, used);
}

static void dhcplog_row(const struct sl_event *event, sl_bytes message)
{
    static const uint8_t cookie[] = {99, 130, 83, 99};   /* RFC 2131, 3 */
    struct dhcplog *dhcp = SLUICE_WORKER_OF(event->box);
    struct dhcplog_options options = {.used = 0};
    const uint8_t *at = message.at;
    char text[16];
    uint32_t length;
    struct log_reader field = {at + DHCPLOG_FIXED, message.captured - DHCPLOG_FIXED, false};
    bool has_options = field.left >= 4 && !memcmp(field.at, cookie, 4), whole = true;
    if (has_options) {
        log_read_part(&field, 4);
        whole = dhcplog_read(&options, field);
        /* option 52: the fields for file and server name have options, too (RFC 2132, 9.3) */
        const uint8_t *overload = dhcplog_option(&options, 52, &length);
        uint8_t more = overload && length == 1 ? overload[0] : 0;
        whole &= !(more & 1) || dhcplog_read(&options, (struct log_reader){at + 108, 128, false});
        whole &= !(more & 2) || dhcplog_read(&options, (struct log_reader){at + 44, 64, false});
    }
    SLUICE_COUNTER_OF(event->box, dhcp_malformed) += !whole && message.captured == message.length;
    struct log_text *row = log_message(&dhcp->log, event);
    const uint8_t *type = dhcplog_option(&options, 53, &length);
    log_number(row, "version", 4);
    log_word(row, "type", type && length == 1 ? LOG_NAMED(dhcplog_types, type[0], text) : at[0] == 1 ? "BOOTREQUEST" : "BOOTREPLY");
    log_number(row, "transaction", sl_load_be32(at + 4));
    log_mac(row, "client_mac", at[1] == 1 && at[2] == 6 ? at + 28 : NULL);
    dhcplog_field(row, "client_address", at + 12);
    dhcplog_field(row, "your_address", at + 16);
    dhcplog_field(row, "next_server", at + 20);
    dhcplog_field(row, "relay", at + 24);
    log_number(row, "hops", at[3]);
    log_number(row, "waited", sl_load_be16(at + 8));
    dhcplog_address(row, "requested_address", &options, 50);
    dhcplog_address(row, "server", &options, 54);
    dhcplog_address(row, "subnet_mask", &options, 1);
    dhcplog_addresses(row, "routers", &options, 3);
    dhcplog_addresses(row, "name_servers", &options, 6);
    dhcplog_seconds(row, "lease_time", &options, 51);
    dhcplog_text(row, "host_name", &options, 12);
    dhcplog_fqdn(row, &options);
    dhcplog_text(row, "domain", &options, 15);
    dhcplog_text(row, "vendor_class", &options, 60);
    dhcplog_text(row, "message", &options, 56);
    const uint8_t *asked = dhcplog_option(&options, 55, &length);
    log_put(row, ",\"parameters\":[");
    for (uint32_t i = 0; i < length; i++)
        log_format(row, "%s%u", i ? "," : "", asked[i]);
    log_put(row, "]");
    log_put(row, ",\"duid\":null,\"addresses\":[]");
    log_flag(row, "malformed", !whole);
    log_finish(&dhcp->log);
}

/* --- DHCPv6 --- */

/* The fields of a message of DHCPv6. */
struct dhcplog6 {
    struct log_reader duid, server, fqdn, status;
    struct log_reader address[DHCPLOG_ADDRESSES];
    uint32_t addresses, lifetime;
    bool has_lifetime;
};

/* Reads options, and those within associations of addresses and prefixes (RFC 8415, 21). Returns false if they extend
 * beyond their end. */
static bool dhcplog_read6(struct dhcplog6 *found, struct log_reader options, unsigned depth)
{
    while (options.left) {
        uint32_t code = (uint32_t)log_read(&options, 2);
        struct log_reader value = log_read_part(&options, log_read(&options, 2));
        if (options.failed)
            return false;
        struct log_reader rest = value;
        switch (code) {
        case 1: found->duid = value; break;
        case 2: found->server = value; break;
        case 39: found->fqdn = value; break;
        case 13: found->status = value; break;
        case 3: case 25: case 4:   /* IA_NA, IA_PD, IA_TA */
            log_read_part(&rest, code == 4 ? 4 : 12);
            if (rest.failed || depth || !dhcplog_read6(found, rest, depth + 1))
                return false;
            break;
        case 5:   /* IAADDR */
            if (value.left < 24)
                return false;
            found->lifetime = (uint32_t)sl_load_be32(value.at + 20);
            found->has_lifetime = true;
            if (found->addresses < DHCPLOG_ADDRESSES)
                found->address[found->addresses++] = (struct log_reader){value.at, 16, false};
            break;
        case 26:  /* IAPREFIX */
            if (value.left < 25)
                return false;
            found->lifetime = (uint32_t)sl_load_be32(value.at + 4);
            found->has_lifetime = true;
            if (found->addresses < DHCPLOG_ADDRESSES)
                found->address[found->addresses++] = (struct log_reader){value.at + 9, 16, false};
            break;
        default: break;
        }
    }
    return true;
}

/* The message that relays carry (RFC 8415, 9), with the number of relays. Returns false if one is malformed. */
static bool dhcplog_relayed(struct log_reader *message, unsigned *relays)
{
    while (message->left && (message->at[0] == 12 || message->at[0] == 13)) {
        struct log_reader options = *message, inner = {NULL, 0, true};
        log_read_part(&options, 34);
        while (options.left) {
            uint32_t code = (uint32_t)log_read(&options, 2);
            struct log_reader value = log_read_part(&options, log_read(&options, 2));
            if (code == 9 && !value.failed)
                inner = value;
        }
        if (options.failed || inner.failed || ++*relays > DHCPLOG_RELAYS)
            return false;
        *message = inner;
    }
    return message->left >= 4;
}

static void dhcplog_row6(const struct sl_event *event, sl_bytes datagram)
{
    struct dhcplog *dhcp = SLUICE_WORKER_OF(event->box);
    struct dhcplog6 found = {.addresses = 0};
    struct log_reader message = log_reader(datagram);
    char text[16], address[INET6_ADDRSTRLEN];
    unsigned relays = 0;
    bool whole = dhcplog_relayed(&message, &relays);
    uint8_t type = message.left ? message.at[0] : datagram.at[0];
    uint32_t transaction = whole ? (uint32_t)sl_load_be(message.at + 1, 3) : 0;
    if (whole) {
        log_read_part(&message, 4);
        whole = dhcplog_read6(&found, message, 0);
    }
    SLUICE_COUNTER_OF(event->box, dhcp_malformed) += !whole && datagram.captured == datagram.length;
    struct log_text *row = log_message(&dhcp->log, event);
    log_number(row, "version", 6);
    log_word(row, "type", LOG_NAMED(dhcplog_types6, type, text));
    log_number(row, "transaction", transaction);
    log_put(row, ",\"client_mac\":null,\"client_address\":null,\"your_address\":null,\"next_server\":null,\"relay\":null");
    log_number(row, "hops", relays);
    log_put(row, ",\"waited\":null,\"requested_address\":null,\"server\":null,\"subnet_mask\":null,\"routers\":[],\"name_servers\":[]");
    log_number_if(row, "lease_time", found.has_lifetime, found.lifetime);
    log_put(row, ",\"host_name\":null");
    char name[256];
    uint32_t used = 0;
    struct log_reader fqdn = found.fqdn;   /* RFC 4704, 4: flags, then a name in DNS's form */
    log_read(&fqdn, 1);
    while (fqdn.left && !fqdn.failed) {
        uint32_t size = (uint32_t)log_read(&fqdn, 1);
        struct log_reader label = log_read_part(&fqdn, size);
        if (!size || size > 63 || label.failed || used + size + 1 >= sizeof name)
            break;
        if (used)
            name[used++] = '.';
        memcpy(name + used, label.at, size);
        used += size;
    }
    log_octets(row, "client_fqdn", (const uint8_t *)name, used);
    log_put(row, ",\"domain\":null,\"vendor_class\":null");
    log_octets(row, "message", found.status.left > 2 ? found.status.at + 2 : NULL, found.status.left > 2 ? found.status.left - 2 : 0);
    log_put(row, ",\"parameters\":[],\"duid\":");
    log_put(row, found.duid.left ? "\"" : "null");
    log_hex(row, found.duid.at, sl_min(found.duid.left, DHCPLOG_TEXT));
    log_put(row, found.duid.left ? "\",\"addresses\":[" : ",\"addresses\":[");
    for (uint32_t i = 0; i < found.addresses; i++)
        log_format(row, "%s\"%s\"", i ? "," : "", inet_ntop(AF_INET6, found.address[i].at, address, sizeof address));
    log_put(row, "]");
    log_flag(row, "malformed", !whole);
    log_finish(&dhcp->log);
}

SLUICE_ON(udp, packet) {
    sl_bytes message = log_datagram(event, data->length);
    bool newer = log_has_port(event, DHCPLOG_CLIENT6) || log_has_port(event, DHCPLOG_SERVER6);
    if (!message.length || !(newer || log_has_port(event, DHCPLOG_SERVER) || log_has_port(event, DHCPLOG_CLIENT)))
        return;
    SLUICE_COUNTER_OF(event->box, dhcp_cut) += message.captured < message.length;
    if (message.captured < (newer ? 4 : DHCPLOG_FIXED))
        SLUICE_COUNTER_OF(event->box, dhcp_short)++;
    else if (newer ? !message.at[0] : message.at[0] != 1 && message.at[0] != 2)
        SLUICE_COUNTER_OF(event->box, dhcp_not_dhcp)++;
    else if (newer)
        dhcplog_row6(event, message);
    else
        dhcplog_row(event, message);
}

SLUICE_OPEN { return log_open(&SLUICE_WORKER_OF(box)->log, box, "dhcp", SLUICE_PARAMETER_OF(box, out)); }

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "dhcplog rows", "dhcplog rows lost for want of memory",
              "dhcplog flows without layers");
}
