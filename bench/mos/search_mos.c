/* The same searcher, written for mOS. */
#define _GNU_SOURCE
#include <mos_api.h>

#include <stdio.h>
#include <string.h>

static const char text[] = "no such text";
static unsigned long found, bytes;

static void on_data(mctx_t m, int sock, int side, event_t event, filter_arg_t *arg)
{
    static char data[65536];
    ssize_t got;
    (void)event, (void)arg;
    while ((got = mtcp_peek(m, sock, side, data, sizeof data)) > 0) {
        bytes += (unsigned long)got;
        found += memmem(data, (size_t)got, text, sizeof text - 1) != NULL;
    }
}

int main(int argc, char **argv)
{
    struct mtcp_conf conf;
    if (argc != 3 || mtcp_init(argv[2]))
        return 1;
    mtcp_getconf(&conf);
    conf.num_cores = 1;
    mtcp_setconf(&conf);
    mctx_t m = mtcp_create_context(0);
    int monitor = m ? mtcp_socket(m, AF_INET, MOS_SOCK_MONITOR_STREAM, 0) : -1;
    if (monitor < 0 || mtcp_register_callback(m, monitor, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_data))
        return 1;
    mtcp_app_join(m);
    printf("bytes %lu found %lu\n", bytes, found);
    mtcp_destroy();
    return 0;
}
