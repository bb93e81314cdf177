/* A web client for mOS's end-host interface: fetches files from a server, many at a time, each over a connection of its own.
 *
 *   webget -f mos.conf -a ADDRESS -p PORT -n FILES -c CONNECTIONS [-u PREFIX]
 *
 * The files are PREFIX0, PREFIX1, ... (PREFIX: "/"). It prints how many came whole, how many bytes they have, and the sum of
 * their FNV-1a hashes, each over the file's number and its bytes. */
#define _GNU_SOURCE
#include <mos_api.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { EVENTS = 512, HEADER = 2048, PIECE = 65536 };

struct fetch {
    int number;
    size_t asked, request_length;   /* bytes of the request that are sent */
    char request[256];
    char header[HEADER + 1];
    size_t header_length;
    bool body;
    uint64_t hash;
    long long size, received;
};

static const char *config = "mos.conf", *address = "127.0.0.1", *prefix = "/";
static int port = 8080, files = 1, most = 16;
static mctx_t mctx;
static int set;
static struct fetch **fetches;   /* by socket */
static int begun, over, whole;
static unsigned long long bytes, sum;
static unsigned long errors;

static uint64_t fnv(uint64_t hash, const void *data, size_t length)
{
    for (const unsigned char *at = data, *end = at + length; at < end; at++)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

static bool begin(void)
{
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = inet_addr(address)};
    struct mtcp_epoll_event event = {.events = MOS_EPOLLOUT};
    int sock = mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0);
    struct fetch *f = sock < 0 ? NULL : calloc(1, sizeof *f);
    if (!f)
        return false;
    f->number = begun++;
    f->hash = fnv(UINT64_C(0xcbf29ce484222325), &f->number, sizeof f->number);
    f->size = -1;
    f->request_length = (size_t)snprintf(f->request, sizeof f->request, "GET %s%d HTTP/1.0\r\nHost: %s\r\n\r\n", prefix,
                                         f->number, address);
    fetches[sock] = f;
    event.data.sock = sock;
    mtcp_setsock_nonblock(mctx, sock);
    return (mtcp_connect(mctx, sock, (struct sockaddr *)&peer, sizeof peer) == 0 || errno == EINPROGRESS) &&
           mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_ADD, sock, &event) == 0;
}

static void end(int sock, const char *why)
{
    struct fetch *f = fetches[sock];
    over++;
    if (!why && f->body && f->received == f->size) {
        whole++;
        bytes += (unsigned long long)f->received;
        sum += f->hash;
    } else if (errors++ < 10) {
        fprintf(stderr, "webget: file %d: %s (%lld of %lld bytes)\n", f->number, why ? why : "ends early", f->received, f->size);
    }
    free(f);
    fetches[sock] = NULL;
    mtcp_close(mctx, sock);
}

static void ask(int sock)
{
    struct fetch *f = fetches[sock];
    struct mtcp_epoll_event event = {.events = MOS_EPOLLIN, .data.sock = sock};
    ssize_t sent = mtcp_write(mctx, sock, f->request + f->asked, f->request_length - f->asked);
    if (sent < 0 && errno != EAGAIN)
        end(sock, strerror(errno));
    if (sent <= 0)
        return;
    f->asked += (size_t)sent;
    if (f->asked == f->request_length)
        mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_MOD, sock, &event);
}

static void take_body(struct fetch *f, const char *data, size_t length)
{
    f->hash = fnv(f->hash, data, length);
    f->received += (long long)length;
}

/* Bytes of the header, and perhaps the first of the body. */
static bool take_header(struct fetch *f, const char *data, size_t length)
{
    size_t taken = length < HEADER - f->header_length ? length : HEADER - f->header_length;
    memcpy(f->header + f->header_length, data, taken);
    f->header[f->header_length += taken] = 0;
    char *stop = strstr(f->header, "\r\n\r\n"), *size = strcasestr(f->header, "\nContent-Length:");
    if (!stop)
        return f->header_length < HEADER;
    if (!size || size > stop || strncmp(f->header + 8, " 200", 4) != 0)
        return false;
    size_t before = f->header_length - taken, header = (size_t)(stop - f->header) + 4;
    f->body = true;
    f->size = atoll(size + sizeof "\nContent-Length:" - 1);
    take_body(f, data + (header - before), length - (header - before));
    return true;
}

static void receive(int sock)
{
    static char data[PIECE];
    struct fetch *f = fetches[sock];
    ssize_t got = mtcp_read(mctx, sock, data, sizeof data);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        end(sock, got ? strerror(errno) : NULL);
    } else if (got > 0) {
        if (f->body)
            take_body(f, data, (size_t)got);
        else if (!take_header(f, data, (size_t)got))
            end(sock, "no answer that is understood");
    }
}

static void report_error(int sock)
{
    int error = 0;
    socklen_t size = sizeof error;
    mtcp_getsockopt(mctx, sock, SOL_SOCKET, SO_ERROR, &error, &size);
    end(sock, strerror(error));
}

int main(int argc, char **argv)
{
    static struct mtcp_epoll_event events[EVENTS];
    struct mtcp_conf conf;
    for (int option; (option = getopt(argc, argv, "f:a:p:n:c:u:")) != -1;)
        switch (option) {
        case 'f': config = optarg; break;
        case 'a': address = optarg; break;
        case 'p': port = atoi(optarg); break;
        case 'n': files = atoi(optarg); break;
        case 'c': most = atoi(optarg); break;
        case 'u': prefix = optarg; break;
        default: return 2;
        }
    if (mtcp_init(config) || mtcp_getconf(&conf))
        return 1;
    conf.max_concurrency = 3 * most;
    mtcp_setconf(&conf);
    mctx = mtcp_create_context(0);
    fetches = calloc(3 * (size_t)most, sizeof *fetches);
    if (!mctx || !fetches || (set = mtcp_epoll_create(mctx, EVENTS)) < 0)
        return 1;
    mtcp_init_rss(mctx, INADDR_ANY, 1, inet_addr(address), htons((uint16_t)port));
    while (over < files) {
        while (begun < files && mtcp_get_connection_cnt(mctx) < (uint32_t)most)
            if (!begin()) {
                perror("webget");
                return 1;
            }
        int count = mtcp_epoll_wait(mctx, set, events, EVENTS, 1000);
        for (int i = 0; i < count; i++) {
            int sock = events[i].data.sock;
            if (events[i].events & MOS_EPOLLERR)
                report_error(sock);
            else if (events[i].events & MOS_EPOLLIN)
                receive(sock);
            else if (events[i].events == MOS_EPOLLOUT)
                ask(sock);
        }
    }
    mtcp_destroy_context(mctx);
    mtcp_destroy();
    printf("whole %d errors %lu bytes %llu sum %016llx\n", whole, errors, bytes, sum);
    return errors != 0;
}
