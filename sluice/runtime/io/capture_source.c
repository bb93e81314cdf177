/* The back end for captures. A plain file is mapped. All others (pipes, compressed and growing files) are read as a
 * stream into one buffer.
 *
 * Frames point into the buffer, so it is refilled only if all frames are released. A burst therefore ends at the end of
 * the buffer. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "io/capture_reader.h"
#include "io/decompress.h"
#include "io/reader.h"
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER = 1 << 20,
    RECORD_MOST = SL_CAPTURE_LARGEST_PACKET + (1 << 16),   /* maximum size of a record or block of a stream */
};

struct capture_source {
    struct sl_source base;
    struct sl_capture *capture;
    struct sl_reader *reader;        /* NULL: the file is mapped */
    uint8_t *buffer;
    size_t room, filled;
    bool out;                        /* some received frames are not released yet */
    int ended;                       /* SL_SOURCE_END or SL_SOURCE_FAULT once reached, else 0 */
    bool has_secrets;
    struct sl_capture_secrets secrets;   /* to be given before the packets of the next burst */
};

static struct capture_source *of(struct sl_source *source) { return (struct capture_source *)(void *)source; }

/* Moves the unparsed bytes to the front of the buffer, and enlarges a full buffer for a record of `needed` bytes. It
 * grows as bytes arrive, not by the length stated in the capture, so a false length cannot make it allocate more than
 * twice the bytes that were read. */
static bool make_room(struct capture_source *s, size_t needed)
{
    size_t left = s->capture->size - s->capture->position;
    if (left && s->capture->position)
        memmove(s->buffer, s->capture->bytes + s->capture->position, left);
    s->filled = left;
    if (needed <= s->room || s->filled < s->room)
        return true;
    uint8_t *larger = realloc(s->buffer, 2 * s->room);
    if (!larger)
        return false;
    s->buffer = larger;
    s->room *= 2;
    return true;
}

/* Reads more bytes. Returns 1 if the window has more bytes or the stream has ended; 0 if no bytes are available now. */
static int fill(struct capture_source *s)
{
    if (s->capture->needed > RECORD_MOST) {
        sl_capture_fail(s->capture, "corrupt: a block of %zu bytes", s->capture->needed);
        return 1;
    }
    if (!make_room(s, s->capture->needed)) {
        sl_capture_fail(s->capture, "out of memory for a record of %zu bytes", s->capture->needed);
        return 1;
    }
    ptrdiff_t got = sl_reader_read(s->reader, s->buffer + s->filled, s->room - s->filled);
    if (got > 0)
        s->filled += (size_t)got;
    sl_capture_window(s->capture, s->buffer, s->filled, got != SL_READER_END);
    if (got == SL_READER_FAULT && s->capture->begun)
        sl_capture_fail(s->capture, "%s", sl_reader_fault(s->reader));
    else if (got == SL_READER_FAULT)
        snprintf(s->capture->fault, sizeof s->capture->fault, "%s", sl_reader_fault(s->reader));
    return got != 0;
}

static void give_secrets(struct capture_source *s)
{
    s->has_secrets = false;
    if (s->base.take_secrets)
        s->base.take_secrets(s->base.secrets_user, s->secrets.kind, s->secrets.bytes);
}

static int32_t receive(struct sl_source *source, struct sl_frame *frames, uint32_t most)
{
    struct capture_source *s = of(source);
    uint32_t count = 0;
    if (s->has_secrets)
        give_secrets(s);
    while (count < most && !s->ended) {
        int got = sl_capture_step(s->capture, &frames[count], &s->secrets);
        if (got == SL_CAPTURE_PACKET) {
            count++;
        } else if (got == SL_CAPTURE_SECRETS) {
            s->has_secrets = true;
            if (count)
                break;
            give_secrets(s);
        } else if (got == SL_CAPTURE_MORE) {
            if (count || s->out || !fill(s))
                break;
        } else {
            s->ended = got == SL_CAPTURE_END ? SL_SOURCE_END : SL_SOURCE_FAULT;
            if (got != SL_CAPTURE_END)
                sl_source_fail(source, "%s", sl_capture_fault(s->capture));
        }
    }
    s->out = s->out || count;
    return count ? (int32_t)count : s->ended;
}

static void release(struct sl_source *source) { of(source)->out = false; }

static bool keeps(const struct sl_source *source)
{
    return !((const struct capture_source *)(const void *)source)->reader;
}

static unsigned descriptors(struct sl_source *source, struct pollfd *fds, unsigned most)
{
    struct capture_source *s = of(source);
    int file = s->reader ? sl_reader_descriptor(s->reader) : -1;
    if (file < 0 || most == 0)
        return 0;
    fds[0] = (struct pollfd){file, POLLIN, 0};
    return 1;
}

static void progress(struct sl_source *source, uint64_t *position, uint64_t *size)
{
    struct capture_source *s = of(source);
    if (s->reader) {
        sl_reader_progress(s->reader, position, size);
    } else {
        *position = sl_capture_position(s->capture);
        *size = sl_capture_size(s->capture);
    }
}

static void statistics(struct sl_source *source, struct sl_source_statistics *out)
{
    out->packets = of(source)->capture->packets;
}

static int close_source(struct sl_source *source)
{
    struct capture_source *s = of(source);
    sl_capture_close(s->capture);
    sl_reader_close(s->reader);
    free(s->buffer);
    return 0;
}

static const struct sl_source_back_end back_end = {
    .scheme = "file",
    .receive = receive,
    .release = release,
    .keeps = keeps,
    .descriptors = descriptors,
    .progress = progress,
    .statistics = statistics,
    .close = close_source,
};

/* Whether the file is not compressed, so that it can be mapped. Does not move the file's position. */
static bool is_plain(int file)
{
    uint8_t magic[SL_MAGIC_BYTES];
    ssize_t n = pread(file, magic, sizeof magic, 0);
    return n <= 0 || !sl_compression_of(magic, (size_t)n);
}

/* Opens a stream, and reads the capture's header if this cannot block. Returns 0, or -1 with the reason. */
static int open_stream(struct capture_source *s, int file, const char *path, bool regular, bool follow)
{
    s->capture = sl_capture_stream();
    s->reader = sl_reader_open(file, path, follow);
    s->room = BUFFER;
    s->buffer = malloc(s->room);
    if (!s->capture || !s->reader || !s->buffer)
        return sl_source_fail(&s->base, "out of memory");
    while (regular && !follow && !s->capture->begun) {
        int got = sl_capture_start(s->capture);
        if (got == SL_CAPTURE_MORE)
            fill(s);
        else if (got)
            return sl_source_fail(&s->base, "%s", sl_capture_fault(s->capture));
    }
    return 0;
}

/* Opens the file at `path`. Returns its descriptor, or -1 with the reason. */
static int open_file(struct sl_source *source, const char *path, struct stat *status)
{
    bool standard = strcmp(path, "-") == 0;
    int file = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, status)) {
        sl_source_fail(source, "cannot open: %s", strerror(errno));
    } else if (S_ISDIR(status->st_mode)) {
        sl_source_fail(source, "cannot open: is a directory");
    } else if (isatty(file)) {
        sl_source_fail(source, "is a terminal: give a capture, as in `tcpdump -w - | sluice ... -r -`");
    } else {
        return file;
    }
    if (file >= 0)
        close(file);
    return -1;
}

int sl_capture_source_open(struct sl_source **out, const char *path, const struct sl_source_options *options, char *message,
                           size_t message_size)
{
    *out = NULL;
    struct capture_source *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(message, message_size, "%s: out of memory", path);
        return -1;
    }
    s->base.back_end = &back_end;
    snprintf(s->base.name, sizeof s->base.name, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
    struct stat status;
    int file = open_file(&s->base, path, &status);
    bool regular = file >= 0 && S_ISREG(status.st_mode), mapped = regular && !options->follow && lseek(file, 0, SEEK_CUR) == 0;
    int result = file < 0 ? -1 : 0;
    if (!result && mapped && is_plain(file)) {
        char reason[SL_CAPTURE_MESSAGE];
        result = sl_capture_map(&s->capture, file, reason, sizeof reason);
        if (result)
            sl_source_fail(&s->base, "%s", reason);
        close(file);
    } else if (!result) {
        result = open_stream(s, file, path, regular, options->follow);
    }
    if (result) {
        snprintf(message, message_size, "%s", s->base.fault);
        close_source(&s->base);
        free(s);
        return -1;
    }
    *out = &s->base;
    return 0;
}
