/* The lines of access logs: a text with variables, which have the names of nginx. */
#define _GNU_SOURCE 1 /* tm_gmtoff */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "ends.h"
#include "log.h"
#include "worker.h"

enum variable {
    NONE, CLIENT, CLIENT_PORT, USER, TIME_LOCAL, TIME_ISO, MSEC, REQUEST, STATUS, BYTES, BODY, REFERRER, AGENT, HOST,
    UPSTREAM, UPSTREAM_TIME, REQUEST_TIME, END,
};

static const struct {
    const char *name;
    enum variable variable;
} names[] = {
    {"remote_addr", CLIENT},       {"remote_port", CLIENT_PORT}, {"remote_user", USER},
    {"time_local", TIME_LOCAL},    {"time_iso8601", TIME_ISO},   {"msec", MSEC},
    {"request", REQUEST},          {"status", STATUS},           {"bytes_sent", BYTES},
    {"body_bytes_sent", BODY},     {"http_referer", REFERRER},   {"http_user_agent", AGENT},
    {"http_host", HOST},           {"upstream_addr", UPSTREAM},  {"upstream_header_time", UPSTREAM_TIME},
    {"request_time", REQUEST_TIME}, {"end", END},
};

static const char combined[] = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
                               "\"$http_referer\" \"$http_user_agent\"";
static const char json[] = "{\"time\":\"$time_iso8601\",\"client\":\"$remote_addr\",\"port\":$remote_port,\"host\":\"$http_host\","
                           "\"request\":\"$request\",\"status\":$status,\"bytes\":$bytes_sent,\"body\":$body_bytes_sent,"
                           "\"referrer\":\"$http_referer\",\"agent\":\"$http_user_agent\",\"upstream\":\"$upstream_addr\","
                           "\"upstream_header_time\":$upstream_header_time,\"request_time\":$request_time,\"end\":\"$end\"}";

#define SERVICE_TEXT(name, text) text,
static const char *const reasons[] = {SERVICE_COUNTERS(SERVICE_TEXT)};
#undef SERVICE_TEXT

/* The variable whose name a text begins with, and the size of the name; NONE without. */
static enum variable variable_at(const char *text, size_t *size)
{
    *size = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == *size && memcmp(names[i].name, text, *size) == 0)
            return names[i].variable;
    return NONE;
}

const char *service_log_read_format(struct service_log_format *format, const char *text)
{
    format->json = strcmp(text, "json") == 0;
    format->count = 0;
    if (format->json)
        text = json;
    else if (strcmp(text, "combined") == 0)
        text = combined;
    while (*text) {
        struct service_log_piece piece = {.text = text};
        size_t size = strcspn(text, "$"), name = 0;

        piece.size = (uint32_t)size;
        text += size;
        if (*text == '$') {
            piece.variable = variable_at(text + 1, &name);
            if (!piece.variable)
                return "the format of the access log has a variable that is not known";
            text += 1 + name;
        }
        if (format->count == SERVICE_LOG_PIECES)
            return "the format of the access log has too many variables";
        format->pieces[format->count++] = piece;
    }
    return NULL;
}

struct line {
    char *at;
    size_t size;
    bool full, json;
};

static void add(struct line *line, const char *bytes, size_t size)
{
    if (line->full || size > SERVICE_LOG_LINE - 1 - line->size) {
        line->full = true;
        return;
    }
    memcpy(line->at + line->size, bytes, size);
    line->size += size;
}

__attribute__((format(printf, 2, 3))) static void print(struct line *line, const char *format, ...)
{
    char text[128];
    va_list values;
    int size;

    va_start(values, format);
    size = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    add(line, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

/* Bytes that a client has chosen: quotes, and all that is no printable ASCII, are escaped, so that a line stays one. */
static void escape(struct line *line, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t c = (uint8_t)bytes[i];

        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
            add(line, bytes + i, 1);
        else if (line->json && (c == '"' || c == '\\'))
            print(line, "\\%c", c);
        else
            print(line, line->json ? "\\u%04x" : "\\x%02X", c);
    }
}

static void text(struct line *line, const char *bytes, size_t size)
{
    if (size == 0 && !line->json)
        add(line, "-", 1);
    escape(line, bytes, size);
}

static void missing(struct line *line) { add(line, line->json ? "null" : "-", line->json ? 4 : 1); }

static void upstream(struct line *line, const struct service_visit *visit, const struct service_instance *self)
{
    const struct service_config *config = ((const struct service_lane *)self->core)->config;
    struct service_address address;
    char host[256], port[32];

    if (!visit->answered || visit->port == UINT16_MAX || !config->backends[visit->port]) {
        text(line, "", 0);
        return;
    }
    address = config->backends[visit->port][visit->index];
    if (address.length == 0) {
        text(line, "folder", 6);
        return;
    }
    if (visit->bound && address.storage.ss_family == AF_INET)
        ((struct sockaddr_in *)&address.storage)->sin_addr.s_addr = htonl(visit->bound);
    if (getnameinfo((const struct sockaddr *)&address.storage, address.length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        print(line, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static void date(struct line *line, const struct service_visit *visit, const char *format, bool colon)
{
    time_t seconds = (time_t)(visit->when / 1000);
    struct tm time;
    char out[64];
    size_t size;

    localtime_r(&seconds, &time);
    size = strftime(out, sizeof out, format, &time);
    if (colon && size > 2) { /* +0100 is +01:00 there */
        add(line, out, size - 5);
        print(line, ".%03d%.3s:", (int)(visit->when % 1000), out + size - 5);
        add(line, out + size - 2, 2);
        return;
    }
    add(line, out, size);
}

static void seconds(struct line *line, uint64_t from, uint64_t to)
{
    print(line, "%" PRIu64 ".%03" PRIu64, (to - from) / 1000000000, (to - from) / 1000000 % 1000);
}

static void write_variable(struct line *line, enum variable what, const struct service_visit *visit,
                           const struct service_instance *self)
{
    const struct service_ends *ends = service_ends_of(self);
    const char *at = visit->text;
    char host[INET6_ADDRSTRLEN];

    switch (what) {
    case CLIENT:
        if (ends && service_ends_text(ends, host))
            add(line, host, strlen(host));
        else
            text(line, "", 0);
        break;
    case CLIENT_PORT:
        print(line, "%u", ends ? ends->client_port : 0);
        break;
    case USER:
        text(line, "", 0);
        break;
    case TIME_LOCAL:
        date(line, visit, "%d/%b/%Y:%H:%M:%S %z", false);
        break;
    case TIME_ISO:
        date(line, visit, "%Y-%m-%dT%H:%M:%S%z", true);
        break;
    case MSEC:
        print(line, "%" PRId64 ".%03d", visit->when / 1000, (int)(visit->when % 1000));
        break;
    case REQUEST:
        text(line, at, visit->line);
        break;
    case REFERRER:
        text(line, at + visit->line, visit->referrer);
        break;
    case AGENT:
        text(line, at + visit->line + visit->referrer, visit->agent);
        break;
    case HOST:
        text(line, at + visit->line + visit->referrer + visit->agent, visit->host);
        break;
    case STATUS:
        if (visit->status[0])
            escape(line, visit->status, 3);
        else if (line->json)
            missing(line);
        else
            add(line, "000", 3);
        break;
    case BYTES:
        print(line, "%" PRIu64, visit->bytes);
        break;
    case BODY:
        print(line, "%" PRIu64, visit->bytes > visit->head ? visit->bytes - visit->head : 0);
        break;
    case UPSTREAM:
        upstream(line, visit, self);
        break;
    case UPSTREAM_TIME:
        if (visit->answered)
            seconds(line, visit->begun, visit->answered);
        else
            missing(line);
        break;
    case REQUEST_TIME:
        seconds(line, visit->begun, service_nanoseconds());
        break;
    case END:
        text(line, self->fault ? reasons[self->fault] : "", self->fault ? strlen(reasons[self->fault]) : 0);
        break;
    case NONE:
        break;
    }
}

uint32_t service_log_write_line(const struct service_log_format *format, const struct service_visit *visit,
                                const struct service_instance *self, char out[SERVICE_LOG_LINE])
{
    struct line line = {.at = out, .json = format->json};

    for (uint32_t i = 0; i < format->count; i++) {
        add(&line, format->pieces[i].text, format->pieces[i].size);
        write_variable(&line, (enum variable)format->pieces[i].variable, visit, self);
    }
    if (line.full)
        return 0;
    out[line.size] = '\n';
    return (uint32_t)line.size + 1;
}
