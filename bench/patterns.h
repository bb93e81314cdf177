/* Searching streams for many regular expressions at once, by Hyperscan: the same for all that are compared.
 *
 * Each direction of each connection is a stream of its own, so that a match may begin in one segment and end in a later
 * one. Counts matches. Without Hyperscan's header (Debian: libhyperscan-dev) it can only say so. */
#ifndef BENCH_PATTERNS_H
#define BENCH_PATTERNS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<hs/hs.h>)

#include <hs/hs.h>

struct pattern_stream {
    hs_stream_t *state;   /* NULL while nothing was searched */
};

enum { PATTERNS_MOST = 1000, PATTERNS_LINE = 1000 };

static struct {
    hs_database_t *database;
    hs_scratch_t *scratch;
    hs_stream_t **idle;   /* streams of connections that are over, for those to come */
    size_t idle_count, idle_room;
    uint64_t matches;
} patterns;

/* Reads the expressions of a file, one a line (empty lines and those that begin with # are none). NULL, or what is
 * wrong; valid until the next call. */
static inline const char *patterns_open(const char *path)
{
    static char wrong[PATTERNS_LINE + 300];
    static char lines[PATTERNS_MOST][PATTERNS_LINE];
    const char *expressions[PATTERNS_MOST];
    unsigned flags[PATTERNS_MOST], ids[PATTERNS_MOST], count = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(wrong, sizeof wrong, "%.200s: cannot be opened", path);
        return wrong;
    }
    while (count < PATTERNS_MOST && fgets(lines[count], PATTERNS_LINE, file)) {
        lines[count][strcspn(lines[count], "\n")] = 0;
        if (!lines[count][0] || lines[count][0] == '#')
            continue;
        expressions[count] = lines[count];
        flags[count] = HS_FLAG_DOTALL | HS_FLAG_SINGLEMATCH;
        ids[count] = count;
        count++;
    }
    fclose(file);
    hs_compile_error_t *error;
    if (hs_compile_multi(expressions, flags, ids, count, HS_MODE_STREAM, NULL, &patterns.database, &error)) {
        const char *which = error->expression >= 0 ? expressions[error->expression] : "";
        snprintf(wrong, sizeof wrong, "%.100s: %.900s: %.150s", path, which, error->message);
        hs_free_compile_error(error);
        return wrong;
    }
    return hs_alloc_scratch(patterns.database, &patterns.scratch) ? "not enough memory to search" : NULL;
}

static inline int patterns_matched(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                                   void *user)
{
    (void)id, (void)from, (void)to, (void)flags, (void)user;
    patterns.matches++;
    return 0;
}

/* Searches the next bytes of a stream. */
static inline void patterns_search(struct pattern_stream *stream, const uint8_t *at, uint32_t length)
{
    if (!stream->state) {
        if (patterns.idle_count)
            stream->state = patterns.idle[--patterns.idle_count];
        else if (hs_open_stream(patterns.database, 0, &stream->state))
            abort();   /* a measurement without memory is none */
    }
    hs_scan_stream(stream->state, (const char *)at, length, 0, patterns.scratch, patterns_matched, NULL);
}

/* The stream is over: expressions that end with it match now. */
static inline void patterns_end(struct pattern_stream *stream)
{
    if (!stream->state)
        return;
    hs_reset_stream(stream->state, 0, patterns.scratch, patterns_matched, NULL);
    if (patterns.idle_count == patterns.idle_room) {
        patterns.idle_room = patterns.idle_room ? 2 * patterns.idle_room : 1024;
        patterns.idle = realloc(patterns.idle, patterns.idle_room * sizeof(hs_stream_t *));
        if (!patterns.idle)
            abort();
    }
    patterns.idle[patterns.idle_count++] = stream->state;
    stream->state = NULL;
}

static inline uint64_t patterns_matches(void) { return patterns.matches; }

/* Forgets the expressions, all streams and the count. */
static inline void patterns_close(void)
{
    while (patterns.idle_count)
        hs_close_stream(patterns.idle[--patterns.idle_count], NULL, NULL, NULL);
    free(patterns.idle);
    hs_free_scratch(patterns.scratch);
    hs_free_database(patterns.database);
    memset(&patterns, 0, sizeof patterns);
}

#else

struct pattern_stream {
    void *state;
};

static inline const char *patterns_open(const char *path)
{
    (void)path;
    return "it was built without Hyperscan (Debian: libhyperscan-dev)";
}

static inline void patterns_search(struct pattern_stream *stream, const uint8_t *at, uint32_t length)
{
    (void)stream, (void)at, (void)length;
}

static inline void patterns_end(struct pattern_stream *stream) { (void)stream; }
static inline uint64_t patterns_matches(void) { return 0; }
static inline void patterns_close(void) {}

#endif
#endif
