/* Reads tables of rules that Python wrote (sluice/functions/detect/writer.py): numbers of 32 bits, little-endian, and bytes
 * with their length in front. A table is input: each number is checked against its bound, and memory is allocated only for
 * as many items as the table has bytes left. */
#ifndef TABLE_READER_H
#define TABLE_READER_H

#include "sluice.h"

#include <errno.h>

struct table_chunk { _Alignas(16) struct table_chunk *next; };

struct table_reader {
    const uint8_t *at;
    size_t left;
    const char *wrong;            /* the first thing that is; NULL: nothing */
    struct table_chunk **chunks;  /* the allocations of the table */
};

SL_COLD void table_wrong(struct table_reader *reader, const char *what) {
    reader->wrong = reader->wrong ? reader->wrong : what;
    reader->left = 0;
}

SL_COLD uint32_t table_number(struct table_reader *reader) {
    if (reader->left < 4) {
        table_wrong(reader, "it is cut");
        return 0;
    }
    const uint8_t *at = reader->at;
    reader->at += 4;
    reader->left -= 4;
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A number of 64 bits. */
SL_COLD uint64_t table_long(struct table_reader *reader) {
    uint64_t low = table_number(reader);
    return low | (uint64_t)table_number(reader) << 32;
}

/* A number below `bound`. */
SL_COLD uint32_t table_below(struct table_reader *reader, uint32_t bound) {
    uint32_t value = table_number(reader);
    if (value >= bound) {
        table_wrong(reader, "a number is out of its range");
        return 0;
    }
    return value;
}

SL_COLD const uint8_t *table_bytes(struct table_reader *reader, uint32_t length) {
    if (length > reader->left) {
        table_wrong(reader, "it is cut");
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += length;
    reader->left -= length;
    return at;
}

/* Zeroed memory of the table for `count` items; NULL without memory, or where the table has not so many bytes left. */
SL_COLD void *table_items(struct table_reader *reader, uint32_t count, size_t size) {
    if (count > reader->left) {
        table_wrong(reader, "it is cut");
        return NULL;
    }
    struct table_chunk *chunk = calloc(1, sizeof *chunk + ((size_t)count + 1) * size);
    if (!chunk) {
        table_wrong(reader, "no memory");
        return NULL;
    }
    chunk->next = *reader->chunks;
    *reader->chunks = chunk;
    return chunk + 1;
}

SL_COLD uint32_t *table_numbers(struct table_reader *reader, uint32_t count, uint32_t bound) {
    uint32_t *found = table_items(reader, count, sizeof *found);
    for (uint32_t i = 0; found && i < count; i++)
        found[i] = table_below(reader, bound);
    return found;
}

SL_COLD void table_chunks_free(struct table_chunk *chunks) {
    for (struct table_chunk *next; chunks; chunks = next) {
        next = chunks->next;
        free(chunks);
    }
}

/* The bytes of a file, which the caller frees; NULL, and the error. */
SL_COLD uint8_t *table_file(const char *path, size_t *size, const char **wrong) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        *wrong = strerror(errno);
        return NULL;
    }
    uint8_t *bytes = NULL;
    size_t used = 0, room = 0, got = 1;
    while (got) {
        if (used == room) {
            room = room ? 2 * room : 1 << 16;
            uint8_t *larger = room <= (size_t)1 << 31 ? realloc(bytes, room) : NULL;
            if (!larger) {
                free(bytes);
                fclose(file);
                *wrong = "no memory";
                return NULL;
            }
            bytes = larger;
        }
        got = fread(bytes + used, 1, room - used, file);
        used += got;
    }
    fclose(file);
    *size = used;
    return bytes;
}

#endif
