/* Writes access logs. A file is reopened on request, when another one has its name, and when it has become too large: it
 * gets the name PATH.1 then, the one of that name PATH.2, and so on. Of two processes that write to it, as after a reload, one
 * renames it: a lock of the file decides which. */
#define _GNU_SOURCE 1 /* flock */
#include "log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "worker.h"

enum { WHY = 256, PAUSE = 200, /* milliseconds between two looks at the rings */ NAME = 4096 };

static struct {
    struct service_config *configs;
    uint32_t services;
    pthread_t thread;
    int wake;
    atomic_bool reopen, stopping;
} writer = {.wake = -1};

/* A FIFO that no one reads is refused, and one whose reader is slow loses lines: neither blocks the writer. */
static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

const char *service_log_open(struct service_config *config, const char *path)
{
    static char why[NAME + WHY];
    struct service_log_file *file;

    if (!path[0])
        return NULL;
    if (strlen(path) + 16 > NAME)
        return "the path of the access log is too long";
    file = calloc(1, sizeof *file);
    if (!file)
        return "no memory for the access log";
    file->config = config;
    file->path = path;
    file->ring = 1 << 20;
    file->fd = open_file(path);
    config->log = file;
    config->ends = true;
    if (file->fd < 0) {
        snprintf(why, sizeof why, "the access log %s cannot be opened: %s", path, strerror(errno));
        return why;
    }
    return service_log_read_format(&file->format, "combined");
}

const char *service_log_file_add(struct service_log_file *file, struct service_log *log)
{
    struct service_log **more = realloc(file->logs, (file->count + 1) * sizeof *more);

    if (!more)
        return "no memory for the access log";
    file->logs = more;
    more[file->count++] = log;
    return NULL;
}

void service_log_close(struct service_config *config)
{
    if (!config->log)
        return;
    if (config->log->fd >= 0)
        close(config->log->fd);
    free(config->log->logs);
    free(config->log);
    config->log = NULL;
}

/* Replaces the open file by the file of a name. If this fails, the open one remains in use. */
static void open_again(struct service_log_file *file)
{
    int fd = open_file(file->path);

    if (fd < 0) {
        if (!file->refused)
            fprintf(stderr, "sluice: the access log %s cannot be opened: %s\n", file->path, strerror(errno));
        file->refused = true;
        return;
    }
    file->refused = false;
    if (file->fd >= 0)
        close(file->fd);
    file->fd = fd;
    file->half = file->torn = false;
}

/* Whether the open file has its name still. */
static bool is_named(const struct service_log_file *file)
{
    struct stat open, named;

    return fstat(file->fd, &open) == 0 && stat(file->path, &named) == 0 && open.st_dev == named.st_dev &&
           open.st_ino == named.st_ino;
}

/* The name of a file before the current one. */
static const char *older(const struct service_log_file *file, uint32_t number, char name[NAME])
{
    if (number == 0)
        return file->path;
    snprintf(name, NAME, "%s.%u", file->path, number);
    return name;
}

/* Renames a file that is too large, and those before it. */
static void rotate(struct service_log_file *file)
{
    char from[NAME], to[NAME];
    struct stat found;

    if (!file->limit || fstat(file->fd, &found) != 0 || (uint64_t)found.st_size < file->limit)
        return;
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) { /* the next look tries again */
        if (!file->locked)
            fprintf(stderr, "sluice: the access log %s cannot be locked to be renamed: %s\n", file->path,
                    strerror(errno));
        file->locked = true;
        return;
    }
    file->locked = false;
    if (is_named(file)) { /* else another process has renamed it meanwhile */
        for (uint32_t number = file->keep; number > 0; number--)
            if (rename(older(file, number - 1, from), older(file, number, to)) != 0 && errno != ENOENT)
                fprintf(stderr, "sluice: the access log %s cannot be renamed: %s\n", from, strerror(errno));
        if (file->keep == 0)
            unlink(file->path);
    }
    flock(file->fd, LOCK_UN);
    open_again(file);
}

/* Lines that begin in some bytes. */
static uint64_t ends_in(const uint8_t *bytes, uint64_t size)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < size; i++)
        count += bytes[i] == '\n';
    return count;
}

/* A write has failed: the lines are lost. */
static void lose(struct service_log_file *file, const struct iovec *parts)
{
    uint64_t lost = ends_in(parts[0].iov_base, parts[0].iov_len) + ends_in(parts[1].iov_base, parts[1].iov_len);

    if (!file->failing)
        fprintf(stderr, "sluice: the access log %s cannot be written: %s\n", file->path, strerror(errno));
    file->failing = true;
    file->torn = file->torn || file->half;
    file->half = false;
    __atomic_fetch_add(&file->config->other_counters[SERVICE_LOG_UNWRITTEN], lost, __ATOMIC_RELAXED);
}

/* Writes some bytes of a ring: the number that is done with, written or lost. 0: the file accepts no more now; with `last`
 * these are lost then. */
static uint64_t write_some(struct service_log_file *file, const struct service_log *log, uint64_t tail, uint64_t size,
                           bool last)
{
    uint64_t at = tail & (log->size - 1), first = log->size - at < size ? log->size - at : size;
    struct iovec parts[2] = {{log->ring + at, first}, {log->ring, size - first}};
    ssize_t done;

    if (file->torn && write(file->fd, "\n", 1) == 1)
        file->torn = false;
    do
        done = writev(file->fd, parts, 2);
    while (done < 0 && errno == EINTR);
    if (done < 0 && errno == EAGAIN && !last)
        return 0;
    if (done < 0) {
        lose(file, parts);
        return size;
    }
    file->failing = false;
    if (done > 0)
        file->half = log->ring[(tail + (uint64_t)done - 1) & (log->size - 1)] != '\n';
    return (uint64_t)done;
}

static void write_all(struct service_log_file *file, bool last)
{
    for (uint32_t i = 0; i < file->count; i++) {
        struct service_log *log = file->logs[i];
        uint64_t tail = atomic_load_explicit(&log->tail, memory_order_relaxed);
        uint64_t head = atomic_load_explicit(&log->head, memory_order_acquire), done = 1;

        while (tail != head && done) {
            done = write_some(file, log, tail, head - tail, last);
            tail += done;
            atomic_store_explicit(&log->tail, tail, memory_order_release);
        }
    }
}

static void look_at(struct service_log_file *file, bool reopen, bool last)
{
    uint64_t now = service_nanoseconds() / 1000000000;

    write_all(file, last);
    if (reopen || (now != file->looked && !is_named(file)))
        open_again(file);
    file->looked = now;
    rotate(file);
}

static void *run(void *argument)
{
    bool last = false;

    (void)argument;
    do {
        struct pollfd wake = {.fd = writer.wake, .events = POLLIN};
        uint64_t woken;
        bool reopen;

        if (poll(&wake, 1, PAUSE) > 0 && read(writer.wake, &woken, sizeof woken) < 0)
            continue;
        last = atomic_load(&writer.stopping);
        reopen = atomic_exchange(&writer.reopen, false);
        for (uint32_t i = 0; i < writer.services; i++)
            if (writer.configs[i].log)
                look_at(writer.configs[i].log, reopen, last);
    } while (!last);
    return NULL;
}

const char *service_logs_start(struct service_config *configs, uint32_t services)
{
    bool any = false;

    for (uint32_t i = 0; i < services; i++)
        any = any || configs[i].log;
    if (!any)
        return NULL;
    writer.configs = configs;
    writer.services = services;
    writer.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (writer.wake < 0 || pthread_create(&writer.thread, NULL, run, NULL) != 0)
        return "no thread for the access log";
    return NULL;
}

void service_log_wake(void)
{
    uint64_t one = 1;

    if (writer.wake >= 0 && write(writer.wake, &one, sizeof one) < 0)
        return; /* it is awake */
}

void service_logs_reopen(void)
{
    atomic_store(&writer.reopen, true);
    service_log_wake();
}

void service_logs_stop(void)
{
    if (writer.wake < 0)
        return;
    atomic_store(&writer.stopping, true);
    service_log_wake();
    pthread_join(writer.thread, NULL);
    close(writer.wake);
    writer.wake = -1;
}
