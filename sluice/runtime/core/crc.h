/* CRC-32C (Castagnoli), as used by SCTP (RFC 9260, appendix A). */
#ifndef SL_CRC_H
#define SL_CRC_H

#include "core/bytes.h"

/* Adds one byte. The table gives the effect of each value of the low four bits on the remainder. */
static inline uint32_t sl_crc32c_byte(uint32_t crc, uint8_t byte) {
    static const uint32_t step[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc ^= byte;
    crc = crc >> 4 ^ step[crc & 15];
    return crc >> 4 ^ step[crc & 15];
}

/* The CRC of data, in which the bytes from `low` to `high` count as 0. 0 if the data was not captured completely. */
SL_COLD uint64_t sl_crc32c(sl_bytes data, uint64_t low, uint64_t high) {
    if (data.captured < data.length)
        return 0;
    uint32_t crc = UINT32_MAX;
    for (uint32_t at = 0; at < data.captured; at++)
        crc = sl_crc32c_byte(crc, at >= low && at < high ? 0 : data.at[at]);
    return crc ^ UINT32_MAX;
}

#endif
