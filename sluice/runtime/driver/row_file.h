/* Files of rows: only whole rows are written, so that a file is readable whenever, and however, its writing ends. */
#ifndef SL_ROW_FILE_H
#define SL_ROW_FILE_H

#include "driver/embed.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a file of lines. The last line that is not complete waits in memory until its end, or the close. After a write
 * that fails (a full disk), a regular file is cut after its last complete line, `box` fails at once, if it is given, and
 * every further write fails. A descriptor, such as /dev/stdout, is used as sl_create uses it. NULL with errno. */
FILE *sl_row_file(const char *path, struct sl_box *box);

#ifdef __cplusplus
}
#endif

#endif
