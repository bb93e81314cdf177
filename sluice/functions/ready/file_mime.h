/* The parts of a message in MIME (RFC 2045, 2046): finds those that are files, and decodes them. */
#ifndef FILE_MIME_H
#define FILE_MIME_H

#include "file_body.h"

#include <strings.h>

enum { MIME_DEPTH = 8, MIME_BOUNDARY = 70 /* RFC 2046, 5.1.1 */, MIME_LINE = 4096, MIME_HEADER = 8192 };
enum mime_encoding { MIME_PLAIN, MIME_BASE64, MIME_QUOTED };

struct mime {
    char boundary[MIME_DEPTH][MIME_BOUNDARY + 1];
    unsigned depth;                   /* number of open multiparts */
    bool in_header, multipart, is_file;
    bool continued;                   /* the line began in an earlier piece */
    bool line_end;                    /* a line end that belongs to the part unless a boundary follows */
    enum mime_encoding encoding;
    struct log_held line, header;     /* the current line; the current header field, unfolded */
    char type[128], name[FILE_NAME + 1];
    uint32_t bits, bit_count;         /* of base64 */
    bool text;
    struct file_body *file;
};

/* A parameter of a header field (RFC 2045, 5.1), without quotes; of RFC 2231's form, the value after the charset. Returns
 * its length, 0 if there is none. */
static inline size_t mime_parameter(const char *at, size_t length, const char *name, char *to, size_t room) {
    size_t size = strlen(name);
    for (size_t i = 0; i + size + 1 < length; i++) {
        if (at[i] != ';')
            continue;
        size_t k = i + 1;
        while (k < length && (at[k] == ' ' || at[k] == '\t'))
            k++;
        if (length - k <= size + 1 || strncasecmp(at + k, name, size))
            continue;
        k += size;
        bool extended = at[k] == '*';
        k += extended;
        if (k >= length || at[k++] != '=')
            continue;
        bool quoted = k < length && at[k] == '"';
        size_t used = 0;
        for (k += quoted; k < length && used + 1 < room; k++) {
            if (quoted ? at[k] == '"' : at[k] == ';' || at[k] == ' ')
                break;
            if (quoted && at[k] == '\\' && k + 1 < length)
                k++;
            to[used++] = at[k];
        }
        to[used] = 0;
        char *charset = extended ? strrchr(to, '\'') : NULL;
        if (charset) {
            used -= (size_t)(charset + 1 - to);
            memmove(to, charset + 1, used + 1);
        }
        return used;
    }
    return 0;
}

static inline bool mime_begins(const struct log_held *line, const char *name) {
    return line->used >= strlen(name) && !strncasecmp((const char *)line->at, name, strlen(name));
}

static inline void mime_field(struct mime *mime) {
    const char *at = (const char *)mime->header.at;
    size_t length = mime->header.used;
    if (mime_begins(&mime->header, "content-type:")) {
        size_t skip = 13, used = 0;
        while (skip < length && at[skip] == ' ')
            skip++;
        while (skip < length && at[skip] != ';' && at[skip] != ' ' && used + 1 < sizeof mime->type)
            mime->type[used++] = at[skip++];
        mime->type[used] = 0;
        mime->multipart = !strncasecmp(mime->type, "multipart/", 10) && mime->depth < MIME_DEPTH &&
                          mime_parameter(at, length, "boundary", mime->boundary[mime->depth], sizeof mime->boundary[0]);
        mime->text = !used || !strncasecmp(mime->type, "text/", 5);
        if (!*mime->name)
            mime_parameter(at, length, "name", mime->name, sizeof mime->name);
    } else if (mime_begins(&mime->header, "content-disposition:")) {
        mime_parameter(at, length, "filename", mime->name, sizeof mime->name);
        for (size_t i = 20; i + 10 <= length; i++)
            mime->is_file |= !strncasecmp(at + i, "attachment", 10);
    } else if (mime_begins(&mime->header, "content-transfer-encoding:")) {
        size_t skip = 26;
        while (skip < length && at[skip] == ' ')
            skip++;
        mime->encoding = !strncasecmp(at + skip, "base64", sl_min(6, length - skip)) && length - skip >= 6 ? MIME_BASE64
                       : !strncasecmp(at + skip, "quoted-printable", sl_min(16, length - skip)) && length - skip >= 16 ? MIME_QUOTED
                                                                                                                    : MIME_PLAIN;
    }
}

static inline void mime_part_begin(struct mime *mime) {
    mime->in_header = true;
    mime->multipart = mime->is_file = mime->line_end = false;
    mime->encoding = MIME_PLAIN;
    mime->text = true;
    mime->type[0] = mime->name[0] = 0;
    mime->bits = mime->bit_count = 0;
    mime->header.used = 0;
}

struct mime_reading { struct sl_box *box; struct file_box *files; const struct log_flow *flow; unsigned from; };

static inline void mime_part_end(struct mime *mime, const struct mime_reading *reading, bool complete) {
    if (mime->file)
        file_end(reading->box, reading->files, mime->file, "smtp", complete);
    mime->file = NULL;
    mime->is_file = false;
}

static inline void mime_header_end(struct mime *mime, const struct mime_reading *reading) {
    mime->in_header = false;
    if (mime->multipart) {
        mime->depth++;
        mime->multipart = mime->is_file = false;
        return;
    }
    if (!(mime->is_file || *mime->name || !mime->text))
        return;
    mime->file = file_begin(reading->box, reading->files, reading->flow, reading->from, "smtp");
    if (!mime->file)
        return;
    file_name(&mime->file->name, (const uint8_t *)mime->name, strlen(mime->name));
    file_name(&mime->file->declared, (const uint8_t *)mime->type, strlen(mime->type));
}

static inline int mime_digit(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}

static inline int mime_hex(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes a line of a file, or a piece of one. `ends`: with the line's end. */
static inline void mime_decode(struct mime *mime, const struct mime_reading *reading, const uint8_t *at, uint32_t length, bool ends) {
    uint8_t out[MIME_LINE + 2];
    uint32_t used = 0;
    if (mime->line_end && mime->encoding != MIME_BASE64)
        file_bytes(reading->box, reading->files, mime->file, (const uint8_t *)"\r\n", 2);
    mime->line_end = false;
    if (mime->encoding == MIME_BASE64) {
        for (uint32_t i = 0; i < length; i++) {
            int digit = mime_digit(at[i]);
            if (digit < 0)
                continue;
            mime->bits = mime->bits << 6 | (uint32_t)digit;
            mime->bit_count += 6;
            if (mime->bit_count >= 8) {
                mime->bit_count -= 8;
                out[used++] = (uint8_t)(mime->bits >> mime->bit_count);
            }
        }
        if (length && at[length - 1] == '=')
            mime->bit_count = 0;
        ends = false;
    } else if (mime->encoding == MIME_QUOTED) {
        for (uint32_t i = 0; i < length; i++) {
            int high = at[i] == '=' && i + 2 < length + 0u ? mime_hex(at[i + 1]) : -1, low = high >= 0 ? mime_hex(at[i + 2]) : -1;
            if (low >= 0) {
                out[used++] = (uint8_t)(high << 4 | low);
                i += 2;
            } else if (at[i] == '=' && i + 1 == length && ends) {
                ends = false;   /* a soft line break (RFC 2045, 6.7) */
            } else {
                out[used++] = at[i];
            }
        }
    } else {
        memcpy(out, at, length);
        used = length;
    }
    file_bytes(reading->box, reading->files, mime->file, out, used);
    mime->line_end = ends;
}

/* Whether a line delimits parts (RFC 2046, 5.1.1): the depth of its multipart, plus 1; 0 if it does not. */
static inline unsigned mime_delimits(const struct mime *mime, bool *last) {
    const struct log_held *line = &mime->line;
    for (unsigned i = mime->depth; i-- > 0 && line->used >= 2 && line->at[0] == '-' && line->at[1] == '-';) {
        size_t size = strlen(mime->boundary[i]);
        if (line->used < size + 2 || memcmp(line->at + 2, mime->boundary[i], size))
            continue;
        *last = line->used >= size + 4 && line->at[size + 2] == '-' && line->at[size + 3] == '-';
        return i + 1;
    }
    return 0;
}

static inline void mime_line(struct mime *mime, const struct mime_reading *reading, bool ends) {
    bool last = false;
    unsigned depth = mime->continued ? 0 : mime_delimits(mime, &last);
    if (depth) {
        mime_part_end(mime, reading, true);
        mime->depth = last ? depth - 1 : depth;
        mime_part_begin(mime);
        mime->in_header = !last;
        return;
    }
    if (!mime->in_header) {
        if (mime->file)
            mime_decode(mime, reading, mime->line.at, mime->line.used, ends);
        return;
    }
    bool folded = mime->line.used && (mime->line.at[0] == ' ' || mime->line.at[0] == '\t') && !mime->continued;
    if (!folded && !mime->continued) {
        mime_field(mime);
        mime->header.used = 0;
    }
    if (!mime->line.used && !mime->continued) {
        mime_header_end(mime, reading);
        return;
    }
    log_held_add(&mime->header, &reading->files->budget, mime->line.at, mime->line.used, MIME_HEADER);
}

/* Handles bytes of a message. */
static inline void mime_bytes(struct mime *mime, const struct mime_reading *reading, const uint8_t *at, uint32_t length) {
    while (length) {
        const uint8_t *end = memchr(at, '\n', length);
        uint32_t part = end ? (uint32_t)(end - at) : length;
        uint32_t take = (uint32_t)sl_min(part, MIME_LINE - mime->line.used);
        if (!log_held_add(&mime->line, &reading->files->budget, at, take, MIME_LINE)) {
            reading->files->no_memory++;
            if (mime->file)
                mime->file->missing += length;
            return;
        }
        at += take;
        length -= take;
        if (take == part && end) {
            at++;
            length--;
            if (mime->line.used && mime->line.at[mime->line.used - 1] == '\r')
                mime->line.used--;
            mime_line(mime, reading, true);
            mime->continued = false;
            mime->line.used = 0;
        } else if (mime->line.used == MIME_LINE) {   /* a longer line is handled in pieces */
            mime_line(mime, reading, false);
            mime->continued = true;
            mime->line.used = 0;
        }
    }
}

static inline void mime_open(struct mime *mime) {
    *mime = (struct mime){.depth = 0};
    mime_part_begin(mime);
}

/* The parts of a message in the state of a connection. */
static inline void mime_stored(struct sl_stored *stored, struct sl_box *box, struct file_box *files, struct mime *mime) {
    sl_stored_bytes(stored, mime, offsetof(struct mime, line));
    log_held_stored(stored, &mime->line, &files->budget, MIME_LINE);
    log_held_stored(stored, &mime->header, &files->budget, MIME_HEADER);
    sl_stored_bytes(stored, mime->type, offsetof(struct mime, file) - offsetof(struct mime, type));
    mime->type[sizeof mime->type - 1] = mime->name[sizeof mime->name - 1] = 0;
    for (unsigned i = 0; i < MIME_DEPTH; i++)
        mime->boundary[i][MIME_BOUNDARY] = 0;
    if (mime->depth > MIME_DEPTH || mime->encoding > MIME_QUOTED) {
        mime->depth = 0;
        mime->encoding = MIME_PLAIN;
        stored->failed = true;
    }
    file_stored(stored, box, files, &mime->file);
}

static inline void mime_close(struct mime *mime, struct file_box *files) {
    log_held_free(&mime->line, &files->budget);
    log_held_free(&mime->header, &files->budget);
}

#endif
