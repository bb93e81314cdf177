/* For harnesses of logs: the secrets that make_logs.py wrote, as a file. */
#ifndef FUZZ_KEY_LOG_H
#define FUZZ_KEY_LOG_H

#include "expect.h"
#include "keys.h"

/* The path of a key log with the secrets of the first inputs. */
static const char *key_log(void) {
    static char path[32];
    if (*path)
        return path;
    FILE *file = tmpfile();
    EXPECT(file && fputs(fuzz_keys, file) >= 0 && fflush(file) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    return path;
}

#endif
