/* Consistent hashing as libmemcached does it: the points of all backends on a ring, and the one that follows a key's hash.
 *
 * ketama() is MEMCACHED_BEHAVIOR_KETAMA: 100 points of a backend, each the hash of "HOST:PORT-NUMBER" by Jenkins' one-at-a-time.
 * ketama_weighted() is MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED with equal weights: 160 points, four of each MD5 (RFC 1321). Both leave
 * out the port if it is 11211. Other clients with libketama's points, as twemproxy, choose as the second one does.
 */
#ifndef SERVICE_RING_H
#define SERVICE_RING_H

#include "service.h"

enum service_ring_kind { SERVICE_KETAMA, SERVICE_KETAMA_WEIGHTED, SERVICE_RINGS };

struct service_point {
    uint32_t value, index; /* of a backend in its array */
};

struct service_ring {
    uint32_t count;
    struct service_point points[]; /* by their value */
};

/* Jenkins' one-at-a-time hash. */
static inline uint32_t service_one_at_a_time(const uint8_t *data, uint32_t length)
{
    uint32_t hash = 0;

    for (uint32_t i = 0; i < length; i++) {
        hash += data[i];
        hash += hash << 10;
        hash ^= hash >> 6;
    }
    hash += hash << 3;
    hash ^= hash >> 11;
    return hash + (hash << 15);
}

/* A block of 64 bytes (RFC 1321, section 3.4). */
static inline void service_md5_block(uint32_t state[4], const uint8_t *block)
{
    static const uint32_t sines[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
        0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
        0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
        0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
    };
    static const uint8_t shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const uint8_t steps[4] = {1, 5, 3, 7}, starts[4] = {0, 1, 5, 0};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

    for (unsigned i = 0; i < 64; i++) {
        unsigned round = i / 16, shift = shifts[round][i % 4];
        uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                         : round == 1 ? (d & b) | (~d & c)
                         : round == 2 ? b ^ c ^ d
                                      : c ^ (b | ~d);
        uint32_t sum = a + mixed + sines[i] + (uint32_t)service_load(block + 4 * ((starts[round] + steps[round] * i) % 16), 4, false);

        a = d;
        d = c;
        c = b;
        b += sum << shift | sum >> (32 - shift);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

/* MD5, as four words. */
static inline void service_md5(const uint8_t *data, uint64_t length, uint32_t state[4])
{
    uint64_t at = 0, left;
    uint8_t last[128] = {0};

    state[0] = 0x67452301;
    state[1] = 0xefcdab89;
    state[2] = 0x98badcfe;
    state[3] = 0x10325476;
    for (; length - at >= 64; at += 64)
        service_md5_block(state, data + at);
    left = length - at;
    if (left)
        memcpy(last, data + at, left);
    last[left] = 0x80;
    service_store(last + (left < 56 ? 56 : 120), length * 8, 8, false);
    service_md5_block(state, last);
    if (left >= 56)
        service_md5_block(state, last + 64);
}

/* The backend of a key. The array has one at least. Where the addresses are not known, in tests, it is the hash modulo their
 * number. */
static inline int64_t service_ring_choose(const struct service_instance *self, uint32_t port, enum service_ring_kind kind,
                                          struct service_text key)
{
    const struct service_ring *ring = self->core->rings ? self->core->rings[kind * SERVICE_PORTS + port] : NULL;
    uint32_t low = 0, high, words[4];

    if (!ring)
        return service_hash_text(key) % self->core->counts[port];
    if (kind == SERVICE_KETAMA)
        words[0] = service_one_at_a_time(key.at, key.length);
    else
        service_md5(key.at, key.length, words);
    for (high = ring->count; low < high;) {
        uint32_t middle = low + (high - low) / 2;

        if (ring->points[middle].value < words[0])
            low = middle + 1;
        else
            high = middle;
    }
    return ring->points[low == ring->count ? 0 : low].index;
}

#endif
