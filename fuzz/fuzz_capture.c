// links: sluice/runtime/io/capture.c sluice/runtime/io/pcapng.c
/* Fuzzes the capture reader, and holds it to what capture.h promises. Run: scripts/fuzz.sh fuzz_capture */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/capture.h"
#include "expect.h"

static volatile unsigned sink;

/* The frame lies in the file after all frames delivered before, and can be read. */
static void check_frame(const struct sl_frame *f, const uint8_t *from, const uint8_t *end, uint64_t number)
{
    EXPECT(f->at >= from && f->at <= end);
    EXPECT(f->captured <= (size_t)(end - f->at));
    EXPECT(f->length >= f->captured);
    EXPECT(f->number == number);
    for (uint32_t i = 0; i < f->captured; i++)
        sink += f->at[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct sl_capture *c;
    char message[40];  /* small, so that messages do not fit */
    memset(message, 'x', sizeof message);
    size_t room = n % sizeof message;
    if (sl_capture_open_memory(&c, bytes, n, room ? message : NULL, room)) {
        EXPECT(!c);
        EXPECT(room == 0 || strlen(message) < room);
        return 0;
    }
    EXPECT(sl_capture_size(c) == n);
    struct sl_frame f, before;
    const uint8_t *from = bytes;
    uint64_t number = 0;
    int got;
    memset(&f, 0, sizeof f);
    while (before = f, (got = sl_capture_next(c, &f)) == 1) {
        check_frame(&f, from, bytes + n, ++number);
        from = f.at + f.captured;
        EXPECT(sl_capture_fault(c) == NULL);
        EXPECT(sl_capture_position(c) >= (uint64_t)(from - bytes) && sl_capture_position(c) <= n);
    }
    EXPECT(got == 0 ? sl_capture_position(c) == n : got == -1 && sl_capture_position(c) < n);
    EXPECT((got == -1) == (sl_capture_fault(c) != NULL));
    EXPECT(sl_capture_next(c, &f) == got);
    EXPECT(memcmp(&f, &before, sizeof f) == 0);
    sl_capture_close(c);
    return 0;
}
