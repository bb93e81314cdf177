/* Runs a compiled stack over a capture as `sluice bench` does, without Python around it, for tools that watch a process:
 * drive LIBRARY STACK CAPTURE
 *
 * The stack has no functions that need options, and the hash seed 1, so that every run takes the same way. Says on standard
 * error where its `process` lies, before it is called. Prints how many packets there were and the bytes that were
 * delivered. */
#define _GNU_SOURCE

#include "driver/bench.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *symbol(void *library, const char *stack, const char *name)
{
    char text[256];
    snprintf(text, sizeof text, "%s_%s", stack, name);
    void *found = dlsym(library, *stack ? text : name);
    if (!found) {
        fprintf(stderr, "drive: %s\n", dlerror());
        exit(1);
    }
    return found;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: drive LIBRARY STACK CAPTURE\n", stderr);
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "drive: %s\n", dlerror());
        return 1;
    }
    int (*bench)(struct sl_measured *, unsigned, const char *, bool, unsigned, struct sl_bench *);
    *(void **)&bench = symbol(library, "", "sl_bench");
    struct sl_options options = {.seed = 1, .memory = 1 << 30, .max_instances = 1 << 20, .timeouts = true};
    struct sl_elapsed spent;
    struct sl_measured stack = {
        .open = (sl_open_function)symbol(library, argv[2], "open"),
        .process = (sl_process_function)symbol(library, argv[2], "process"),
        .finish = (sl_box_function)symbol(library, argv[2], "finish"),
        .close = (sl_box_function)symbol(library, argv[2], "close"),
        .options = &options,
        .results = &spent,
    };
    fprintf(stderr, "process %p\n", symbol(library, argv[2], "process"));
    struct sl_bench result = {0};
    if (bench(&stack, 1, argv[3], false, 1, &result)) {
        fprintf(stderr, "drive: %s\n", result.message);
        return 1;
    }
    uint64_t delivered = 0;
    for (uint32_t i = 0; i < stack.report_count; i++)
        if (strcmp(stack.reports[i].name, "delivered_bytes") == 0)
            delivered = stack.reports[i].value;
    printf("{\"packets\":%" PRIu64 ",\"delivered_bytes\":%" PRIu64 "}\n", result.packets, delivered);
    return 0;
}
