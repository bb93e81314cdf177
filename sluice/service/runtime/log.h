/* The access log: a line for each request of HTTP. A request is noted when it is received, and its line is written when its
 * response has passed, or its connection has ended. The note is in a buffer of a separate pool; lines go to a ring of the
 * worker, which a thread writes to the file. A line that fits into neither is counted, and delays nothing.
 */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

#include "service.h"

enum {
    SERVICE_LOG_PIECES = 64,      /* of a format */
    SERVICE_LOG_LINE = 16384,     /* bytes of a line at most */
    SERVICE_VISIT_TEXT = 2048,    /* bytes of a request that are noted */
};

/* An item of a line: a text of the format, and then a variable. */
struct service_log_piece {
    const char *text;
    uint32_t size;
    uint8_t variable; /* enum in log_format.c */
};

struct service_log_format {
    struct service_log_piece pieces[SERVICE_LOG_PIECES];
    uint32_t count;
    bool json; /* the form of escapes and of missing values */
};

/* A request whose response is not there yet. */
struct service_visit {
    uint64_t begun, answered; /* nanoseconds since an arbitrary time: it was received; its response has begun */
    int64_t when;             /* milliseconds since 1970: it was received */
    uint64_t bytes;           /* of the response, that were sent */
    uint64_t head;            /* of these, its head */
    uint16_t line, referrer, agent, host; /* sizes of the texts, which follow each other */
    uint16_t port, index;     /* the backend that has answered; port is UINT16_MAX if the program itself has */
    uint32_t bound;           /* the address to which `bind` had bound it */
    char status[3];
    bool sending;             /* its response has begun, and is not there as a whole */
    char text[SERVICE_VISIT_TEXT];
};

/* The lines of a worker that are still to be written. One thread adds, another removes. */
struct service_log {
    struct service_log_file *file;
    struct service_buffers visits;
    uint8_t *ring;
    uint64_t size;            /* a power of 2 */
    _Atomic uint64_t head, tail;
    char line[SERVICE_LOG_LINE];
};

/* A request was received from the client; its head is at `raw`. */
void service_log_request(struct service_channel *c, const uint8_t *raw, uint64_t length);

/* `size` bytes of a response are sent, which begins at `raw`: all of it if `whole`. `origin`: its backend; null: it
 * was made by the program. */
void service_log_response(struct service_channel *c, const uint8_t *raw, uint64_t size, const struct service_channel *origin,
                          bool whole);

/* More bytes of it have passed; all have. */
void service_log_moved(struct service_channel *c, uint64_t size);
void service_log_passed(struct service_channel *c);

/* An instance ends: its requests that are not answered are logged, too. */
void service_log_end(struct service_instance *self);

/* --- log_format.c */

/* Reads a format: `combined`, `json`, or a text with variables. An error's text, or null. */
const char *service_log_read_format(struct service_log_format *format, const char *text);

/* Writes a line, with its end, into `line`; its size, or 0 if it is too long. */
uint32_t service_log_write_line(const struct service_log_format *format, const struct service_visit *visit,
                                const struct service_instance *self, char line[SERVICE_LOG_LINE]);

#endif
