/* What the boxes of several workers have in common: where their rows come together, and objects that functions declare
 * by SLUICE_COMMON. Everything else belongs to one box, and so to one thread.
 *
 *     struct sl_group *group = sl_group_open(2, true);
 *     options.group = group;
 *     options.worker = 0;                      // then 1
 *     struct sl_box *first = tcp_ip_open(&options);
 *     ...run the boxes (workers.h), close them...
 *     sl_group_close(group);
 *
 * The rows of a worker are lines in a FILE of its own. Either the group stores them and writes them when all workers
 * have ended, in the order of the packets that they are about; or each line goes to the output when it is complete. */
#ifndef SL_GROUP_H
#define SL_GROUP_H

#include "driver/embed.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_group;

/* A group of so many workers. in_order: rows are stored until sl_group_write; else written at once. NULL without
 * memory. */
struct sl_group *sl_group_open(uint32_t workers, bool in_order);

/* Before boxes are opened: their workers will be processes (isolation.h). What is common is then in shared memory, and
 * rows are written one by one, so that those before a crash are there. */
void sl_group_isolate(struct sl_group *group);

/* After the process of a worker crashed, in the process that opened the group: cuts what is incomplete of its rows. */
void sl_group_recover(struct sl_group *group, uint32_t worker);

/* A file for rows of `box` that go to `path` (standard output if it is empty): for its thread, which closes it, or a
 * thread that flushes it. The output is created for the first box that wants it. NULL with errno. */
FILE *sl_group_rows(struct sl_group *group, struct sl_box *box, const char *path);

/* From now on, rows of this worker belong to the end of the input, after those of all packets. */
void sl_group_ends(struct sl_group *group, uint32_t worker);

/* The object of function `function` that all workers have in common: `size` bytes, zeroed. NULL without memory. */
void *sl_group_common(struct sl_group *group, uint32_t function, size_t size);

/* How many workers there are. */
uint32_t sl_group_size(const struct sl_group *group);

/* Locks and unlocks such objects: one lock for all functions of a group. */
void sl_group_lock(struct sl_group *group);
void sl_group_unlock(struct sl_group *group);

/* After all workers have ended: writes the rows that were stored, and flushes the outputs. 0, or -1 with the reason. */
int sl_group_write(struct sl_group *group, char *message, size_t message_size);

/* After all boxes were closed. NULL is allowed. */
void sl_group_close(struct sl_group *group);

#ifdef __cplusplus
}
#endif

#endif
