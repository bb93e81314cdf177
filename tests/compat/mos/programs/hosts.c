/* End hosts: does what its arguments say over loopback, and prints a line for each call: its name, result and errno. */
#define _GNU_SOURCE
#include <mos_api.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

static mctx_t mctx;
static const char *file;   /* of the configuration */
static struct sockaddr_in address = {.sin_family = AF_INET};

static long told(const char *name, long result)
{
    int error = result < 0 ? errno : 0;
    printf("%s %ld%s%s\n", name, result < 0 ? -1 : result, error ? " " : "", error ? strerrorname_np(error) : "");
    return result;
}

#define TELL(call) told(#call, (long)(call))

static int new_stream(void) { return mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0); }

/* A socket that listens on a port of the kernel's choice, which `address` is then. */
static int new_listener(void)
{
    int sock = new_stream();
    socklen_t size = sizeof address;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (mtcp_bind(mctx, sock, (struct sockaddr *)&address, sizeof address) || mtcp_listen(mctx, sock, 16) ||
        mtcp_getsockname(mctx, sock, (struct sockaddr *)&address, &size))
        exit(3);
    return sock;
}

static int connected(int listener, int *other)
{
    int sock = new_stream();
    if (mtcp_connect(mctx, sock, (struct sockaddr *)&address, sizeof address) ||
        (*other = mtcp_accept(mctx, listener, NULL, NULL)) < 0)
        exit(3);
    return sock;
}

static void errors(void)
{
    struct sockaddr *to = (struct sockaddr *)&address;
    struct mtcp_epoll_event event = {.events = MOS_EPOLLIN};
    const socklen_t size = sizeof address;
    char byte = 0;
    int stream, listener, set, number = 0;
    TELL(mtcp_socket(NULL, AF_INET, SOCK_STREAM, 0));
    TELL(mtcp_socket(mctx, AF_INET6, SOCK_STREAM, 0));
    TELL(mtcp_socket(mctx, AF_INET, SOCK_RAW, 0));
    TELL(stream = mtcp_socket(mctx, AF_INET, MOS_SOCK_STREAM, 0));
    TELL(set = mtcp_epoll_create(mctx, 8));
    TELL(mtcp_epoll_create(mctx, 0));
    TELL(mtcp_bind(mctx, 99, to, size));
    TELL(mtcp_bind(mctx, set, to, size));
    TELL(mtcp_bind(mctx, stream, NULL, size));
    TELL(mtcp_bind(mctx, stream, to, 4));
    TELL(mtcp_listen(mctx, stream, 0));
    TELL(mtcp_accept(mctx, stream, NULL, NULL));
    TELL(mtcp_connect(mctx, stream, NULL, size));
    TELL(mtcp_connect(mctx, stream, to, 4));
    TELL(mtcp_read(mctx, stream, &byte, 1));
    TELL(mtcp_write(mctx, stream, &byte, 1));
    TELL(mtcp_abort(mctx, stream));
    TELL(mtcp_read(mctx, set, &byte, 1));
    TELL(mtcp_ioctl(mctx, stream, FIONBIO, NULL));
    TELL(mtcp_ioctl(mctx, stream, TIOCGWINSZ, &number));
    TELL(mtcp_epoll_ctl(mctx, stream, MOS_EPOLL_CTL_ADD, set, &event));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_ADD, 99, &event));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_MOD, stream, &event));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_ADD, stream, NULL));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_ADD, stream, &event));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_ADD, stream, &event));
    TELL(mtcp_epoll_wait(mctx, set, &event, 1, 0));   /* a socket without a connection has no events */
    TELL(mtcp_epoll_wait(mctx, set, &event, 0, 0));
    TELL(mtcp_epoll_wait(mctx, stream, &event, 1, 0));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_DEL, stream, NULL));
    TELL(mtcp_epoll_ctl(mctx, set, MOS_EPOLL_CTL_DEL, stream, NULL));
    listener = new_listener();
    TELL(mtcp_bind(mctx, listener, to, size));
    TELL(mtcp_connect(mctx, listener, to, size));
    TELL(mtcp_setsock_nonblock(mctx, listener));
    TELL(mtcp_accept(mctx, listener, NULL, NULL));
    TELL(mtcp_close(mctx, listener));
    TELL(mtcp_connect(mctx, stream, to, size));
    TELL(mtcp_close(mctx, stream));
    TELL(mtcp_close(mctx, stream));
    TELL(mtcp_init_rss(mctx, INADDR_ANY, 0, 0, 0));
}

static void streams(void)
{
    struct iovec out[2] = {{(void *)"some", 4}, {(void *)"thing", 5}};
    char in[2][8] = {""};
    struct iovec parts[2] = {{in[0], 3}, {in[1], 8}};
    struct sockaddr_in ends[2], own;
    socklen_t size = sizeof ends, own_size = sizeof own;
    int listener = new_listener(), accepted, sock = connected(listener, &accepted), count = -1;
    TELL(mtcp_get_connection_cnt(mctx));
    TELL(mtcp_connect(mctx, sock, (struct sockaddr *)&address, sizeof address));
    TELL(mtcp_writev(mctx, sock, out, 2));
    TELL(mtcp_recv(mctx, accepted, in[0], 4, MSG_PEEK));
    TELL(mtcp_recv(mctx, accepted, in[0], 4, MSG_OOB));
    TELL(mtcp_ioctl(mctx, accepted, FIONREAD, &count));
    TELL(count);
    TELL(mtcp_readv(mctx, accepted, parts, 2));
    printf("%.3s|%.6s\n", in[0], in[1]);
    mtcp_setsock_nonblock(mctx, accepted);
    TELL(mtcp_read(mctx, accepted, in[0], 8));
    TELL(mtcp_read(mctx, accepted, in[0], 0));
    TELL(mtcp_write(mctx, accepted, in[0], 0));
    TELL(mtcp_getpeername(mctx, accepted, (struct sockaddr *)ends, &size, MOS_SIDE_BOTH));
    mtcp_getsockname(mctx, sock, (struct sockaddr *)&own, &own_size);
    TELL(ends[0].sin_port == own.sin_port && ends[1].sin_port == address.sin_port);
    TELL(mtcp_close(mctx, sock));
    usleep(20000);
    TELL(mtcp_read(mctx, accepted, in[0], 8));
    TELL(mtcp_get_connection_cnt(mctx));
    TELL(mtcp_close(mctx, accepted));
    sock = connected(listener, &accepted);
    TELL(mtcp_abort(mctx, sock));
    usleep(20000);
    TELL(mtcp_read(mctx, accepted, in[0], 8));
    TELL(mtcp_write(mctx, accepted, in[0], 1));
    TELL(mtcp_get_connection_cnt(mctx));
}

static void tell_events(int set, int max)
{
    struct mtcp_epoll_event events[8];
    int count = mtcp_epoll_wait(mctx, set, events, max, 1000);
    printf("events");
    for (int i = 0; i < count; i++)
        printf(" %d:%#llx", events[i].data.sock, (unsigned long long)events[i].events);
    printf("\n");
}

static void await(int set, int op, int sock, uint64_t what)
{
    struct mtcp_epoll_event event = {.events = what, .data.sock = sock};
    mtcp_epoll_ctl(mctx, set, op, sock, &event);
}

static void epoll(void)
{
    int listener = new_listener(), set = mtcp_epoll_create(mctx, 8), accepted, sock;
    char byte;
    await(set, MOS_EPOLL_CTL_ADD, listener, MOS_EPOLLIN);
    sock = connected(listener, &accepted);
        await(set, MOS_EPOLL_CTL_ADD, sock, MOS_EPOLLOUT);
    tell_events(set, 8);                                  /* output */
    await(set, MOS_EPOLL_CTL_MOD, sock, MOS_EPOLLIN | MOS_EPOLLOUT);
    mtcp_write(mctx, accepted, "x", 1);
    usleep(20000);
    tell_events(set, 8);                                  /* input, */
    tell_events(set, 8);                                  /* and then output */
    TELL(mtcp_read(mctx, sock, &byte, 1));
    TELL(mtcp_read(mctx, sock, &byte, 1));                /* in a set: it does not block */
    await(set, MOS_EPOLL_CTL_MOD, sock, MOS_EPOLLIN | MOS_EPOLLOUT | MOS_EPOLLET);
    mtcp_write(mctx, accepted, "x", 1);
    usleep(20000);
    tell_events(set, 8);                                  /* both: they do not come again */
    await(set, MOS_EPOLL_CTL_MOD, sock, MOS_EPOLLIN);
    mtcp_abort(mctx, accepted);
    usleep(20000);
    tell_events(set, 8);                                  /* an error alone */
    int error = 0;
    socklen_t size = sizeof error;
    TELL(mtcp_getsockopt(mctx, sock, SOL_SOCKET, SO_ERROR, &error, &size));
    TELL(error == ECONNRESET);
    mtcp_close(mctx, sock);
    TELL(connected(listener, &accepted) == sock);         /* the lowest free number again */
    TELL(mtcp_close(mctx, set));
}

static void pipes(void)
{
    int ids[2], set = mtcp_epoll_create(mctx, 8);
    char text[8] = "";
    TELL(mtcp_pipe(mctx, ids));
    await(set, MOS_EPOLL_CTL_ADD, ids[0], MOS_EPOLLIN);
    TELL(mtcp_write(mctx, ids[1], "abc", 3));
    tell_events(set, 8);
    TELL(mtcp_read(mctx, ids[0], text, sizeof text));
    TELL(mtcp_read(mctx, ids[0], text, sizeof text));
    TELL(mtcp_listen(mctx, ids[0], 1));
    TELL(mtcp_close(mctx, ids[0]));
    TELL(mtcp_write(mctx, ids[1], "abc", 3));
}

static void nothing(int number) { (void)number; }

/* Reaches another thread than the one that waits. */
static void *interrupt(void *argument)
{
    usleep(50000);
    raise(SIGUSR1);
    return argument;
}

static void *destroy(void *argument)
{
    usleep(50000);
    mtcp_destroy_context(mctx);
    return argument;
}

static void waits(void)
{
    struct mtcp_epoll_event event;
    pthread_t thread;
    int set = mtcp_epoll_create(mctx, 8), listener = new_listener();
    mtcp_register_signal(SIGUSR1, nothing);
    pthread_create(&thread, NULL, interrupt, NULL);
    TELL(mtcp_epoll_wait(mctx, set, &event, 1, -1));
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, interrupt, NULL);
    TELL(mtcp_accept(mctx, listener, NULL, NULL));
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, destroy, NULL);
    TELL(mtcp_epoll_wait(mctx, set, &event, 1, -1));
    pthread_join(thread, NULL);
    TELL(mtcp_socket(mctx, AF_INET, SOCK_STREAM, 0));
}

/* Numbers end at max_concurrency, and a port of another program's is refused. */
static void limits(void)
{
    int socks[8], count = 0;
    while (count < 8 && (socks[count] = new_stream()) >= 0)
        count++;
    printf("sockets %d, then %s\n", count, strerrorname_np(errno));
    mtcp_close(mctx, socks[1]);
    TELL(new_stream());
    int foreign = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(foreign, (struct sockaddr *)&address, size) || listen(foreign, 1) ||
        getsockname(foreign, (struct sockaddr *)&address, &size))
        exit(3);
    TELL(mtcp_bind(mctx, socks[0], (struct sockaddr *)&address, sizeof address));
    close(foreign);
    mctx_t other = mtcp_create_context(1);
    int second = mtcp_socket(other, AF_INET, SOCK_STREAM, 0);
    TELL(mtcp_bind(mctx, socks[0], (struct sockaddr *)&address, sizeof address));
    TELL(mtcp_listen(mctx, socks[0], 1));
    TELL(mtcp_bind(other, second, (struct sockaddr *)&address, sizeof address));   /* contexts share a port */
    TELL(mtcp_listen(other, second, 1));
}

/* A context comes and goes, while end hosts of another wait and signals interrupt them. */
static void *come_and_go(void *done)
{
    for (int i = 0; i < 200; i++) {
        mctx_t other = mtcp_create_context(1);
        if (!other || mtcp_socket(other, AF_INET, SOCK_STREAM, 0) < 0)
            exit(3);
        raise(SIGUSR1);
        mtcp_destroy_context(other);
    }
    *(atomic_int *)done = 1;
    raise(SIGUSR1);
    return NULL;
}

static void contexts(void)
{
    atomic_int done = 0;
    struct mtcp_epoll_event event;
    int set = mtcp_epoll_create(mctx, 8), waits = 0;
    pthread_t thread;
    mtcp_register_signal(SIGUSR1, nothing);
    pthread_create(&thread, NULL, come_and_go, &done);
    while (!done)
        waits += mtcp_epoll_wait(mctx, set, &event, 1, 10) < 0 && errno == EINTR;
    pthread_join(thread, NULL);
    printf("interrupted %d\n", waits > 0);
}

static void destroy_here(int number)
{
    (void)number;
    mtcp_destroy_context(mctx);
}

static pthread_t main_thread;

static void *destroy_there(void *argument)
{
    usleep(50000);
    pthread_kill(main_thread, SIGUSR2);
    return argument;
}

/* The handler of a signal destroys the context of the call that it interrupts. */
static void handler(void)
{
    static char bytes[1 << 22];
    int ids[2];
    pthread_t thread;
    main_thread = pthread_self();
    mtcp_register_signal(SIGUSR2, destroy_here);
    mtcp_pipe(mctx, ids);
    while (mtcp_write(mctx, ids[0], bytes, sizeof bytes) < 0)
        usleep(1000);
    pthread_create(&thread, NULL, destroy_there, NULL);
    TELL(mtcp_write(mctx, ids[0], bytes, sizeof bytes));
    pthread_join(thread, NULL);
    TELL(mtcp_write(mctx, ids[0], bytes, 1));
    TELL(mtcp_close(mctx, ids[0]));
    TELL(mtcp_destroy_context(mctx));
    TELL((mctx = mtcp_create_context(0)) ? 0 : -1);   /* it was freed as the call returned */
    TELL(mtcp_pipe(mctx, ids));
    mtcp_destroy_context(mctx);
    TELL((mctx = mtcp_create_context(0)) ? 0 : -1);
    raise(SIGUSR2);                                    /* not while it is called: the next call frees it */
    TELL((long)(mtcp_create_context(0) != NULL));
    TELL(mtcp_pipe(mctx, ids));
    TELL((mctx = mtcp_create_context(0)) ? 0 : -1);
}

static atomic_int workers;

static void *work(void *cpu)
{
    struct mtcp_epoll_event event;
    mctx_t own = mtcp_create_context(*(int *)cpu);
    int set = mtcp_epoll_create(own, 8);
    workers++;
    if (mtcp_epoll_wait(own, set, &event, 1, -1) != -1 || errno != EINTR ||
        mtcp_epoll_wait(own, set, &event, 1, -1) != -1 || errno != EPERM)
        exit(4);
    return NULL;
}

/* mtcp_destroy ends the waits of workers, whose contexts they made themselves. */
static void end(void)
{
    int cpus[2] = {0, 1};
    pthread_t threads[2];
    mtcp_destroy_context(mctx);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &cpus[i]);
    while (workers < 2)
        usleep(1000);
    usleep(50000);
    TELL(mtcp_destroy());
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    struct mtcp_conf conf;
    TELL(mtcp_init(file));
    TELL(mtcp_getconf(&conf));
    conf.num_cores = 2;
    mtcp_setconf(&conf);
    for (int i = 0; i < 2; i++)
        TELL((mctx = mtcp_create_context(i)) ? 0 : -1);   /* the last calls have freed them */
}

static long status(const char *name)
{
    char line[256];
    long value = 0;
    FILE *file_of_kernel = fopen("/proc/self/status", "r");
    while (file_of_kernel && fgets(line, sizeof line, file_of_kernel))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    if (file_of_kernel)
        fclose(file_of_kernel);
    return value;
}

/* Monitors of a capture run beside end hosts. Their thread ends before mtcp_destroy, which joins it: else its stack stays. */
static void beside(void)
{
    struct mtcp_conf conf;
    long first = 0;
    for (int i = 0; i < 12; i++) {
        mtcp_socket(mctx, AF_INET, MOS_SOCK_MONITOR_STREAM, 0);
        new_listener();
        for (int k = 0; k < 500 && status("Threads:") > 1; k++)
            usleep(2000);
        if (mtcp_destroy() || mtcp_init(file) || mtcp_getconf(&conf))
            exit(3);
        conf.num_cores = 2;
        mtcp_setconf(&conf);
        if (!(mctx = mtcp_create_context(0)))
            exit(4);
        first = i == 1 ? status("VmSize:") : first;
    }
    printf("stacks %ld\n", (status("VmSize:") - first) / (8 * 1024) / 5);
}

/* The limit of open files allows all sockets of both contexts. */
static void files(void)
{
    struct rlimit limit = {64, 4096};
    struct mtcp_conf conf;
    if (setrlimit(RLIMIT_NOFILE, &limit) || mtcp_getconf(&conf) || new_stream() < 0 || getrlimit(RLIMIT_NOFILE, &limit))
        exit(3);
    printf("files %ld\n", (long)limit.rlim_cur - (long)conf.num_cores * conf.max_concurrency);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"errors", errors}, {"streams", streams}, {"epoll", epoll}, {"pipes", pipes}, {"waits", waits}, {"limits", limits},
        {"files", files}, {"contexts", contexts}, {"handler", handler}, {"end", end}, {"beside", beside},
    };
    struct mtcp_conf conf;
    if (argc < 3 || mtcp_init(argv[1]) || mtcp_getconf(&conf))
        return 1;
    file = argv[1];
    conf.num_cores = 2;   /* also where there is one */
    mtcp_setconf(&conf);
    if (!(mctx = mtcp_create_context(0)))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 2; i < argc; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (strcmp(argv[i], all[k].name) == 0)
                all[k].run();
    mtcp_destroy();
    return 0;
}
