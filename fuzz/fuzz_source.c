// links: sluice/runtime/io/*.c
/* Fuzzes captures that are read as streams: what comes through a pipe, perhaps compressed, gives the packets and the fault
 * that the mapped reader finds in the same bytes; compressed data gives whatever it gives, within its bounds.
 * Run: scripts/fuzz.sh fuzz_source */
#define _GNU_SOURCE
#include "io/capture.h"
#include "io/decompress.h"
#include "io/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "expect.h"

enum { PIPE = 60000, TOGETHER = 7, MOST = 100000 };

static volatile unsigned sink;

/* A source of the bytes, by a pipe whose other end is closed. */
static struct sl_source *open_pipe(const uint8_t *bytes, size_t n)
{
    int ends[2];
    char name[64], message[SL_SOURCE_MESSAGE];
    struct sl_source *source;
    EXPECT(pipe(ends) == 0);
    EXPECT(write(ends[1], bytes, n) == (ssize_t)n);
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
    /* opened while there is a writer, as opening would wait for one */
    EXPECT(sl_source_open(&source, name, NULL, message, sizeof message) == 0);
    close(ends[0]);
    close(ends[1]);
    return source;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > PIPE)
        return 0;
    struct sl_source *source = open_pipe(bytes, n);
    struct sl_capture *capture = NULL;
    struct sl_frame frames[TOGETHER], expected;
    char message[SL_CAPTURE_MESSAGE] = "";
    bool plain = !sl_compression_of(bytes, n);
    int opened = plain ? sl_capture_open_memory(&capture, bytes, n, message, sizeof message) : -1, more = 1;
    int32_t got;
    unsigned packets = 0;
    while ((got = sl_source_receive(source, frames, TOGETHER)) >= 0 && packets < MOST) {
        for (int32_t i = 0; i < got; i++, packets++) {
            for (uint32_t k = 0; k < frames[i].captured; k++)
                sink += frames[i].at[k];
            EXPECT(frames[i].length >= frames[i].captured && frames[i].number == packets + 1);
            if (!plain)
                continue;
            EXPECT(opened == 0 && (more = sl_capture_next(capture, &expected)) == 1);
            EXPECT(expected.captured == frames[i].captured && expected.time == frames[i].time);
            EXPECT(expected.link_type == frames[i].link_type && expected.port == frames[i].port);
            EXPECT(!expected.captured || memcmp(expected.at, frames[i].at, expected.captured) == 0);
        }
        sl_source_release(source);
    }
    if (plain && packets < MOST) {
        const char *fault = sl_source_fault(source), *other = opened ? message : NULL;
        if (!opened) {
            EXPECT((more = sl_capture_next(capture, &expected)) <= 0);
            other = sl_capture_fault(capture);
        }
        EXPECT((fault != NULL) == (other != NULL) && (got == SL_SOURCE_FAULT) == (fault != NULL));
        EXPECT(!fault || strstr(fault, "unknown format") || strstr(fault, other) || strstr(fault, "a block of"));
    }
    sl_capture_close(capture);
    sl_source_close(source, NULL, 0);
    return 0;
}
