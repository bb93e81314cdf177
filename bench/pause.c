/* How long the slowest packet takes: pause LIBRARY STACK CAPTURE MAX_INSTANCES
 *
 * LIBRARY is a compiled stack (the path that `bench/run.py --pause` finds), without functions that need options. Each
 * packet is processed alone. Prints JSON: CPU time of the thread (page faults included, other programs not) and wall
 * time of the slowest, its number, and how many took longer than some bounds. */
#include "driver/bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *symbol(void *library, const char *stack, const char *name) {
    char text[256];
    snprintf(text, sizeof text, "%s_%s", stack, name);
    void *found = dlsym(library, *stack ? text : name);
    if (!found) {
        fprintf(stderr, "pause: %s\n", dlerror());
        exit(1);
    }
    return found;
}

struct slowest {
    uint64_t ns, packet;
};

static void keep(struct slowest *slowest, uint64_t ns, uint64_t packet) {
    if (ns > slowest->ns)
        *slowest = (struct slowest){ns, packet};
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fputs("usage: pause LIBRARY STACK CAPTURE MAX_INSTANCES\n", stderr);
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "pause: %s\n", dlerror());
        return 1;
    }
    sl_open_function box_open = (sl_open_function)symbol(library, argv[2], "open");
    sl_process_function process = (sl_process_function)symbol(library, argv[2], "process");
    sl_box_function finish = (sl_box_function)symbol(library, argv[2], "finish");
    sl_box_function box_close = (sl_box_function)symbol(library, argv[2], "close");
    int (*capture_open)(struct sl_capture **, const char *, char *, size_t);
    int (*capture_next)(struct sl_capture *, struct sl_frame *);
    *(void **)&capture_open = dlsym(library, "sl_capture_open");
    *(void **)&capture_next = dlsym(library, "sl_capture_next");
    struct sl_options options = {
        .seed = 1, .memory = 1 << 30, .max_instances = (uint32_t)strtoul(argv[4], NULL, 10), .timeouts = true};
    struct sl_capture *capture;
    char message[SL_CAPTURE_MESSAGE];
    if (capture_open(&capture, argv[3], message, sizeof message)) {
        fprintf(stderr, "pause: %s\n", message);
        return 1;
    }
    struct sl_box *box = box_open(&options);
    if (!box) {
        fputs("pause: the box cannot be opened\n", stderr);
        return 1;
    }
    static const uint64_t bounds[] = {10000, 100000, 1000000, 10000000};
    uint64_t above[4] = {0}, packets = 0, cpu_total = 0;
    struct slowest cpu = {0, 0}, wall = {0, 0};
    struct sl_frame frame;
    while (capture_next(capture, &frame) == 1) {
        for (uint32_t i = 0; i < frame.captured; i += 4096)
            (void)*(const volatile uint8_t *)(frame.at + i);   /* page faults of the file are not the box's */
        uint64_t wall_begin = now(CLOCK_MONOTONIC), cpu_begin = now(CLOCK_THREAD_CPUTIME_ID);
        process(box, &frame, 1, NULL);
        uint64_t cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu_begin, wall_ns = now(CLOCK_MONOTONIC) - wall_begin;
        packets++;
        cpu_total += cpu_ns;
        keep(&cpu, cpu_ns, packets);
        keep(&wall, wall_ns, packets);
        for (unsigned i = 0; i < 4; i++)
            above[i] += cpu_ns > bounds[i];
    }
    printf("{\"packets\":%" PRIu64 ",\"mean_cpu_ns\":%.1f", packets, packets ? (double)cpu_total / (double)packets : 0.0);
    printf(",\"slowest_cpu_ns\":%" PRIu64 ",\"slowest_cpu_packet\":%" PRIu64, cpu.ns, cpu.packet);
    printf(",\"slowest_wall_ns\":%" PRIu64 ",\"slowest_wall_packet\":%" PRIu64, wall.ns, wall.packet);
    printf(",\"above_10us\":%" PRIu64 ",\"above_100us\":%" PRIu64, above[0], above[1]);
    printf(",\"above_1ms\":%" PRIu64 ",\"above_10ms\":%" PRIu64 "}\n", above[2], above[3]);
    finish(box);
    box_close(box);
    return 0;
}
