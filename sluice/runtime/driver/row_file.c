#define _GNU_SOURCE
#include "driver/row_file.h"

#include "core/box.h"
#include "core/create.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

enum { BUFFER = 1 << 16 };

struct row_file {
    pthread_mutex_t lock;  /* of what follows: workers write to one file. stdio locks it, too, unseen by sanitizers. */
    int descriptor;
    int failed;            /* errno of the first write that failed */
    bool regular;
    uint64_t end, whole;   /* bytes written; bytes up to the end of the last complete line */
    char *partial;         /* the beginning of a line */
    size_t used, room;
    struct sl_box *box;
    char buffer[BUFFER];   /* of the FILE: without a buffer of its own, glibc ignores the size */
    char path[];
};

/* Records a failure, and cuts what the failed write left of a line. */
static bool fail(struct row_file *file, int reason)
{
    if (file->failed)
        return false;
    file->failed = reason ? reason : EIO;
    bool cut = file->regular && ftruncate(file->descriptor, (off_t)file->whole) == 0;
    (void)cut;   /* the failure is reported in any case */
    if (file->box) {
        char what[192];   /* leaves room for the reason */
        snprintf(what, sizeof what, "%.150s: the rows could not all be written", file->path);
        sl_fail(file->box, what, strerror(file->failed));
    }
    return false;
}

/* Writes complete lines. */
static bool put(struct row_file *file, const char *at, size_t size)
{
    while (size) {
        ssize_t written = write(file->descriptor, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return fail(file, errno);
        const char *end = memrchr(at, '\n', (size_t)written);
        if (end)
            file->whole = file->end + (uint64_t)(end - at) + 1;
        file->end += (uint64_t)written;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

/* Stores the beginning of a line. */
static bool put_aside(struct row_file *file, const char *at, size_t size)
{
    if (size > file->room - file->used) {
        size_t room = file->room ? file->room : 4096;
        while (room - file->used < size)
            room *= 2;
        char *larger = realloc(file->partial, room);
        if (!larger)
            return fail(file, ENOMEM);
        file->partial = larger;
        file->room = room;
    }
    if (size)
        memcpy(file->partial + file->used, at, size);
    file->used += size;
    return true;
}

static bool take(struct row_file *file, const char *at, size_t size)
{
    const char *end = memrchr(at, '\n', size);
    if (!end)
        return put_aside(file, at, size);
    if (file->used) {   /* the line that began earlier */
        size_t rest = (size_t)((const char *)memchr(at, '\n', size) - at) + 1;
        if (!put_aside(file, at, rest) || !put(file, file->partial, file->used))
            return false;
        file->used = 0;
        at += rest;
        size -= rest;
    }
    size_t complete = end >= at ? (size_t)(end - at) + 1 : 0;
    return put(file, at, complete) && put_aside(file, at + complete, size - complete);
}

static ssize_t cookie_write(void *cookie, const char *bytes, size_t size)
{
    struct row_file *file = cookie;
    pthread_mutex_lock(&file->lock);
    bool taken = !file->failed && take(file, bytes, size);
    int reason = file->failed;
    pthread_mutex_unlock(&file->lock);
    if (taken)
        return (ssize_t)size;
    errno = reason;
    return 0;
}

static int cookie_close(void *cookie)
{
    struct row_file *file = cookie;
    pthread_mutex_lock(&file->lock);
    if (!file->failed && file->used)   /* a program's last line that has no end */
        put(file, file->partial, file->used);
    if (close(file->descriptor) && !file->failed)
        fail(file, errno);
    int reason = file->failed;
    pthread_mutex_unlock(&file->lock);
    pthread_mutex_destroy(&file->lock);
    free(file->partial);
    free(file);
    errno = reason;
    return reason ? -1 : 0;
}

FILE *sl_row_file(const char *path, struct sl_box *box)
{
    if (sl_named_descriptor(path) >= 0)
        return sl_create(path);
    size_t length = strlen(path);
    struct row_file *file = calloc(1, sizeof *file + length + 1);
    if (!file)
        return NULL;
    memcpy(file->path, path, length + 1);
    file->box = box;
    pthread_mutex_init(&file->lock, NULL);
    file->descriptor = sl_create_descriptor(path);
    struct stat about;
    file->regular = file->descriptor >= 0 && fstat(file->descriptor, &about) == 0 && S_ISREG(about.st_mode);
    FILE *out = file->descriptor < 0
                    ? NULL
                    : fopencookie(file, "w", (cookie_io_functions_t){.write = cookie_write, .close = cookie_close});
    if (!out) {
        int reason = errno;
        if (file->descriptor >= 0)
            close(file->descriptor);
        free(file);
        errno = reason;
        return NULL;
    }
    setvbuf(out, file->buffer, _IOFBF, sizeof file->buffer);
    return out;
}
