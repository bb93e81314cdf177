/* A simulated clock, network and scheduler, loaded before libc (LD_PRELOAD): the threads that call simulated_enter run one
 * at a time, and only while the scheduler lets them. They give up their turn where a process of a chain would wait, sleep
 * or use the network. What they transmit waits until the scheduler delivers it to the real server, and so do its replies;
 * it may also break the connection, or never let a thread run again, as kill -9. Their clock advances with the turns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, FILES = 1024 };

struct bytes { char *at; size_t size, room; };

static struct file { struct bytes out, pending, in; int owner; bool used, broken; } files[FILES];
static struct thread { sem_t go; bool finished; } threads[THREADS];
static sem_t back;
static _Thread_local int self = -1;
static uint64_t now = UINT64_C(1000000000000);
static int control = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void add(struct bytes *bytes, const void *more, size_t size) {
    if (bytes->size + size > bytes->room) {
        bytes->room = 2 * (bytes->size + size);
        bytes->at = realloc(bytes->at, bytes->room);
    }
    memcpy(bytes->at + bytes->size, more, size);
    bytes->size += size;
}

static size_t take(struct bytes *bytes, void *to, size_t size) {
    size = size < bytes->size ? size : bytes->size;
    memcpy(to, bytes->at, size);
    memmove(bytes->at, bytes->at + size, bytes->size - size);
    bytes->size -= size;
    return size;
}

/* --- the scheduler's side --- */

void simulated_begin(int server) {
    control = server;
    sem_init(&back, 0, 0);
    for (int i = 0; i < THREADS; i++)
        sem_init(&threads[i].go, 0, 0);
}

/* Another server has the place of the one before. */
void simulated_control(int server) { control = server; }

/* A thread runs until it would wait. True: it has finished. */
bool simulated_run(int thread) {
    now += 20000;
    sem_post(&threads[thread].go);
    while (sem_wait(&back) && errno == EINTR) {}
    return threads[thread].finished;
}

static void ping(void) {
    static const char command[] = "*1\r\n$4\r\nPING\r\n";
    char reply[7];
    size_t size = 0;
    REAL(send)(control, command, sizeof command - 1, 0);
    while (size < sizeof reply) {
        ssize_t more = REAL(recv)(control, reply + size, sizeof reply - size, 0);
        if (more <= 0)
            abort();
        size += (size_t)more;
    }
}

/* What the server has replied, and called back, is pending. The second reply comes after all that it did before. */
static void collect(void) {
    ping();
    ping();
    for (int fd = 0; fd < FILES; fd++) {
        char buffer[1 << 16];
        ssize_t size;
        while (files[fd].used && !files[fd].broken && (size = REAL(recv)(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
            add(&files[fd].pending, buffer, (size_t)size);
    }
}

/* The server gets so many bytes of what was transmitted. */
void simulated_deliver(int fd, size_t most) {
    char buffer[1 << 16];
    while (most) {
        size_t size = take(&files[fd].out, buffer, most < sizeof buffer ? most : sizeof buffer);
        for (size_t sent = 0; sent < size;) {
            ssize_t more = REAL(send)(fd, buffer + sent, size - sent, MSG_NOSIGNAL);
            if (more > 0)
                sent += (size_t)more;
            else
                collect();
        }
        if (!size)
            break;
        most -= size;
    }
    collect();
}

/* A client gets what the server has replied. */
void simulated_reply(int fd) {
    add(&files[fd].in, files[fd].pending.at, files[fd].pending.size);
    files[fd].pending.size = 0;
}

/* A connection is lost, with what was not delivered. */
void simulated_break(int fd) {
    files[fd].out.size = files[fd].pending.size = files[fd].in.size = 0;
    files[fd].broken = true;
    shutdown(fd, SHUT_RDWR);
    ping();
    ping();
}

void simulated_forget(int fd) {
    simulated_break(fd);
    files[fd].used = false;
    close(fd);
}

int simulated_owner(int fd) { return files[fd].used && !files[fd].broken ? files[fd].owner : -1; }
size_t simulated_out(int fd) { return files[fd].out.size; }
size_t simulated_pending(int fd) { return files[fd].pending.size; }

/* --- the threads' side --- */

void simulated_enter(int thread) {
    while (sem_wait(&threads[thread].go) && errno == EINTR) {}
    self = thread;
}

void simulated_leave(void) {
    threads[self].finished = true;
    self = -1;
    sem_post(&back);
}

static void turn(uint64_t nanoseconds) {
    now += nanoseconds;
    sem_post(&back);
    while (sem_wait(&threads[self].go) && errno == EINTR) {}
}

/* A thread that would not wait gives up its turn. */
void simulated_pause(void) { turn(1000); }

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    if (self >= 0 && fd < FILES) {
        files[fd].out.size = files[fd].pending.size = files[fd].in.size = 0;
        files[fd].broken = false;
        files[fd].used = true;
        files[fd].owner = self;
    }
    return REAL(connect)(fd, address, length);
}

int close(int fd) {
    if (self >= 0 && fd >= 0 && fd < FILES)
        files[fd].used = false;
    return REAL(close)(fd);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
    if (self < 0 || fd >= FILES || !files[fd].used)
        return REAL(send)(fd, bytes, size, flags);
    if (files[fd].broken) {
        errno = EPIPE;
        return -1;
    }
    add(&files[fd].out, bytes, size);
    return (ssize_t)size;
}

ssize_t recv(int fd, void *bytes, size_t size, int flags) {
    if (self < 0 || fd >= FILES || !files[fd].used)
        return REAL(recv)(fd, bytes, size, flags);
    if (files[fd].broken)
        return 0;
    size_t got = take(&files[fd].in, bytes, size);
    if (got)
        return (ssize_t)got;
    errno = EAGAIN;
    return -1;
}

int poll(struct pollfd *wait, nfds_t count, int timeout) {
    if (self < 0)
        return REAL(poll)(wait, count, timeout);
    int ready = 0;
    turn(timeout > 0 ? 300000 : 1000);
    for (nfds_t i = 0; i < count; i++) {
        int fd = wait[i].fd;
        bool in = fd >= 0 && fd < FILES && files[fd].used && (files[fd].in.size || files[fd].broken);
        wait[i].revents = fd < 0 ? 0 : (short)((in ? POLLIN : 0) | (wait[i].events & POLLOUT));
        ready += wait[i].revents != 0;
    }
    return ready;
}

int nanosleep(const struct timespec *most, struct timespec *left) {
    if (self < 0)
        return REAL(nanosleep)(most, left);
    turn(50000);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (self < 0)
        return REAL(clock_gettime)(clock, time);
    *time = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
    return 0;
}

long syscall(long number, ...) {
    va_list given;
    long word[6];
    va_start(given, number);
    for (int i = 0; i < 6; i++)
        word[i] = va_arg(given, long);
    va_end(given);
    if (self < 0 || number != SYS_futex)
        return REAL(syscall)(number, word[0], word[1], word[2], word[3], word[4], word[5]);
    if ((int)word[1] == FUTEX_WAIT)
        turn(100000);
    else
        turn(1000);
    return 0;
}
