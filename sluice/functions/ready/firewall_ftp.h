/* The data connections that FTP's control connections announce: they are related to those. An end is believed only where its
 * address is that of the host that announces it, so that no host opens a port of another one. */
#ifndef FIREWALL_FTP_H
#define FIREWALL_FTP_H

#include "firewall_packet.h"
#include "ftp_announce.h"

enum { FIREWALL_LINE = 128, FIREWALL_EXPECTED = 4096, FIREWALL_PORT_LEAST = 1024 };
#define FIREWALL_EXPECTED_FOR (300 * (uint64_t)1000000000)   /* nanoseconds */

/* A control connection: the line that each side is sending. */
struct firewall_ftp {
    struct firewall_end client, server;
    uint8_t client_side, version;
    uint8_t used[2];
    bool lost[2];      /* the line has a gap, or is too long */
    uint8_t line[2][FIREWALL_LINE];
};

struct firewall_expected { uint64_t hash, until; };

/* The last announced ones; a new one replaces the oldest. */
struct firewall_expectations { struct firewall_expected at[FIREWALL_EXPECTED]; uint32_t next; };

/* The hash of the data connection that a line announces: of the ends' addresses and the announced port. 0: there is none, or
 * its port is one of services, which no announcement may open (RFC 2577, 3). */
static inline uint64_t firewall_data_hash(const struct firewall_ftp *ftp, uint64_t seed, unsigned side) {
    struct ftp_end end;
    struct firewall_end from = side == ftp->client_side ? ftp->server : ftp->client;
    struct firewall_end to = side == ftp->client_side ? ftp->client : ftp->server;
    if (!ftp_announced(side == ftp->client_side, ftp->line[side], ftp->used[side], &end) || end.port < FIREWALL_PORT_LEAST)
        return 0;
    if (end.size) {
        struct firewall_number address = firewall_address(end.address, end.size == 4 ? 4 : 6);
        unsigned version = end.size == 4 ? 4 : 6;
        if (version != ftp->version || address.high != to.address.high || address.low != to.address.low)
            return 0;
    }
    from.port = 0;
    to.port = end.port;
    return firewall_flow_hash(~seed, FIREWALL_TCP, from, to);
}

/* The next bytes of a side. `announce` is called with the hash of each announced connection. */
static inline void firewall_ftp_bytes(struct firewall_ftp *ftp, uint64_t seed, unsigned side, sl_bytes bytes,
                                      void (*announce)(struct sl_box *box, uint64_t hash), struct sl_box *box) {
    for (uint32_t i = 0; i < bytes.captured; i++) {
        uint8_t byte = bytes.at[i];
        if (byte != '\n' && byte != '\r') {
            if (ftp->used[side] < FIREWALL_LINE)
                ftp->line[side][ftp->used[side]++] = byte;
            else
                ftp->lost[side] = true;
            continue;
        }
        uint64_t hash = ftp->lost[side] ? 0 : firewall_data_hash(ftp, seed, side);
        if (hash)
            announce(box, hash);
        ftp->used[side] = 0;
        ftp->lost[side] = false;
    }
    ftp->lost[side] |= bytes.captured < bytes.length;
}

#endif
