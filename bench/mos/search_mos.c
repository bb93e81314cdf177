/* The same searcher, written for mOS: `search_mos -f CONFIGURATION [-c CONTEXTS]`. */
#define _GNU_SOURCE
#include <mos_api.h>

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

static const char text[] = "no such text";
static struct {
    alignas(64) unsigned long found, bytes;
} totals[MOST];   /* by context */

static void on_data(mctx_t m, int sock, int side, event_t event, filter_arg_t *arg)
{
    static char data[65536];
    ssize_t got;
    (void)event, (void)arg;
    while ((got = mtcp_peek(m, sock, side, data, sizeof data)) > 0) {
        totals[m->cpu].bytes += (unsigned long)got;
        totals[m->cpu].found += memmem(data, (size_t)got, text, sizeof text - 1) != NULL;
    }
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    const int contexts = argc == 5 ? atoi(argv[4]) : 1;
    if ((argc != 3 && argc != 5) || contexts < 1 || contexts > MOST || mtcp_init(argv[2]))
        return 1;
    mtcp_getconf(&conf);
    conf.num_cores = contexts;
    mtcp_setconf(&conf);
    mctx_t all[MOST];
    for (int i = 0; i < contexts; i++) {
        mctx_t m = all[i] = mtcp_create_context(i);
        int monitor = m ? mtcp_socket(m, AF_INET, MOS_SOCK_MONITOR_STREAM, 0) : -1;
        if (monitor < 0 || mtcp_register_callback(m, monitor, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_data))
            return 1;
    }
    unsigned long bytes = 0, found = 0;
    for (int i = 0; i < contexts; i++) {
        mtcp_app_join(all[i]);
        bytes += totals[i].bytes;
        found += totals[i].found;
    }
    printf("bytes %lu found %lu\n", bytes, found);
    mtcp_destroy();
    return 0;
}
