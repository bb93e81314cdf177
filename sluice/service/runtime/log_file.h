/* The files of access logs, and the thread that writes them. */
#ifndef SERVICE_LOG_FILE_H
#define SERVICE_LOG_FILE_H

#include "log.h"

struct service_config;
struct service_lane;

/* The access log of a service. */
struct service_log_file {
    struct service_config *config;
    const char *path;
    struct service_log_format format;
    uint64_t limit;  /* bytes after which the file is renamed, and a new one begun; 0: never */
    uint32_t keep;   /* older files that remain */
    uint32_t ring;   /* bytes of a worker's ring at least */
    struct service_log **logs; /* of each worker */
    uint32_t count;
    uint64_t looked; /* the second in which the file's name was looked up last */
    int fd;
    bool half, torn; /* the file ends within a line; and the rest of that could not be written */
    bool failing;    /* the last write has failed, which was reported */
    bool refused;    /* the file could not be opened again, which was reported */
    bool locked;     /* it is too large, and another process has locked it, which was reported */
};

/* --- log.c: of a worker's part of a service. An error's text, or null. */
const char *service_log_make(struct service_lane *lane);
void service_log_free(struct service_lane *lane);

/* --- log_file.c */

/* Begins a log, when its options are read. An error's text, or null. */
const char *service_log_open(struct service_config *config, const char *path);

/* The lines of a worker go to the file, too. */
const char *service_log_file_add(struct service_log_file *file, struct service_log *log);

/* Starts the thread, if there is an access log; stops it when all lines are written. */
const char *service_logs_start(struct service_config *configs, uint32_t services);
void service_logs_stop(void);

/* There is much to write; the files were renamed, and are reopened. */
void service_log_wake(void);
void service_logs_reopen(void);

/* Closes the file. */
void service_log_close(struct service_config *config);

#endif
