/* A web server for mOS's end-host interface: GET and HEAD of the files below a directory, HTTP/1.0 and 1.1, keep-alive.
 *
 *   webserver -f mos.conf -p PORT -d DIRECTORY [-m]
 *
 * One thread and one context for each processor of the configuration's cpu_mask; they share the port. With -m a monitoring
 * socket in the same program watches the server's own connections, on the devices of the configuration. SIGINT and SIGTERM
 * end it; it prints what it has served. */
#define _GNU_SOURCE
#include <mos_api.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CORES = 64, EVENTS = 512, REQUEST = 4096, PIECE = 16384 };

struct connection {
    char request[REQUEST + 1];
    size_t received;
    char header[256];
    size_t header_length, header_sent;
    int file;                /* -1: no body is being sent */
    off_t sent, size;
    bool answering, keep;
};

struct server {
    mctx_t mctx;
    int listener, epoll, most;
    struct connection **connections;   /* by socket */
    unsigned long requests, errors;
};

static const char *config = "mos.conf", *directory = ".";
static int port = 8080;
static bool monitors;
static volatile sig_atomic_t stopping;
static struct server servers[CORES];

/* --- the monitor --- */

static unsigned long flows_begun, flows_ended, bytes_seen;

static void on_start(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)mctx, (void)sock, (void)side, (void)event, (void)arg;
    flows_begun++;
}

static void on_end(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    (void)mctx, (void)sock, (void)side, (void)event, (void)arg;
    flows_ended++;
}

static void on_data(mctx_t mctx, int sock, int side, event_t event, filter_arg_t *arg)
{
    char buffer[PIECE];
    ssize_t got;
    (void)event, (void)arg;
    while ((got = mtcp_peek(mctx, sock, side, buffer, sizeof buffer)) > 0)
        bytes_seen += (unsigned long)got;
}

static int watch(mctx_t mctx)
{
    char expression[32];
    snprintf(expression, sizeof expression, "tcp dst port %d", port);
    union monitor_filter filter = {.stream_syn_filter = expression};
    int sock = mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
    return sock < 0 || mtcp_bind_monitor_filter(mctx, sock, &filter) ||
           mtcp_register_callback(mctx, sock, MOS_ON_CONN_START, MOS_HK_SND, on_start) ||
           mtcp_register_callback(mctx, sock, MOS_ON_CONN_END, MOS_HK_SND, on_end) ||
           mtcp_register_callback(mctx, sock, MOS_ON_CONN_NEW_DATA, MOS_NULL, on_data);
}

/* --- the server --- */

static void close_connection(struct server *s, int sock)
{
    struct connection *c = s->connections[sock];
    if (c->file >= 0)
        close(c->file);
    free(c);
    s->connections[sock] = NULL;
    mtcp_close(s->mctx, sock);
}

static void await(struct server *s, int sock, uint32_t events)
{
    struct mtcp_epoll_event event = {.events = events, .data.sock = sock};
    mtcp_epoll_ctl(s->mctx, s->epoll, MOS_EPOLL_CTL_MOD, sock, &event);
}

/* Sends as much of the answer as the socket takes. False when the connection is over. */
static bool answer(struct server *s, int sock)
{
    struct connection *c = s->connections[sock];
    char piece[PIECE];
    ssize_t wrote = 0;
    while (c->header_sent < c->header_length &&
           (wrote = mtcp_write(s->mctx, sock, c->header + c->header_sent, c->header_length - c->header_sent)) > 0)
        c->header_sent += (size_t)wrote;
    while (c->header_sent == c->header_length && c->file >= 0 && c->sent < c->size) {
        ssize_t got = pread(c->file, piece, sizeof piece, c->sent);
        wrote = got > 0 ? mtcp_write(s->mctx, sock, piece, (size_t)got) : -1;
        if (got <= 0 || wrote <= 0)
            break;
        c->sent += wrote;
    }
    if (c->header_sent < c->header_length || (c->file >= 0 && c->sent < c->size))
        return wrote < 0 && errno == EAGAIN;
    if (c->file >= 0)
        close(c->file);
    c->file = -1;
    c->answering = false;
    await(s, sock, MOS_EPOLLIN);
    return c->keep;
}

/* Prepares the answer to a request, whose header ends at `end`. */
static void prepare(struct server *s, struct connection *c, char *end)
{
    char method[8], name[1024], version[16], path[2048];
    struct stat status;
    *end = 0;
    bool head = false, whole = sscanf(c->request, "%7s %1023s %15s", method, name, version) == 3;
    if (whole) {
        head = strcmp(method, "HEAD") == 0;
        whole = (head || strcmp(method, "GET") == 0) && name[0] == '/' && !strstr(name, "/..");
    }
    snprintf(path, sizeof path, "%s%s", directory, whole ? name : "/");
    c->file = whole ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool found = c->file >= 0 && fstat(c->file, &status) == 0 && S_ISREG(status.st_mode);
    c->keep = whole && (strcmp(version, "HTTP/1.1") == 0 ? !strcasestr(c->request, "\nConnection: close")
                                                         : strcasestr(c->request, "\nConnection: keep-alive") != NULL);
    c->sent = 0;
    c->size = found ? status.st_size : 0;
    c->header_sent = 0;
    c->header_length = (size_t)snprintf(c->header, sizeof c->header,
                                        "HTTP/1.1 %s\r\nContent-Length: %lld\r\nConnection: %s\r\n\r\n",
                                        found ? "200 OK" : whole ? "404 Not Found" : "400 Bad Request", (long long)c->size,
                                        c->keep ? "keep-alive" : "close");
    if (c->file >= 0 && (!found || head)) {
        close(c->file);
        c->file = -1;
    }
    c->answering = true;
    s->requests += found;
    s->errors += !found;
}

/* Answers the requests that are there whole. False when the connection is over. */
static bool serve(struct server *s, int sock)
{
    struct connection *c = s->connections[sock];
    char *end;
    while (!c->answering && (c->request[c->received] = 0, end = strstr(c->request, "\r\n\r\n"))) {
        size_t length = (size_t)(end - c->request) + 4;
        prepare(s, c, end);
        memmove(c->request, c->request + length, c->received - length);
        c->received -= length;
        if (!answer(s, sock))
            return false;
        if (c->answering)
            await(s, sock, MOS_EPOLLOUT);
    }
    return c->received < REQUEST;
}

static bool receive(struct server *s, int sock)
{
    struct connection *c = s->connections[sock];
    ssize_t got = mtcp_read(s->mctx, sock, c->request + c->received, REQUEST - c->received);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    c->received += (size_t)got;
    return serve(s, sock);
}

static void accept_all(struct server *s)
{
    for (int sock; (sock = mtcp_accept(s->mctx, s->listener, NULL, NULL)) >= 0;) {
        struct mtcp_epoll_event event = {.events = MOS_EPOLLIN, .data.sock = sock};
        s->connections[sock] = calloc(1, sizeof *s->connections[sock]);
        if (!s->connections[sock]) {
            mtcp_abort(s->mctx, sock);
            continue;
        }
        s->connections[sock]->file = -1;
        mtcp_setsock_nonblock(s->mctx, sock);
        mtcp_epoll_ctl(s->mctx, s->epoll, MOS_EPOLL_CTL_ADD, sock, &event);
    }
}

static int begin(struct server *s)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct mtcp_epoll_event event = {.events = MOS_EPOLLIN};
    s->epoll = mtcp_epoll_create(s->mctx, EVENTS);
    s->listener = mtcp_socket(s->mctx, AF_INET, SOCK_STREAM, 0);
    event.data.sock = s->listener;
    return s->epoll < 0 || s->listener < 0 || mtcp_setsock_nonblock(s->mctx, s->listener) ||
           mtcp_bind(s->mctx, s->listener, (struct sockaddr *)&own, sizeof own) || mtcp_listen(s->mctx, s->listener, 1024) ||
           mtcp_epoll_ctl(s->mctx, s->epoll, MOS_EPOLL_CTL_ADD, s->listener, &event);
}

static void *run(void *argument)
{
    struct server *s = argument;
    struct mtcp_epoll_event events[EVENTS];
    if (begin(s)) {
        perror("webserver");
        exit(1);
    }
    while (!stopping) {
        int count = mtcp_epoll_wait(s->mctx, s->epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            break;
        for (int i = 0; i < count; i++) {
            int sock = events[i].data.sock;
            if (sock == s->listener)
                accept_all(s);
            else if (s->connections[sock] &&
                     ((events[i].events & MOS_EPOLLERR) || !(events[i].events & MOS_EPOLLIN ? receive(s, sock)
                                                             : answer(s, sock) && serve(s, sock))))
                close_connection(s, sock);
        }
    }
    for (int sock = 0; sock < s->most; sock++)
        if (s->connections[sock])
            close_connection(s, sock);
    free(s->connections);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

int main(int argc, char **argv)
{
    pthread_t threads[CORES];
    struct mtcp_conf conf;
    unsigned long requests = 0, errors = 0;
    for (int option; (option = getopt(argc, argv, "f:p:d:m")) != -1;)
        switch (option) {
        case 'f': config = optarg; break;
        case 'p': port = atoi(optarg); break;
        case 'd': directory = optarg; break;
        case 'm': monitors = true; break;
        default: return 2;
        }
    if (mtcp_init(config) || mtcp_getconf(&conf))
        return 1;
    mtcp_register_signal(SIGINT, on_signal);
    mtcp_register_signal(SIGTERM, on_signal);
    int cores = conf.num_cores < CORES ? conf.num_cores : CORES;
    for (int core = 0; core < cores; core++) {   /* all contexts first: the monitors begin with the first server */
        struct server *s = &servers[core];
        if (!(conf.cpu_mask >> core & 1))
            continue;
        s->mctx = mtcp_create_context(core);
        s->most = conf.max_concurrency;
        s->connections = s->mctx ? calloc((size_t)s->most, sizeof *s->connections) : NULL;
        if (!s->connections || (monitors && watch(s->mctx))) {
            perror("webserver");
            return 1;
        }
    }
    for (int core = 0; core < cores; core++)
        if (servers[core].mctx && pthread_create(&threads[core], NULL, run, &servers[core]))
            return 1;
    for (int core = 0; core < cores; core++)
        if (servers[core].mctx)
            pthread_join(threads[core], NULL);
    mtcp_destroy();
    for (int core = 0; core < cores; core++) {
        requests += servers[core].requests;
        errors += servers[core].errors;
    }
    printf("served %lu errors %lu\n", requests, errors);
    if (monitors)
        printf("monitored begun %lu ended %lu bytes %lu\n", flows_begun, flows_ended, bytes_seen);
    return 0;
}
