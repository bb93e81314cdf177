/* Detects tunnels on UDP ports for which the stack does not expect them.
 *
 * The first datagram of each conversation is compared with the formats of VXLAN, Geneve, GTP-U and IP in UDP (FOU),
 * including the inner packet. Ports that match are reported at the end, with the option that makes the stack parse
 * them. Tunnels of other kinds, or with other inner packets, are not detected. */
#include "sluice.h"

SLUICE_PARAMETER(known, text, "", "ports that the user has named already, as in 48879+5555")

enum { PORTS_MOST = 16, NAME_SIZE = 64 };

struct suspect {
    const char *kind;
    uint64_t seen;          /* conversations */
    uint16_t port;
    char name[NAME_SIZE];   /* the name of the report */
};

struct tunnel_ports {
    struct suspect suspects[PORTS_MOST];
    uint64_t left_out;      /* conversations on ports beyond the bound */
    unsigned count;
};
SLUICE_WORKER(struct tunnel_ports)

static inline uint16_t number16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

/* Whether stacks parse the protocol on this port by default. */
static bool is_assigned(uint16_t port)
{
    static const uint16_t ports[] = {53, 443, 1701, 2152, 3386, 3544, 4341, 4754, 4789, 4790,
                                     5072, 5247, 5353, 6080, 6081, 6635, 8472, 9899, 37008};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
        if (ports[i] == port)
            return true;
    return false;
}

static bool is_named(const char *known, uint16_t port)
{
    while (*known) {
        char *end = NULL;
        unsigned long value = strtoul(known, &end, 10);
        if (value == port)
            return true;
        known = *end ? end + 1 : end;
    }
    return false;
}

/* Whether the bytes are an IP packet of exactly `length` bytes, `captured` of which are present. */
static bool is_ip(const uint8_t *at, uint32_t captured, uint32_t length)
{
    if (captured >= 20 && at[0] >> 4 == 4)
        return (at[0] & 15) >= 5 && number16(at + 2) == length && (at[9] == 6 || at[9] == 17 || at[9] == 1);
    if (captured >= 40 && at[0] >> 4 == 6)
        return number16(at + 4) + 40u == length && (at[6] == 6 || at[6] == 17 || at[6] == 58);
    return false;
}

/* Whether the bytes are an Ethernet frame of `length` bytes that contains IP or ARP, with or without a VLAN tag. */
static bool is_frame(const uint8_t *at, uint32_t captured, uint32_t length)
{
    if (captured < 34 || length < 34)
        return false;
    switch (number16(at + 12)) {
    case 0x0800: return at[14] >> 4 == 4 && number16(at + 16) <= length - 14;
    case 0x86DD: return at[14] >> 4 == 6 && number16(at + 18) + 40u <= length - 14;
    case 0x0806: return number16(at + 14) == 1 && number16(at + 16) == 0x0800;
    case 0x8100: return number16(at + 16) == 0x0800 || number16(at + 16) == 0x86DD || number16(at + 16) == 0x0806;
    default: return false;
    }
}

/* The kind of tunnel that a datagram appears to be; NULL if none. */
static const char *kind_of(const uint8_t *at, uint32_t captured, uint32_t length)
{
    if (captured < 20)
        return NULL;
    const bool low = at[7] == 0;
    if (at[0] == 8 && at[1] == 0 && number16(at + 2) == 0 && low && is_frame(at + 8, captured - 8, length - 8))
        return "vxlan";
    const uint32_t options = 8 + (at[0] & 63u) * 4;
    if (at[0] >> 6 == 0 && (at[1] & 0x3F) == 0 && low && options < captured) {
        const uint16_t kind = number16(at + 2);
        if (kind == 0x6558 && is_frame(at + options, captured - options, length - options))
            return "geneve";
        if ((kind == 0x0800 || kind == 0x86DD) && is_ip(at + options, captured - options, length - options))
            return "geneve";
    }
    const uint32_t optional = at[0] & 7 ? 12 : 8;
    if ((at[0] & 0xF8) == 0x30 && at[1] == 255 && number16(at + 2) + 8u == length && (at[0] & 4) == 0 &&
        captured > optional && is_ip(at + optional, captured - optional, length - optional))
        return "gtp";
    return is_ip(at, captured, length) ? "fou" : NULL;
}

static void suspect(struct tunnel_ports *ports, const char *kind, uint16_t port)
{
    for (unsigned i = 0; i < ports->count; i++) {
        if (ports->suspects[i].port == port && ports->suspects[i].kind == kind) {
            ports->suspects[i].seen++;
            return;
        }
    }
    if (ports->count == PORTS_MOST) {
        ports->left_out++;
        return;
    }
    struct suspect *found = &ports->suspects[ports->count++];
    *found = (struct suspect){.kind = kind, .seen = 1, .port = port};
    snprintf(found->name, sizeof found->name, "suspected tunnel (follow it with --tunnel-port %s=%u)", kind, port);
}

SLUICE_ON(udp, created) {
    const sl_bytes unit = event->unit;
    if (unit.captured < 8)
        return;
    const uint16_t sport = number16(unit.at), dport = number16(unit.at + 2);
    if (is_assigned(dport) || is_assigned(sport) || is_named(SLUICE_PARAMETER_OF(event->box, known), dport))
        return;
    const char *kind = kind_of(unit.at + 8, unit.captured - 8, unit.length - 8);
    if (kind)
        suspect(SLUICE_WORKER_OF(event->box), kind, dport);
}

SLUICE_CLOSE {
    struct tunnel_ports *ports = SLUICE_WORKER_OF(box);
    for (unsigned i = 0; i < ports->count; i++)
        sl_report(box, ports->suspects[i].name, ports->suspects[i].seen);
    if (ports->left_out)
        sl_report(box, "suspected tunnels on further ports", ports->left_out);
}
