/* The file that a function writes its rows to: that of its parameter `out`, or standard output. */
#ifndef SL_OUTPUT_FILE_H
#define SL_OUTPUT_FILE_H

#include "core/box.h"
#include "core/create.h"
#include "driver/group.h"
#include "driver/row_file.h"

#include <errno.h>

SL_RUNTIME_BEGIN

/* Opens the file. On failure it prints the reason and returns NULL. With several workers, each has a file of its own,
 * whose lines come together (driver/group.h). */
SL_COLD FILE *sl_output_file_open(struct sl_box *box, const char *path) {
    FILE *out = box->group ? sl_group_rows(box->group, box, path)
              : *path      ? sl_row_file(path, box)
                           : stdout;
    if (!out)
        perror(path);
    else if (box->group)
        return out;
    else if (strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0)
        /* other functions may write to it as well: whole rows, in the order of their events */
        setvbuf(out, NULL, _IOLBF, 1 << 16);
    return out;
}

/* Rows that are written from now on are about packet `number`, until this is called with 0: about the current packet. With
 * several workers, rows are put in this order. */
static inline void sl_row_order(struct sl_box *box, uint64_t number) { box->row_order = number; }

/* Closes the file at the end. Function `name` fails if not all of its rows could be written. */
SL_COLD void sl_rows_close(struct sl_box *box, FILE *out, const char *name) {
    errno = 0;
    bool failed = fflush(out) != 0 || ferror(out);
    if (out != stdout)
        failed |= fclose(out) != 0;
    char what[64];
    snprintf(what, sizeof what, "%s: the rows could not all be written", name);
    if (failed)
        (sl_fail)(box, what, strerror(errno ? errno : EIO));   /* the error of a write before the close is not known */
}

SL_RUNTIME_END

#endif
