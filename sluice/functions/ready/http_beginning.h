/* Whether a message of HTTP/1 begins with some bytes. */
#ifndef HTTP_BEGINNING_H
#define HTTP_BEGINNING_H

#include "core/bytes.h"

#include "../vendor/llhttp/llhttp.h"

enum { HTTP_BEGINNING = 16 };   /* bytes used to detect the beginning of a message; no message is shorter */

static const char *const http_methods[] = {
#define HTTP_METHOD(number, name, string) #string,
    HTTP_METHOD_MAP(HTTP_METHOD)
#undef HTTP_METHOD
    "PRI",   /* the preface of HTTP/2 (RFC 9113, 3.4): if the owner does not read it, such connections are counted */
};

/* Whether a request begins here. Tests its method and, if `strict`, the form of its target, too (RFC 9112, 3.2). */
static inline bool http_is_request(const uint8_t *at, bool strict) {
    for (unsigned i = 0; i < sizeof http_methods / sizeof *http_methods; i++) {
        size_t length = strlen(http_methods[i]);
        if (memcmp(at, http_methods[i], length) == 0 && at[length] == ' ')
            return !strict || at[length + 1] == '/' || at[length + 1] == '*' ||
                   (length + 6 <= HTTP_BEGINNING && !memcmp(at + length + 1, "http", 4));
    }
    return false;
}

static inline bool http_is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* Whether a response begins here, such as "HTTP/1.1 200". */
static inline bool http_is_response(const uint8_t *at) {
    return memcmp(at, "HTTP/1.", 7) == 0 && http_is_digit(at[7]) && at[8] == ' ' && http_is_digit(at[9]) &&
           http_is_digit(at[10]) && http_is_digit(at[11]);
}

/* Whether a message begins with these bytes. */
__attribute__((unused)) static inline bool http_begins(sl_bytes bytes) {
    return bytes.captured >= HTTP_BEGINNING && (http_is_request(bytes.at, false) || http_is_response(bytes.at));
}

#endif
