/* Flows of both IP versions: writes what each side receives to FOLDER/NUMBER.SIDE, and prints a line for each flow:
 * NUMBER, the client's address and port, the server's. An argument after the folder is a filter for SYNs. */
#include <mos_api.h>

#include <stdio.h>
#include <stdlib.h>

static const char *folder;
static long flows, wrong;

static void on_start(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    struct sockaddr_in6 six[2];
    struct sockaddr_in *four = (struct sockaddr_in *)six;
    char client[INET6_ADDRSTRLEN], server[INET6_ADDRSTRLEN];
    struct pkt_info packet;
    socklen_t size = sizeof six;
    (void)side, (void)event, (void)arg;
    mtcp_set_uctx(mctx, sock, (void *)++flows);
    if (mtcp_getlastpkt(mctx, sock, side, &packet) || ntohs(packet.tcph->dest) == 0)
        wrong++;
    if (packet.iph->version == 6) {
        wrong += mtcp_getpeername(mctx, sock, (struct sockaddr *)six, &size, MOS_SIDE_BOTH) != 0;
        size = sizeof *four;
        wrong += mtcp_getpeername(mctx, sock, (struct sockaddr *)six, &size, MOS_SIDE_CLI) == 0;   /* no room */
        inet_ntop(AF_INET6, &six[0].sin6_addr, client, sizeof client);
        inet_ntop(AF_INET6, &six[1].sin6_addr, server, sizeof server);
        printf("%ld %s %d %s %d\n", flows, client, ntohs(six[0].sin6_port), server, ntohs(six[1].sin6_port));
    } else {
        size = 2 * sizeof *four;
        wrong += mtcp_getpeername(mctx, sock, (struct sockaddr *)four, &size, MOS_SIDE_BOTH) != 0;
        inet_ntop(AF_INET, &four[0].sin_addr, client, sizeof client);
        inet_ntop(AF_INET, &four[1].sin_addr, server, sizeof server);
        printf("%ld %s %d %s %d\n", flows, client, ntohs(four[0].sin_port), server, ntohs(four[1].sin_port));
    }
}

static void on_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    char path[4096], data[8192];
    ssize_t got;
    (void)event, (void)arg;
    snprintf(path, sizeof path, "%s/%ld.%d", folder, (long)mtcp_get_uctx(mctx, sock), side);
    FILE *file = fopen(path, "ab");
    if (!file)
        exit(3);
    while ((got = mtcp_peek(mctx, sock, side, data, sizeof data)) > 0)
        fwrite(data, 1, (size_t)got, file);
    wrong += got < 0;
    fclose(file);
}

static void on_raw(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    static unsigned long packets;
    (void)mctx, (void)sock, (void)side, (void)event;
    if (arg)
        printf("raw %lu\n", packets);
    packets++;
}

int main(int argc, char **argv)
{
    int size = 1 << 20;
    filter_arg_t end = {0};
    if (argc < 3 || mtcp_init(argv[1]))
        return 1;
    folder = argv[2];
    mctx_t mctx = mtcp_create_context(0);
    int sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    int raw = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_RAW, 0);
    if (mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_CLIBUF, &size, sizeof size) ||
        mtcp_setsockopt(mctx, sock, SOL_MONSOCKET, MOS_SVRBUF, &size, sizeof size) ||
        mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_SND, on_start) ||
        mtcp_register_callback(mctx, sock, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_data) ||
        mtcp_register_callback(mctx, raw, MOS_ON_PKT_IN, MOS_NULL, on_raw))
        return 2;
    mtcp_app_join(mctx);
    mtcp_destroy();
    on_raw(NULL, 0, 0, 0, &end);
    return wrong != 0;
}
