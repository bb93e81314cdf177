/* Runs a stack that `sluice build` wrote over a capture, on several workers, under the thread sanitizer:
 *
 *     program CAPTURE WORKERS ROWS HOW
 *
 * HOW: `ordered` rows, or `live` ones; `copied` packets, as if the source did not keep them; `moving` boxes, three of each
 * worker; `own` sources, where each worker receives from a file of its own, CAPTURE.0 and so on, with packets of all, until
 * it has PACKETS. Prints counter 0 of each box. */
#include STACK_HEADER

#include "driver/workers.h"

#include <stdio.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define OF(name) JOIN(STACK, name)

enum { PACKETS = 6000 };

/* The files have no end, as interfaces have none. */
static bool open_own(struct sl_source **sources, uint32_t count, const char *capture)
{
    struct sl_source_options options = {.follow = true};
    char path[512], message[SL_SOURCE_MESSAGE];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s.%u", capture, i);
        if (sl_source_open(&sources[i], path, &options, message, sizeof message))
            return false;
    }
    return true;
}

static int stop_after_all(void *user, uint64_t done, uint64_t size, uint64_t packets)
{
    (void)done;
    (void)size;
    if (packets >= PACKETS)
        sl_drive_stop(user);
    return 0;
}

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
    const bool own = strcmp(argv[4], "own") == 0;
    struct sl_group *group = sl_group_open(count, strcmp(argv[4], "live") != 0 && !own);
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
    struct sl_source *source = NULL, *sources[8];
    if (own ? !open_own(sources, count, argv[1]) : sl_source_open(&source, argv[1], NULL, message, sizeof message) != 0)
        return 4;
    struct sl_workers workers = {.worker = OF(_worker), .boxes = boxes, .count = count,
                                 .thread_count = count == threads ? 0 : threads, .seed = 7, .group = group};
    struct sl_drive drive = {.process = OF(_process), .tick = OF(_tick), .finish_step = OF(_finish_step), .workers = &workers};
    if (own) {
        workers.sources = sources;
        workers.all_hand_over = true;
        workers.drops = true;
        drive.progress = stop_after_all;
        drive.user = &drive;
        if (sl_drive(&drive) != SL_DRIVEN_STOPPED)
            return 5;
    } else if (strcmp(argv[4], "copied") == 0) {
        burst(&drive, source);
    } else {
        drive.in = source;
        if (sl_drive(&drive) != SL_DRIVEN_END)
            return 5;
    }
    sl_drive_finish(&drive);
    for (uint32_t i = 0; i < count; i++)
        printf("%llu ", (unsigned long long)sl_box_counters(boxes[i])[0]);
    if (workers.message[0] || (own && workers.handed_over + workers.dropped == 0) != (own && count == 1))
        return 6;
    sl_drive_close(&drive);
    for (uint32_t i = 0; i < count; i++)
        OF(_close)(boxes[i]);
    for (uint32_t i = 0; i < count && own; i++)
        sl_source_close(sources[i], NULL, 0);
    sl_source_close(source, NULL, 0);
    sl_group_close(group);
    return 0;
}
