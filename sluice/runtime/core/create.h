/* Creating the files that a run writes: rows, captures. */
#ifndef SL_CREATE_H
#define SL_CREATE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The descriptor that /dev/stdout, /dev/stderr, /dev/fd/N or /proc/self/fd/N stands for; -1 for any other path. */
static inline int sl_named_descriptor(const char *path) {
    if (!strcmp(path, "/dev/stdout"))
        return 1;
    if (!strcmp(path, "/dev/stderr"))
        return 2;
    size_t head = !strncmp(path, "/dev/fd/", 8) ? 8 : !strncmp(path, "/proc/self/fd/", 14) ? 14 : 0;
    size_t digits = head ? strspn(path + head, "0123456789") : 0;
    return digits && digits < 9 && !path[head + digits] ? atoi(path + head) : -1;
}

/* How files are created: SL_CREATE_APPEND while a new version of a function opens (reload.h), as the file may have rows of
 * the version before; SL_CREATE_NOTHING in a trial of it, which writes nothing. */
enum { SL_CREATE, SL_CREATE_APPEND, SL_CREATE_NOTHING };
#ifdef SLUICE_SYMBOLS   /* in a program that embeds a stack, functions are not exchanged */
static const int sl_create_mode = SL_CREATE;
#else
__attribute__((weak)) int sl_create_mode = SL_CREATE;
#endif

/* Opens a file to be written from its beginning; -1, or NULL, with errno when that is not possible. A symbolic link is refused
 * (ELOOP): one that another user planted under a name that can be guessed would lead the output to a file of this user's.
 * A descriptor of this process is taken as it is: to open it once more would cut the file that it appends to. */
static inline int sl_create_descriptor(const char *path) {
    if (sl_create_mode == SL_CREATE_NOTHING)
        return open("/dev/null", O_WRONLY | O_CLOEXEC);
    int named = sl_named_descriptor(path), how = sl_create_mode == SL_CREATE_APPEND ? O_APPEND : O_TRUNC;
    return named >= 0 ? dup(named) : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | how, 0666);
}

static inline FILE *sl_create(const char *path) {
    int descriptor = sl_create_descriptor(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file && descriptor >= 0)
        close(descriptor);
    return file;
}

#endif
