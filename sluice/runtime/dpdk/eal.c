/* Starts DPDK without hugepages and files, so that it runs in a container, too, unless the user gives other options. */
#define _GNU_SOURCE
#include "dpdk/eal.h"

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_log.h>

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };

static bool started;
static bool shown;              /* what is logged is printed as well */
static char logged[256];

static ssize_t keep_line(void *cookie, const char *text, size_t size)
{
    size_t length = size;
    (void)cookie;
    if (shown)
        (void)!fwrite(text, 1, size, stderr);
    while (length && (text[length - 1] == '\n' || text[length - 1] == ' '))
        length--;
    const size_t before = strlen(logged);
    if (length)
        snprintf(logged + before, sizeof logged - before, "%s%.*s", before ? "; " : "", (int)length, text);
    return (ssize_t)size;
}

const char *sl_eal_logged(void) { return logged[0] ? logged : "DPDK gives no reason"; }

void sl_eal_forget(void) { logged[0] = 0; }

/* The processors of this thread as one of DPDK's, which floats over all of them: `0@(0,1,2)`. */
static void write_processors(const cpu_set_t *set, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "--lcores=0@(");
    for (unsigned i = 0, count = 0; i < CPU_SETSIZE && n + 8 < size; i++)
        if (CPU_ISSET(i, set))
            n += (size_t)snprintf(text + n, size - n, count++ ? ",%u" : "%u", i);
    snprintf(text + n, size - n, ")");
}

int sl_eal_start(const char *options, unsigned memory, char *why, size_t why_size)
{
    /* no PCI device is taken that was not named: none has this address */
    static char name[] = "sluice", processors[1024], allow[] = "--allow=0000:00:00.0", amount[32], *words[WORDS];
    int count = 0;
    cpu_set_t before;
    if (started)
        return 0;
    FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){.write = keep_line});
    char *copy = strdup(options ? options : "--no-huge --no-shconf --no-telemetry --log-level=warning"), *rest = copy;
    if (!log || !copy) {
        snprintf(why, why_size, "out of memory");
        free(copy);
        if (log)
            fclose(log);
        return -1;
    }
    setvbuf(log, NULL, _IOLBF, 0);
    shown = options != NULL;
    rte_openlog_stream(log);
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    write_processors(&before, processors, sizeof processors);
    words[count++] = name;
    for (char *word; count < WORDS - 4 && (word = strsep(&rest, " \t\n"));)
        if (*word)
            words[count++] = word;
    if (!options || (!strstr(options, "--lcores") && !strstr(options, "-l ") && !strstr(options, "-c ")))
        words[count++] = processors;
    if (!options) {
        snprintf(amount, sizeof amount, "-m%u", memory);
        words[count++] = amount;
        words[count++] = allow;
    }
    words[count] = NULL;
    int result = rest ? -1 : rte_eal_init(count, words);
    if (rest)
        snprintf(why, why_size, "more than %d options of DPDK", WORDS - 5);
    else if (result < 0)
        snprintf(why, why_size, "DPDK cannot be initialised: %s", sl_eal_logged());
    /* it has pinned the calling thread, and the threads that it starts inherit that */
    pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    started = result >= 0;   /* the words are not freed: DPDK may keep pointers to them */
    return started ? 0 : -1;
}

void sl_eal_use_thread(void)
{
    static __thread bool tried;
    if (tried)
        return;
    tried = true;
    if (rte_lcore_id() == LCORE_ID_ANY)
        (void)rte_thread_register();   /* without a number it is only slower */
}
