/* What programs that write traces share: random numbers from a seed, bytes of headers, and the trace being written. */
#ifndef BENCH_PACKETS_H
#define BENCH_PACKETS_H

#include "driver/measure.h"
#include "io/writer.h"

#include <inttypes.h>
#include <stdbool.h>

enum { ETHERNET = 14, IPV4 = 20, TCP = 20, UDP = 8, SCTP = 12, GTP = 8 };
enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };
enum { IS_TCP = 6, IS_UDP = 17, IS_GRE = 47, IS_SCTP = 132 };

/* Ends the program: a trace that is not whole is none. */
__attribute__((noreturn, cold)) static inline void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

static inline void *room_for(size_t count, size_t size)
{
    void *at = calloc(count ? count : 1, size);
    if (!at)
        fail("not enough memory");
    return at;
}

/* --- random numbers --- */

/* The generator splitmix64 (Steele, Lea, Flood, 2014): the same seed gives the same trace on every machine. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* From 0 to below `n`. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((random_next(state) >> 32) * n >> 32);
}

/* Whether what has probability `chance` happens. */
static inline bool random_happens(uint64_t *state, double chance)
{
    return (double)(random_next(state) >> 11) * 0x1p-53 < chance;
}

/* --- bytes --- */

static inline uint16_t get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static inline uint32_t get32(const uint8_t *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }

static inline uint8_t *put16(uint8_t *at, uint32_t x)
{
    at[0] = (uint8_t)(x >> 8);
    at[1] = (uint8_t)x;
    return at + 2;
}

static inline uint8_t *put32(uint8_t *at, uint32_t x) { return put16(put16(at, x >> 16), x); }

/* The sum of 16-bit words of the Internet checksum (RFC 1071), to be added to `sum`. */
static inline uint32_t checksum_add(uint32_t sum, const uint8_t *at, size_t size)
{
    for (size_t i = 0; i + 1 < size; i += 2)
        sum += get16(at + i);
    return size % 2 ? sum + (uint32_t)at[size - 1] * 256 : sum;
}

static inline uint16_t checksum_end(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* Changes the bytes at `at` and corrects the checksum at `checksum` (RFC 1624). */
static inline void checksum_replace(uint8_t *checksum, const uint8_t *old, const uint8_t *new, size_t size)
{
    uint32_t sum = (uint16_t)~get16(checksum);
    for (size_t i = 0; i < size; i += 2)
        sum += (uint16_t)~get16(old + i) + (uint32_t)get16(new + i);
    put16(checksum, checksum_end(sum));
}

/* --- the trace that is written --- */

struct output {
    struct sl_writer *writer;
    uint64_t time;      /* of the next packet, ns */
    uint64_t packets;
};

static inline struct output output_open(const char *path)
{
    struct output output = {.time = 1700000000ull * 1000000000};
    char message[SL_CAPTURE_MESSAGE];
    if (sl_writer_open(&output.writer, path, 1, 0, message, sizeof message))
        fail(message);
    return output;
}

/* Writes an Ethernet frame, a microsecond after the one before. */
static inline void output_frame(struct output *output, const uint8_t *at, uint32_t captured, uint32_t length)
{
    struct sl_frame frame = {.at = at, .captured = captured, .length = length, .time = output->time, .link_type = 1};
    if (sl_writer_write(output->writer, &frame))
        fail(sl_writer_fault(output->writer));
    output->time += 1000;
    output->packets++;
}

static inline void output_close(struct output *output)
{
    char message[SL_CAPTURE_MESSAGE];
    if (sl_writer_close(output->writer, message, sizeof message))
        fail(message);
}

#endif
