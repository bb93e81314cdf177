/* Writes a capture of many TCP connections that are all open at once: connections OUT.pcap CONNECTIONS
 *
 * First the SYN of each, then each SYN/ACK, each ACK, and 32 bytes of data each; a microsecond between packets. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYN = 2, PSH_ACK = 24, SYN_ACK = 18, ACK = 16, DATA = 32 };

static uint8_t *put16(uint8_t *at, unsigned x) {
    at[0] = (uint8_t)(x >> 8);
    at[1] = (uint8_t)x;
    return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t x) { return put16(put16(at, x >> 16), x & 0xffff); }

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    FILE *out = fopen(argv[1], "wb");
    uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
    if (!out || !count)
        return 2;
    static char buffer[1 << 20];
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    const uint32_t header[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
    fwrite(header, sizeof header, 1, out);
    static const uint8_t flags[4] = {SYN, SYN_ACK, ACK, PSH_ACK};
    uint64_t packet = 0;
    for (unsigned phase = 0; phase < 4; phase++)
        for (uint32_t i = 0; i < count; i++, packet++) {
            uint8_t frame[54 + DATA] = {0};
            unsigned data = phase == 3 ? DATA : 0;
            uint32_t client = 0x0a000000 + i / 50000, server = 0xc0a80001;
            unsigned port = 10000 + i % 50000;
            uint8_t *at = put16(frame + 12, 0x0800);
            at = put16(put16(at, 0x4500), 40 + data);
            at = put32(at, 0);
            at = put16(put16(at, 0x4006), 0);
            at = put32(put32(at, phase == 1 ? server : client), phase == 1 ? client : server);
            at = put16(put16(at, phase == 1 ? 80 : port), phase == 1 ? port : 80);
            at = put32(at, phase == 1 ? 5000 : 1000 + (phase > 1));
            at = put32(at, phase == 0 ? 0 : phase == 1 ? 1001 : 5001);
            at = put16(put16(at, 0x5000u | flags[phase]), 65535);
            memset(at + 4, 'a' + (int)(i % 26), data);
            const uint32_t record[4] = {(uint32_t)(packet / 1000000), (uint32_t)(packet % 1000000), 54 + data, 54 + data};
            fwrite(record, sizeof record, 1, out);
            fwrite(frame, 54 + data, 1, out);
        }
    return fclose(out) ? 1 : 0;
}
