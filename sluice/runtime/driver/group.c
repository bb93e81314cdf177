#define _GNU_SOURCE
#include "driver/group.h"

#include "core/box.h"
#include "core/create.h"
#include "driver/row_file.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
    BUFFER = 1 << 16,   /* of a worker's file */
    FUNCTIONS_MOST = 1024,
};

/* Where rows come together. */
struct output {
    struct output *next;
    FILE *out;
    bool standard;   /* it is stdout, which remains open */
    char path[];
};

/* A row, or several that were written together, in a spool: then the bytes. */
struct stored {
    uint64_t order;   /* number of the packet */
    uint64_t size;
};

/* What remains of the rows of a process that has crashed. */
struct complete {
    uint64_t bytes;   /* of complete rows in the spool */
    int failed;       /* errno of the first write that failed */
};

/* The rows of one function in one worker. */
struct rows {
    struct rows *next;
    struct sl_group *group;
    struct output *output;
    const struct sl_box *box;
    uint32_t worker;
    pthread_mutex_t lock;   /* another thread may flush the worker's file */
    FILE *spool;            /* NULL: rows are written at once */
    char *partial;          /* the beginning of a row */
    size_t used, room;
    int failed;             /* errno of the first write that failed */
    struct stored head;     /* of the next row of the spool, when rows are merged */
    bool more;
    struct complete *complete;   /* in memory that processes share; NULL: threads */
};

struct sl_group {
    uint32_t workers;
    bool in_order;
    bool isolated;                    /* the workers are processes */
    pthread_mutex_t lock;
    pthread_mutex_t *common_lock;     /* where they are, in shared memory */
    pthread_mutex_t *row_lock;        /* next to it: of the outputs of processes, in which a row takes several writes */
    struct output *outputs;
    struct rows *rows;                /* in the order of workers and, in each, of functions */
    void *common[FUNCTIONS_MOST];
    size_t common_size[FUNCTIONS_MOST];   /* in shared memory */
    bool *ends;                       /* by worker; each is the worker's own */
};

/* Memory that workers share also where they are processes. */
static void *group_memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

struct sl_group *sl_group_open(uint32_t workers, bool in_order)
{
    struct sl_group *group = calloc(1, sizeof *group);
    bool *ends = calloc(workers, sizeof *ends);
    pthread_mutex_t *lock = group_memory(2 * sizeof *lock);
    if (!group || !ends || !lock) {
        free(group);
        free(ends);
        if (lock)
            munmap(lock, 2 * sizeof *lock);
        return NULL;
    }
    group->workers = workers;
    group->in_order = in_order;
    group->ends = ends;
    pthread_mutex_init(&group->lock, NULL);
    group->common_lock = lock;
    group->row_lock = lock + 1;
    pthread_mutex_init(lock, NULL);
    pthread_mutex_init(lock + 1, NULL);
    return group;
}

void sl_group_isolate(struct sl_group *group)
{
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);   /* a worker may crash while it has it */
    pthread_mutex_init(group->common_lock, &how);
    pthread_mutex_init(group->row_lock, &how);
    pthread_mutexattr_destroy(&how);
    group->isolated = true;
}

/* Bytes of a spool's rows that are complete, by their heads. */
static uint64_t complete_rows(int file, uint64_t size)
{
    struct stored head;
    uint64_t at = 0;
    while (size - at >= sizeof head && pread(file, &head, sizeof head, (off_t)at) == (ssize_t)sizeof head &&
           head.size <= size - at - sizeof head)
        at += sizeof head + head.size;
    return at;
}

void sl_group_recover(struct sl_group *group, uint32_t worker)
{
    for (struct rows *rows = group->rows; rows; rows = rows->next)
        if (rows->worker == worker && rows->spool && rows->complete) {
            int file = fileno(rows->spool);
            struct stat about = {0};
            bool cut = fstat(file, &about) == 0;
            uint64_t bytes = rows->complete->bytes, size = (uint64_t)about.st_size;
            if (bytes > size)   /* a process that crashed may have written anything */
                rows->complete->bytes = bytes = complete_rows(file, size);
            cut = cut && ftruncate(file, (off_t)bytes) == 0 && lseek(file, 0, SEEK_END) >= 0;
            if (!cut && !rows->complete->failed)
                rows->complete->failed = errno;
        }
}

/* --- objects in common --- */

void *sl_group_common(struct sl_group *group, uint32_t function, size_t size)
{
    if (function >= FUNCTIONS_MOST)
        return NULL;
    pthread_mutex_lock(&group->lock);
    void *object = group->common[function];
    if (!object && group->isolated) {
        object = group->common[function] = group_memory(size);
        group->common_size[function] = size;
    } else if (!object) {
        object = group->common[function] = calloc(1, size);
    }
    pthread_mutex_unlock(&group->lock);
    return object;
}

uint32_t sl_group_size(const struct sl_group *group) { return group->workers; }

static void lock_shared(pthread_mutex_t *lock)
{
    if (pthread_mutex_lock(lock) == EOWNERDEAD)   /* of an isolated worker that crashed */
        pthread_mutex_consistent(lock);
}

void sl_group_lock(struct sl_group *group) { lock_shared(group->common_lock); }

void sl_group_unlock(struct sl_group *group) { pthread_mutex_unlock(group->common_lock); }

/* --- rows --- */

/* The output called `path`; created where it is the first use. NULL with errno. */
static struct output *output_of(struct sl_group *group, const char *path)
{
    for (struct output *output = group->outputs; output; output = output->next)
        if (strcmp(output->path, path) == 0)
            return output;
    size_t length = strlen(path);
    struct output *output = calloc(1, sizeof *output + length + 1);
    if (!output)
        return NULL;
    memcpy(output->path, path, length + 1);
    output->standard = !*path;
    /* a row file knows where its last line ended, and so belongs to one process */
    output->out = output->standard ? stdout : group->isolated ? sl_create(path) : sl_row_file(path, NULL);
    if (!output->out) {
        int reason = errno;
        free(output);
        errno = reason;
        return NULL;
    }
    output->next = group->outputs;
    group->outputs = output;
    return output;
}

/* A file without a name, for rows that wait. */
static FILE *spool_open(void)
{
    const char *folder = getenv("TMPDIR");
    int file = open(folder && *folder ? folder : "/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    FILE *spool = file < 0 ? tmpfile() : fdopen(file, "w+");   /* not every file system has files without a name */
    if (!spool && file >= 0)
        close(file);
    return spool;
}

/* Writes complete rows to their output, which other workers write, too. */
static bool write_out(const struct rows *rows, const char *bytes, size_t size)
{
    FILE *out = rows->output->out;
    if (!rows->group->isolated)   /* in one call, during which the file is locked */
        return fwrite(bytes, 1, size, out) == size;
    lock_shared(rows->group->row_lock);
    bool written = fwrite(bytes, 1, size, out) == size && fflush(out) == 0;
    int reason = errno;
    pthread_mutex_unlock(rows->group->row_lock);
    errno = reason;
    return written;
}

/* Takes complete rows. False with errno. */
static bool take(struct rows *rows, const char *bytes, size_t size)
{
    errno = 0;
    bool isolated = rows->group->isolated;
    if (!rows->spool)
        return write_out(rows, bytes, size);
    uint64_t order = rows->box->row_order ? rows->box->row_order : rows->box->number;
    if (!rows->box->row_order && rows->group->ends[rows->worker])
        order = UINT64_MAX;
    struct stored head = {order, size};
    if (fwrite(&head, sizeof head, 1, rows->spool) != 1 || fwrite(bytes, 1, size, rows->spool) != size ||
        (isolated && fflush(rows->spool)))
        return false;
    if (rows->complete)
        rows->complete->bytes += sizeof head + size;
    return true;
}

/* Stores the beginning of a row. False with errno. */
static bool put_aside(struct rows *rows, const char *bytes, size_t size)
{
    if (size > rows->room - rows->used) {
        size_t room = rows->room ? rows->room : 1024;
        while (room - rows->used < size)
            room *= 2;
        char *larger = realloc(rows->partial, room);
        if (!larger)
            return false;
        rows->partial = larger;
        rows->room = room;
    }
    memcpy(rows->partial + rows->used, bytes, size);
    rows->used += size;
    return true;
}

/* Takes what a worker wrote, which ends anywhere. */
static bool take_any(struct rows *rows, const char *bytes, size_t size)
{
    const char *end = memrchr(bytes, '\n', size);
    size_t complete = end ? (size_t)(end - bytes) + 1 : 0;
    if (complete && !rows->used) {
        if (!take(rows, bytes, complete))
            return false;
    } else if (complete) {
        if (!put_aside(rows, bytes, complete) || !take(rows, rows->partial, rows->used))
            return false;
        rows->used = 0;
    }
    return complete == size || put_aside(rows, bytes + complete, size - complete);
}

/* A row could not be written. */
static void fail(struct rows *rows)
{
    rows->failed = errno ? errno : EIO;
    if (rows->complete && !rows->complete->failed)
        rows->complete->failed = rows->failed;
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t size)
{
    struct rows *rows = cookie;
    pthread_mutex_lock(&rows->lock);
    bool taken = !rows->failed && take_any(rows, bytes, size);
    if (!taken && !rows->failed)
        fail(rows);
    int reason = rows->failed;
    pthread_mutex_unlock(&rows->lock);
    if (!taken)
        errno = reason;
    return taken ? (ssize_t)size : 0;
}

static int cookie_close(void *cookie)
{
    struct rows *rows = cookie;
    pthread_mutex_lock(&rows->lock);
    if (rows->used && !rows->failed && !take(rows, rows->partial, rows->used))
        fail(rows);
    rows->used = 0;
    int reason = rows->failed;
    pthread_mutex_unlock(&rows->lock);
    errno = reason;
    return reason ? -1 : 0;
}

FILE *sl_group_rows(struct sl_group *group, struct sl_box *box, const char *path)
{
    struct rows *rows = calloc(1, sizeof *rows);
    FILE *file = NULL;
    pthread_mutex_lock(&group->lock);
    if (rows && (rows->output = output_of(group, path)) && (!group->in_order || (rows->spool = spool_open())) &&
        (!group->isolated || (rows->complete = group_memory(sizeof *rows->complete)))) {
        rows->group = group;
        rows->box = box;
        rows->worker = box->worker;
        file = fopencookie(rows, "w", (cookie_io_functions_t){.write = cookie_write, .close = cookie_close});
    }
    if (file) {
        setvbuf(file, NULL, _IOLBF, BUFFER);   /* a row is taken while its packet is the current one */
        pthread_mutex_init(&rows->lock, NULL);
        struct rows **last = &group->rows;
        while (*last)
            last = &(*last)->next;
        *last = rows;
    } else {
        int reason = errno;
        if (rows && rows->spool)
            fclose(rows->spool);
        free(rows);
        errno = reason;
    }
    pthread_mutex_unlock(&group->lock);
    return file;
}

void sl_group_ends(struct sl_group *group, uint32_t worker) { group->ends[worker] = true; }

/* --- rows in one order --- */

/* Reads the head of a spool's next row. */
static bool next_row(struct rows *rows)
{
    rows->more = fread(&rows->head, sizeof rows->head, 1, rows->spool) == 1;
    return rows->more || !ferror(rows->spool);
}

static bool copy_row(struct rows *rows)
{
    char bytes[4096];
    for (uint64_t left = rows->head.size; left;) {
        size_t part = left < sizeof bytes ? (size_t)left : sizeof bytes;
        if (fread(bytes, 1, part, rows->spool) != part || fwrite(bytes, 1, part, rows->output->out) != part)
            return false;
        left -= part;
    }
    return next_row(rows);
}

/* Of the spools of an output, the one with the earliest row; of equal ones that of the first worker. NULL at the end. */
static struct rows *earliest(const struct sl_group *group, const struct output *output)
{
    struct rows *found = NULL;
    for (struct rows *rows = group->rows; rows; rows = rows->next)
        if (rows->output == output && rows->more && (!found || rows->head.order < found->head.order))
            found = rows;
    return found;
}

static bool merge(const struct sl_group *group, const struct output *output)
{
    for (struct rows *rows = group->rows; rows; rows = rows->next)
        if (rows->output == output && (fflush(rows->spool) || fseek(rows->spool, 0, SEEK_SET) || !next_row(rows)))
            return false;
    for (struct rows *rows; (rows = earliest(group, output));)
        if (!copy_row(rows))
            return false;
    return true;
}

/* The reason why a process could not write a row, which it may not have reported before it crashed; 0: there is none. */
static int failed_before(const struct sl_group *group, const struct output *output)
{
    int reason = 0;
    for (struct rows *rows = group->rows; rows && !reason; rows = rows->next)
        if (rows->output == output && rows->complete)
            reason = rows->complete->failed;
    return reason;
}

int sl_group_write(struct sl_group *group, char *message, size_t message_size)
{
    int result = 0;
    for (struct output *output = group->outputs; output; output = output->next) {
        errno = 0;
        bool written = !group->in_order || merge(group, output);
        if (fflush(output->out) == 0 && written) {
            errno = failed_before(group, output);
            if (!errno)
                continue;
        }
        const char *name = output->standard ? "standard output" : output->path;
        snprintf(message, message_size, "%s: the rows could not all be written: %s", name, strerror(errno ? errno : EIO));
        result = -1;
    }
    return result;
}

void sl_group_close(struct sl_group *group)
{
    if (!group)
        return;
    for (struct rows *rows = group->rows, *next; rows; rows = next) {
        next = rows->next;
        if (rows->spool)
            fclose(rows->spool);
        if (rows->complete)
            munmap(rows->complete, sizeof *rows->complete);
        pthread_mutex_destroy(&rows->lock);
        free(rows->partial);
        free(rows);
    }
    for (struct output *output = group->outputs, *next; output; output = next) {
        next = output->next;
        if (!output->standard)
            fclose(output->out);
        free(output);
    }
    for (uint32_t i = 0; i < FUNCTIONS_MOST; i++) {
        if (group->common_size[i] && group->common[i])
            munmap(group->common[i], group->common_size[i]);
        else
            free(group->common[i]);
    }
    pthread_mutex_destroy(&group->lock);
    pthread_mutex_destroy(group->common_lock);
    pthread_mutex_destroy(group->row_lock);
    munmap(group->common_lock, 2 * sizeof *group->common_lock);
    free(group->ends);
    free(group);
}
