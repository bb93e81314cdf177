#define _GNU_SOURCE
#include "io/compressor.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The fastest level of each: a capture is compressed while it is received. */
static const struct {
    const char *suffix, *program, *package, *level;
} formats[] = {
    {".gz", "gzip", "gzip", "-1"},
    {".zst", "zstd", "zstd", "-1"},
    {".lz4", "lz4", "lz4", "-1"},
    {".xz", "xz", "xz-utils", "-0"},
};

enum { FORMATS = sizeof formats / sizeof *formats };

const char *sl_compressor_of(const char *path)
{
    size_t length = strlen(path);
    for (unsigned i = 0; i < FORMATS; i++) {
        size_t n = strlen(formats[i].suffix);
        if (length > n && strcmp(path + length - n, formats[i].suffix) == 0)
            return formats[i].program;
    }
    return NULL;
}

/* In a process group of its own, so that Ctrl-C on a terminal does not end it before the last byte. */
static int spawn(const char *program, const char *level, int in, int out, pid_t *process)
{
    char *const words[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "-q", (char *)(uintptr_t) "-c",
                           (char *)(uintptr_t)level, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int result = posix_spawn_file_actions_init(&actions);
    if (result)
        return result;
    if ((result = posix_spawnattr_init(&attributes))) {
        posix_spawn_file_actions_destroy(&actions);
        return result;
    }
    result = posix_spawn_file_actions_adddup2(&actions, in, 0);
    result = result ? result : posix_spawn_file_actions_adddup2(&actions, out, 1);
    result = result ? result : posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    result = result ? result : posix_spawnp(process, program, &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return result;
}

int sl_compressor_start(const char *program, int file, pid_t *process, char *why, size_t why_size)
{
    unsigned format = 0;
    while (format + 1 < FORMATS && strcmp(formats[format].program, program) != 0)
        format++;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        snprintf(why, why_size, "cannot be compressed: %s", strerror(errno));
        return -1;
    }
    int result = spawn(program, formats[format].level, ends[1], file, process);
    close(ends[1]);
    if (!result)
        return ends[0];
    close(ends[0]);
    if (result == ENOENT)
        snprintf(why, why_size, "cannot be compressed: there is no program %s (Debian: %s)", program,
                 formats[format].package);
    else
        snprintf(why, why_size, "cannot be compressed: %s: %s", program, strerror(result));
    return -1;
}

int sl_compressor_write(int descriptor, const void *bytes, size_t n)
{
    for (const char *at = bytes; n;) {
        ssize_t sent = send(descriptor, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        at += sent;
        n -= (size_t)sent;
    }
    return 0;
}

int sl_compressor_finish(const char *program, int descriptor, pid_t process, char *why, size_t why_size)
{
    int status = 0;
    pid_t ended;
    close(descriptor);
    while ((ended = waitpid(process, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (ended == process && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (ended < 0)
        snprintf(why, why_size, "may be incomplete: how %s ended is not known", program);
    else if (WIFEXITED(status))
        snprintf(why, why_size, "is incomplete: %s ended with status %d", program, WEXITSTATUS(status));
    else
        snprintf(why, why_size, "is incomplete: %s was ended by signal %d", program, WTERMSIG(status));
    return -1;
}
