/* The pattern library alone: searches the segments of a file, flow by flow in streaming mode, for the texts of another one, and
 * prints the nanoseconds of CPU time of the median of some passes, the bytes and the matches.
 *
 *     cc -O2 patterns_alone.c -lhs && ./a.out PATTERNS SEGMENTS PASSES
 *
 * PATTERNS: a line each. SEGMENTS: for each a flow (4 bytes), a length (4 bytes, both little-endian), and its bytes. */
#include <hs/hs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t matches;

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *user)
{
    (void)id, (void)from, (void)to, (void)flags, (void)user;
    matches++;
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(1);
    long end = ftell(file);
    char *bytes = end >= 0 ? malloc((size_t)end + 1) : NULL;
    rewind(file);
    if (!bytes || fread(bytes, 1, (size_t)end, file) != (size_t)end)
        exit(1);
    fclose(file);
    bytes[end] = 0;
    *size = (size_t)end;
    return bytes;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t size, unused;
    char *texts = read_file(words[1], &unused), *segments = read_file(words[2], &size);
    unsigned patterns = 0, flows = 0;
    for (char *at = texts; *at; at++)
        patterns += *at == '\n';
    const char **text = calloc(patterns + 1, sizeof *text);
    size_t *length = calloc(patterns + 1, sizeof *length);
    unsigned *flag = calloc(patterns + 1, sizeof *flag), *id = calloc(patterns + 1, sizeof *id), number = 0;
    for (char *line = strtok(texts, "\n"); line; line = strtok(NULL, "\n"), number++) {
        text[number] = line;
        length[number] = strlen(line);
        id[number] = number;
    }
    hs_database_t *database;
    hs_compile_error_t *error;
    hs_scratch_t *scratch = NULL;
    if (hs_compile_lit_multi(text, flag, id, length, number, HS_MODE_STREAM, NULL, &database, &error) ||
        hs_alloc_scratch(database, &scratch))
        return 1;
    uint32_t head[2];
    for (size_t at = 0; at + 8 <= size; at += 8 + head[1]) {
        memcpy(head, segments + at, 8);
        flows = head[0] >= flows ? head[0] + 1 : flows;
    }
    hs_stream_t **stream = calloc(flows, sizeof *stream);
    int passes = atoi(words[3]);
    uint64_t *took = calloc((size_t)passes + 1, sizeof *took), bytes = 0;
    for (int pass = 0; pass < passes; pass++) {
        uint64_t begin = now();
        bytes = matches = 0;
        for (size_t at = 0; at + 8 <= size; at += 8 + head[1]) {
            memcpy(head, segments + at, 8);
            hs_stream_t **own = &stream[head[0]];
            if (!*own && hs_open_stream(database, 0, own))
                return 1;
            hs_scan_stream(*own, segments + at + 8, head[1], 0, scratch, on_match, NULL);
            bytes += head[1];
        }
        for (unsigned i = 0; i < flows; i++) {
            if (stream[i])
                hs_close_stream(stream[i], scratch, on_match, NULL);
            stream[i] = NULL;
        }
        took[pass] = now() - begin;
    }
    qsort(took, (size_t)passes, sizeof *took, compare);
    printf("%llu %llu %llu\n", (unsigned long long)took[passes / 2], (unsigned long long)bytes, (unsigned long long)matches);
    return 0;
}
