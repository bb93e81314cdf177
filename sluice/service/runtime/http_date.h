/* Dates of HTTP (RFC 9110, section 5.6.7). */
#ifndef SERVICE_HTTP_DATE_H
#define SERVICE_HTTP_DATE_H

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "headers.h"

static const char service_date_format[] = "%a, %d %b %Y %H:%M:%S GMT";

static inline void service_date_text(time_t when, char text[SERVICE_DATE])
{
    struct tm time;

    gmtime_r(&when, &time);
    strftime(text, SERVICE_DATE, service_date_format, &time);
}

/* The current date: an origin server with a clock sends it (section 6.6.1). */
static inline const char *service_date_now(void)
{
    static _Thread_local char text[SERVICE_DATE];
    static _Thread_local time_t made;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != made || !text[0]) {
        made = now.tv_sec;
        service_date_text(made, text);
    }
    return text;
}

/* The seconds of a date; -1 if it is none. Also in the two obsolete forms, which a recipient has to read. */
static inline int64_t service_date_of(struct service_text text)
{
    static const char *const forms[] = {service_date_format, "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"};
    char copy[SERVICE_DATE];

    if (text.length >= sizeof copy)
        return -1;
    memcpy(copy, text.at, text.length);
    copy[text.length] = 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm time = {0};
        const char *end = strptime(copy, forms[i], &time);

        if (end && !*end)
            return (int64_t)timegm(&time);
    }
    return -1;
}

#endif
