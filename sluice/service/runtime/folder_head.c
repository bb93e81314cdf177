/* Responses for the files of a folder: content types, conditional requests and ranges (RFC 9110, sections 8, 13, 14). */
#define _GNU_SOURCE 1 /* strptime, timegm */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "folder.h"
#include "http_date.h"
#include "message.h"

enum { PATH = 1024 }; /* bytes of a path */

static const struct {
    const char *ending, *type;
} types[] = {
    {"html", "text/html; charset=utf-8"},
    {"htm", "text/html; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"txt", "text/plain; charset=utf-8"},
    {"md", "text/plain; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"js", "text/javascript; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"xml", "application/xml"},
    {"svg", "image/svg+xml"},
    {"png", "image/png"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"gif", "image/gif"},
    {"webp", "image/webp"},
    {"ico", "image/x-icon"},
    {"woff2", "font/woff2"},
    {"pdf", "application/pdf"},
    {"wasm", "application/wasm"},
    {"gz", "application/gzip"},
    {"zip", "application/zip"},
    {"mp4", "video/mp4"},
};

static const char *type_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++)
        if (service_same_word(service_literal(dot + 1), service_literal(types[i].ending)))
            return types[i].type;
    return "application/octet-stream";
}

static int digit(uint8_t c)
{
    c = service_lower(c);
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A URI without its scheme and authority, which a client may name also to a server (RFC 9112, section 3.2.2). */
static struct service_text origin_form(struct service_text uri)
{
    static const uint8_t root[] = "/", scheme[] = "http://";
    const uint8_t *slash;

    if (uri.length < 8 || !service_same_word((struct service_text){uri.at, 7}, (struct service_text){scheme, 7}))
        return uri;
    slash = memchr(uri.at + 7, '/', uri.length - 7);
    return slash ? (struct service_text){slash, uri.length - (uint32_t)(slash - uri.at)} : (struct service_text){root, 1};
}

/* The path of a URI below the folder, decoded. False for one that is malformed, or too long. */
static bool path_of(struct service_text uri, char *path)
{
    uint32_t size = 0, at = 1;

    if (uri.length == 0 || uri.at[0] != '/')
        return false;
    for (; at < uri.length && uri.at[at] != '?' && uri.at[at] != '#'; at++) {
        uint8_t c = uri.at[at];

        if (c == '%') {
            int high = at + 2 < uri.length ? digit(uri.at[at + 1]) : -1;
            int low = at + 2 < uri.length ? digit(uri.at[at + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (uint8_t)(high * 16 + low);
            at += 2;
        }
        if (c == 0 || size + 12 >= PATH) /* room for the name of an index */
            return false;
        path[size++] = (char)c;
    }
    if (size == 0 || path[size - 1] == '/') {
        memcpy(path + size, "index.html", 10);
        size += 10;
    }
    path[size] = 0;
    return true;
}

/* Opens a regular file below a folder: no part of its path is outside. The status of a response: 200 or an error. */
static int open_file(int folder, const char *path, int *file, struct stat *found)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};

    *file = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    if (*file < 0)
        return errno == EACCES ? 403 : errno == EMFILE || errno == ENFILE || errno == ENOSYS ? 503 : 404;
    if (fstat(*file, found) == 0 && S_ISREG(found->st_mode))
        return 200;
    close(*file);
    *file = -1;
    return S_ISDIR(found->st_mode) ? 301 : 404;
}

/* Whether a list of entity tags has one; weak tags are compared as strong ones (RFC 9110, section 8.8.3.2). */
static bool has_tag(struct service_text list, const char *tag)
{
    struct service_text each;

    while (service_next_item(&list, &each)) {
        each = service_weak_tag(each);
        if (service_same(each, service_literal(tag)) || service_same(each, service_literal("*")))
            return true;
    }
    return false;
}

/* The part of a file that a Range field selects: 206, 416, or 200 for all of it. Several ranges are not supported: all is
 * sent then, as section 14.2 permits. */
static int range_of(struct service_text range, int64_t size, int64_t *from, int64_t *to)
{
    const uint8_t *dash;
    struct service_text first, last;
    int64_t begin, end;
    bool bad = false;

    *from = 0;
    *to = size - 1;
    if (range.length < 7 || memcmp(range.at, "bytes=", 6) != 0 || memchr(range.at, ',', range.length))
        return 200;
    range = (struct service_text){range.at + 6, range.length - 6};
    dash = memchr(range.at, '-', range.length);
    if (!dash)
        return 200;
    first = (struct service_text){range.at, (uint32_t)(dash - range.at)};
    last = (struct service_text){dash + 1, range.length - first.length - 1};
    if (first.length == 0) {
        int64_t count = service_decimal(last, &bad);

        if (bad)
            return 200;
        *from = count < size ? size - count : 0;
        return count == 0 || size == 0 ? 416 : 206;
    }
    begin = service_decimal(first, &bad);
    end = last.length ? service_decimal(last, &bad) : size - 1;
    if (bad || (last.length && end < begin))
        return 200;
    if (begin >= size)
        return 416;
    *from = begin;
    *to = end < size ? end : size - 1;
    return 206;
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 416: return "Range Not Satisfiable";
    default: return "Service Unavailable";
    }
}

static void error(struct service_reader *reader, int status, const char *more)
{
    reader->head_size = (uint16_t)snprintf(reader->head, SERVICE_HEAD,
                                           "HTTP/1.1 %d %s\r\nDate: %s\r\n%sContent-Length: 0\r\n\r\n", status,
                                           reason_of(status), service_date_now(), more);
}

/* The status for a file that is there, by the conditions of a request (RFC 9110, section 13.2.2). */
static int status_of(struct service_text headers, const char *tag, int64_t changed, int64_t size, bool get, int64_t *from,
                     int64_t *to)
{
    struct service_text none = service_header(headers, service_literal("if-none-match"));
    struct service_text since = service_header(headers, service_literal("if-modified-since"));
    struct service_text still = service_header(headers, service_literal("if-range"));
    struct service_text range = service_header(headers, service_literal("range"));

    *from = 0;
    *to = size - 1;
    if (none.length ? has_tag(none, tag) : since.length && service_date_of(since) >= changed)
        return 304;
    if (!get) /* a range is one of GET (section 14.2) */
        return 200;
    if (still.length && !service_same(still, service_literal(tag)) && service_date_of(still) != changed)
        return 200;
    return range_of(range, size, from, to);
}

/* Whether a request names its server once, as one of HTTP/1.1 has to (RFC 9112, section 3.2). */
static bool names_server(struct service_text version, struct service_text headers)
{
    struct service_text value;
    uint32_t at = 0, count = 0;

    while (service_next_header(headers, service_literal("host"), &at, &value))
        count++;
    return count == 1 || (count == 0 && service_same(version, service_literal("HTTP/1.0")));
}

void service_folder_answer(int folder, struct service_reader *reader, struct service_text line,
                           struct service_text headers)
{
    struct service_text method = service_word(line, 0), uri = service_word(line, 1);
    bool get = service_same(method, service_literal("GET"));
    char path[PATH], date[SERVICE_DATE], tag[48], part[96] = "", more[SERVICE_HEAD / 2];
    struct stat found = {0};
    int64_t from, to;
    int status;

    reader->file = -1;
    reader->left = reader->head_at = 0;
    if (!names_server(service_word(line, 2), headers)) {
        error(reader, 400, "");
        return;
    }
    if (!get && !service_same(method, service_literal("HEAD"))) {
        error(reader, 405, "Allow: GET, HEAD\r\n");
        return;
    }
    uri = origin_form(uri);
    status = path_of(uri, path) ? open_file(folder, path, &reader->file, &found) : 400;
    if (status != 200) {
        const uint8_t *query = memchr(uri.at, '?', uri.length);
        uint32_t size = query ? (uint32_t)(query - uri.at) : uri.length;

        more[0] = 0;
        if (status == 301 && (size > sizeof more - 20 || (size > 1 && (uri.at[1] == '/' || uri.at[1] == '\\'))))
            status = 404; /* `//name/` would name a server, and to browsers so does `/\name/` */
        if (status == 301)
            snprintf(more, sizeof more, "Location: %.*s/\r\n", (int)size, (const char *)uri.at);
        error(reader, status, more);
        return;
    }
    snprintf(tag, sizeof tag, "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)found.st_mtim.tv_sec * 1000000000 +
             (uint64_t)found.st_mtim.tv_nsec, (uint64_t)found.st_size);
    service_date_text(found.st_mtime, date);
    status = status_of(headers, tag, found.st_mtime, found.st_size, get, &from, &to);
    if (status == 206)
        snprintf(part, sizeof part, "Content-Range: bytes %" PRId64 "-%" PRId64 "/%" PRId64 "\r\n", from, to,
                 (int64_t)found.st_size);
    if (status == 416) {
        snprintf(part, sizeof part, "Content-Range: bytes */%" PRId64 "\r\n", (int64_t)found.st_size);
        error(reader, status, part);
    } else if (status == 304) {
        reader->head_size = (uint16_t)snprintf(reader->head, SERVICE_HEAD,
                                               "HTTP/1.1 304 Not Modified\r\nDate: %s\r\nETag: %s\r\n"
                                               "Last-Modified: %s\r\n\r\n", service_date_now(), tag, date);
    } else {
        reader->head_size = (uint16_t)snprintf(
            reader->head, SERVICE_HEAD,
            "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %" PRId64
            "\r\n%sAccept-Ranges: bytes\r\nETag: %s\r\nLast-Modified: %s\r\n\r\n",
            status, reason_of(status), service_date_now(), type_of(path), to - from + 1, part, tag, date);
        reader->at = from;
        reader->left = get ? to - from + 1 : 0;
    }
    if (reader->left == 0) {
        close(reader->file);
        reader->file = -1;
    }
}
