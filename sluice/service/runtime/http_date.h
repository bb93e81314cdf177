/* Dates of HTTP (RFC 9110, section 5.6.7). */
#ifndef SERVICE_HTTP_DATE_H
#define SERVICE_HTTP_DATE_H

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "text.h"

enum { SERVICE_DATE = 40 }; /* bytes that suffice for one */

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

/* The seconds of a date; -1 if it is none. */
static inline int64_t service_date_of(struct service_text text)
{
    struct tm time = {0};
    char copy[SERVICE_DATE];
    const char *end;

    if (text.length >= sizeof copy)
        return -1;
    memcpy(copy, text.at, text.length);
    copy[text.length] = 0;
    end = strptime(copy, service_date_format, &time);
    return end && !*end ? (int64_t)timegm(&time) : -1;
}

#endif
