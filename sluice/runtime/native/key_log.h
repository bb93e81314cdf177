/* The secrets of a key log (SSLKEYLOGFILE; "NSS key log format"), by the client random of their connection.
 *
 * The file may grow while traffic runs: a look-up that finds nothing reads what was appended, at most KEY_LOG_STEP bytes at
 * a time. Secrets within a capture are added to it. Secrets of connections beyond KEY_LOG_MOST, or beyond the memory of
 * the machine or of a function, are not stored; both are counted, and printed at the end. */
#ifndef SL_KEY_LOG_H
#define SL_KEY_LOG_H

#include "native/native.h"
#include "native/tls_crypto.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define KEY_LOG_REST INT64_C(500000000) /* nanoseconds after which the last line of a file is complete; less than TLS_SECRET_WAIT */
enum { KEY_RANDOM = 32, KEY_LOG_STEP = 1 << 20, KEY_LOG_MOST = 1 << 20, KEY_LOG_LINE = 512 };

enum key_label { KEY_EARLY, KEY_CLIENT_HANDSHAKE, KEY_SERVER_HANDSHAKE, KEY_CLIENT_TRAFFIC, KEY_SERVER_TRAFFIC,
                 KEY_MASTER /* of TLS 1.2 */, KEY_LABELS };

struct key_entry {
    uint8_t random[KEY_RANDOM];
    struct key_secret secrets[KEY_LABELS];
};

struct key_log {
    FILE *file;                  /* NULL: there is none */
    struct key_entry *entries;   /* in the order of their first secrets */
    uint32_t *index;             /* 1 + the number of an entry, or 0: open addressing, by a keyed hash, as a sender chooses
                                  * randoms, and a file has any */
    uint64_t key[2];             /* of the hash */
    uint32_t size;               /* of the index: a power of two, or 0 */
    uint32_t room, count;        /* entries: allocated, used */
    uint64_t too_many, no_memory;   /* secrets that were not stored, by the reason */
    /* Charges bytes to a bound of memory, or gives them back; returns false beyond it. NULL: KEY_LOG_MOST is the only bound. */
    bool (*charge)(void *user, int64_t bytes);
    void *user;
};

/* Half of a round of a hash by multiplication: both halves of the product depend on all bits of both factors. */
static uint64_t key_log_fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t key_log_hash(const uint64_t *key, const uint8_t *random) {
    uint64_t word[4];
    memcpy(word, random, sizeof word);
    uint64_t hash = key_log_fold(word[0] ^ key[0], word[1] ^ key[1]);
    hash = key_log_fold(hash ^ word[2] ^ key[1], word[3] ^ key[0]);
    return (uint32_t)(hash ^ hash >> 32);
}

/* The place of a client random in an index: of its entry, or an empty one. */
static uint32_t *key_log_place(const struct key_log *log, uint32_t *index, uint32_t size, const uint8_t *random) {
    uint32_t at = key_log_hash(log->key, random);
    while (index[at &= size - 1] && memcmp(log->entries[index[at] - 1].random, random, KEY_RANDOM) != 0)
        at++;
    return &index[at];
}

/* Charges bytes, or gives them back. */
static bool key_log_charge(struct key_log *log, int64_t bytes) { return !log->charge || log->charge(log->user, bytes); }

/* Room for a further entry. By a quarter each time, so that little of a bound is charged for nothing. */
static bool key_log_grow(struct key_log *log) {
    uint32_t room = log->room + log->room / 4 + 64;
    int64_t more = (int64_t)((room - log->room) * sizeof *log->entries);
    if (!key_log_charge(log, more))
        return false;
    struct key_entry *entries = realloc(log->entries, room * sizeof *entries);
    if (!entries) {
        key_log_charge(log, -more);
        return false;
    }
    memset(entries + log->room, 0, (size_t)more);
    log->entries = entries;
    log->room = room;
    return true;
}

/* Doubles the index. */
static bool key_log_grow_index(struct key_log *log) {
    uint32_t size = log->size ? 2 * log->size : 128;
    int64_t more = (int64_t)((size - log->size) * sizeof *log->index);
    if (!key_log_charge(log, more))
        return false;
    uint32_t *index = calloc(size, sizeof *index);
    if (!index) {
        key_log_charge(log, -more);
        return false;
    }
    for (uint32_t i = 0; i < log->count; i++)
        *key_log_place(log, index, size, log->entries[i].random) = i + 1;
    free(log->index);
    log->index = index;
    log->size = size;
    return true;
}

/* The bytes that hexadecimal digits up to the next blank stand for; how many, 0 when that is not such, or more than `most`. */
static uint32_t key_hex(const char **text, uint8_t *out, uint32_t most) {
    uint32_t digits = 0;
    for (;; (*text)++, digits++) {
        char c = **text;
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (value < 0)
            break;
        if (digits >= 2 * most)
            return 0;
        out[digits / 2] = (uint8_t)(digits % 2 ? out[digits / 2] << 4 | value : value);
    }
    bool ends = **text == ' ' || **text == '\n' || **text == '\r' || **text == 0;
    return digits % 2 == 0 && ends ? digits / 2 : 0;
}

/* The entry of a client random, which is added if it is new; NULL at a bound, which is counted. */
static struct key_entry *key_log_entry(struct key_log *log, const uint8_t *random) {
    uint32_t *place = log->size ? key_log_place(log, log->index, log->size, random) : NULL;
    if (place && *place)
        return &log->entries[*place - 1];
    if (log->count >= KEY_LOG_MOST) {
        log->too_many++;
        return NULL;
    }
    if ((log->count == log->room && !key_log_grow(log)) || (2 * log->count >= log->size && !key_log_grow_index(log))) {
        log->no_memory++;
        return NULL;
    }
    struct key_entry *entry = &log->entries[log->count];
    memcpy(entry->random, random, KEY_RANDOM);
    *key_log_place(log, log->index, log->size, random) = ++log->count;
    return entry;
}

/* A line: a label, the client random, a secret. Others, and what is none, are passed over. `all`: no more of it will be written. */
static void key_log_line(struct key_log *log, const char *line, bool all) {
    static const char *const labels[] = {"CLIENT_EARLY_TRAFFIC_SECRET ", "CLIENT_HANDSHAKE_TRAFFIC_SECRET ",
                                         "SERVER_HANDSHAKE_TRAFFIC_SECRET ", "CLIENT_TRAFFIC_SECRET_0 ",
                                         "SERVER_TRAFFIC_SECRET_0 ", "CLIENT_RANDOM "};
    for (unsigned i = 0; i < KEY_LABELS; i++) {
        size_t length = strlen(labels[i]);
        if (strncmp(line, labels[i], length) != 0)
            continue;
        uint8_t random[KEY_RANDOM];
        struct key_secret secret = {0};
        const char *at = line + length;
        if (key_hex(&at, random, KEY_RANDOM) != KEY_RANDOM || *at++ != ' ')
            return;
        secret.length = (uint8_t)key_hex(&at, secret.bytes, KEY_SECRET_MOST);
        if (secret.length != KEY_SECRET_MOST && (secret.length != 32 || !all))
            return;
        struct key_entry *entry = key_log_entry(log, random);
        if (!entry)
            return;
        entry->secrets[i] = secret;
        return;
    }
}

/* Lines that are in memory already. The last one need not have an end; one that is too long is none of ours. */
static void key_log_text(struct key_log *log, sl_bytes text) {
    char line[KEY_LOG_LINE];
    for (size_t at = 0; at < text.captured;) {
        const uint8_t *begin = text.at + at, *end = memchr(begin, '\n', text.captured - at);
        size_t length = end ? (size_t)(end - begin) : text.captured - at;
        at += length + 1;
        if (length >= sizeof line)
            continue;
        memcpy(line, begin, length);
        line[length] = 0;
        key_log_line(log, line, true);
    }
}

/* Has the file not been written to for KEY_LOG_REST? Its last line is complete then. */
static bool key_log_rests(const struct key_log *log) {
    struct stat status;
    struct timespec now;
    if (fstat(fileno(log->file), &status) || clock_gettime(CLOCK_REALTIME, &now))
        return false;
    return (now.tv_sec - status.st_mtim.tv_sec) * INT64_C(1000000000) + now.tv_nsec - status.st_mtim.tv_nsec >= KEY_LOG_REST;
}

/* Reads on, `most` bytes at most. A last line without an end counts, and is read again, as the rest of it may still be written. */
static void key_log_read(struct key_log *log, size_t most) {
    char line[KEY_LOG_LINE];
    if (!log->file)
        return;
    clearerr(log->file);
    for (size_t all = 0; all < most;) {
        long begin = ftell(log->file);
        if (!fgets(line, sizeof line, log->file))
            return;
        size_t length = strlen(line);
        all += length + 1;
        if (length && line[length - 1] == '\n') {
            key_log_line(log, line, true);
        } else if (feof(log->file)) {
            key_log_line(log, line, key_log_rests(log));
            if (begin >= 0)
                fseek(log->file, begin, SEEK_SET);
            return;
        }
    }
}

/* 0; or -1 when there is no such file, which was said. */
static int key_log_open(struct key_log *log, const char *path) {
    /* Without random bytes, addresses that the system chose are the key. */
    if (getrandom(log->key, sizeof log->key, GRND_NONBLOCK) != sizeof log->key) {
        log->key[0] ^= (uintptr_t)log * UINT64_C(0x9e3779b97f4a7c15);
        log->key[1] ^= (uintptr_t)&path * UINT64_C(0xc2b2ae3d27d4eb4f);
    }
    if (!*path)
        return 0;
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        fprintf(stderr, "keylog: %s is no file\n", path);
        return -1;
    }
    log->file = fopen(path, "r");
    if (!log->file) {
        fprintf(stderr, "keylog: ");
        perror(path);
        return -1;
    }
    key_log_read(log, SIZE_MAX);
    return 0;
}

static const struct key_entry *key_log_find(const struct key_log *log, const uint8_t *random) {
    if (!log->size)
        return NULL;
    uint32_t number = *key_log_place(log, log->index, log->size, random);
    return number ? &log->entries[number - 1] : NULL;
}

static void key_log_close(struct key_log *log) {
    if (log->too_many)
        fprintf(stderr, "sluice: note: keylog: %llu secrets were not stored: a key log may have %u connections\n",
                (unsigned long long)log->too_many, (unsigned)KEY_LOG_MOST);
    if (log->no_memory)
        fprintf(stderr, "sluice: note: keylog: %llu secrets were not stored for want of memory\n",
                (unsigned long long)log->no_memory);
    if (log->file)
        fclose(log->file);
    key_log_charge(log, -(int64_t)(log->room * sizeof *log->entries + log->size * sizeof *log->index));
    free(log->entries);
    free(log->index);
}

#endif
