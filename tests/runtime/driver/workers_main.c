/* Runs a stack that `sluice build` wrote over a capture, on several workers, under the thread sanitizer:
 *
 *     program CAPTURE WORKERS ROWS HOW
 *
 * HOW: `ordered` rows, or `live` ones; `copied` packets, as if the source did not keep them; `moving` boxes, three of each
 * worker. Prints counter 0 of each box. */
#include STACK_HEADER

#include "driver/workers.h"

#include <stdio.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define OF(name) JOIN(STACK, name)

static void burst(struct sl_drive *drive, struct sl_source *source)
{
    struct sl_frame frames[100];
    int32_t got;
    while ((got = sl_source_receive(source, frames, 100)) > 0) {
        sl_drive_burst(drive, frames, (size_t)got);
        sl_source_release(source);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    uint32_t threads = (uint32_t)(argv[2][0] - '0'), count = strcmp(argv[4], "moving") ? threads : 3 * threads;
    struct sl_group *group = sl_group_open(count, strcmp(argv[4], "live") != 0);
    char options_text[512], message[SL_SOURCE_MESSAGE];
    snprintf(options_text, sizeof options_text, "out=%s", argv[3]);
    const char *texts[] = {options_text, ""};
    struct sl_options options = {.seed = 7, .memory = 1 << 24, .max_instances = 1 << 12, .function_options = texts,
                                 .group = group};
    struct sl_box *boxes[8];
    for (uint32_t i = 0; i < count; i++) {
        options.worker = i;
        if (!(boxes[i] = OF(_open)(&options)))
            return 3;
    }
    struct sl_source *source;
    if (sl_source_open(&source, argv[1], NULL, message, sizeof message))
        return 4;
    struct sl_workers workers = {.worker = OF(_worker), .boxes = boxes, .count = count,
                                 .thread_count = count == threads ? 0 : threads, .seed = 7, .group = group};
    struct sl_drive drive = {.process = OF(_process), .tick = OF(_tick), .finish_step = OF(_finish_step), .workers = &workers};
    if (strcmp(argv[4], "copied") == 0) {
        burst(&drive, source);
    } else {
        drive.in = source;
        if (sl_drive(&drive) != SL_DRIVEN_END)
            return 5;
    }
    sl_drive_finish(&drive);
    for (uint32_t i = 0; i < count; i++)
        printf("%llu ", (unsigned long long)sl_box_counters(boxes[i])[0]);
    if (workers.message[0])
        return 6;
    sl_drive_close(&drive);
    for (uint32_t i = 0; i < count; i++)
        OF(_close)(boxes[i]);
    sl_source_close(source, NULL, 0);
    sl_group_close(group);
    return 0;
}
