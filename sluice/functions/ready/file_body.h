/* A file that a protocol carries: its length, hashes, and type by libmagic; optionally a copy in a folder. */
#ifndef FILE_BODY_H
#define FILE_BODY_H

#include "log_held.h"
#include "log_reader.h"
#include "log_row.h"

enum { FILE_HEAD = 4096, FILE_NAME = 1024, FILE_KINDS = SL_DIGEST_KINDS };

/* libmagic, which is loaded if it is there. */
struct file_magic {
    void *type, *text;                /* cookies, for the MIME type and for the description; `text` NULL: there is none */
    const char *(*buffer)(void *cookie, const void *at, size_t length);
    void (*close)(void *cookie);
};

SL_COLD bool file_magic_open(struct file_magic *magic, bool describe) {
    void *library = dlopen("libmagic.so.1", RTLD_NOW | RTLD_LOCAL);
    void *(*open)(int flags);
    int (*load)(void *cookie, const char *path);
    if (!library)
        return false;
    *(void **)&open = dlsym(library, "magic_open");
    *(void **)&load = dlsym(library, "magic_load");
    *(void **)&magic->buffer = dlsym(library, "magic_buffer");
    *(void **)&magic->close = dlsym(library, "magic_close");
    if (!open || !load || !magic->buffer || !magic->close)
        return false;
    magic->type = open(0x10);         /* MAGIC_MIME_TYPE */
    magic->text = describe ? open(0) : NULL;
    if (magic->type && load(magic->type, NULL) == 0 && (!describe || (magic->text && load(magic->text, NULL) == 0)))
        return true;
    if (magic->type)
        magic->close(magic->type);
    if (magic->text)
        magic->close(magic->text);
    magic->type = magic->text = NULL;
    return false;
}

struct file_box {
    struct log_output log;
    struct log_budget budget;
    struct sl_digests digests;
    struct file_magic magic;
    const char *folder;               /* for copies; empty: none */
    uint64_t copy_most;               /* maximum bytes of a copy */
    uint64_t open, most, number;      /* files that are read at once; the number of the last one */
    uint64_t left_out, no_memory, copies_cut, gaps, sides_ended, streams_ended;
    struct file_body *first;          /* all files that are read */
};

struct file_body {
    struct file_body *next, **place;  /* in the list of its box */
    struct log_flow flow;
    uint8_t from;                     /* the side that sends it */
    uint64_t time, length, missing, number;
    bool has_expected;
    uint64_t expected;                /* length by the protocol */
    struct sl_digest *hash[FILE_KINDS];
    struct log_text name, declared;
    uint8_t head[FILE_HEAD];
    uint32_t head_used;
    int copy;                         /* descriptor; -1: none */
    bool copied;
    char path[64];                    /* of the copy in the folder */
};

/* A file in the list. NULL at a bound. */
static inline struct file_body *file_new(struct file_box *files) {
    bool many = files->open >= files->most || !log_take(&files->budget, sizeof(struct file_body));
    struct file_body *file = many ? NULL : calloc(1, sizeof *file);
    if (!file) {
        files->left_out += many;
        files->no_memory += !many;
        if (!many)
            log_give(&files->budget, sizeof *file);
        return NULL;
    }
    file->copy = -1;
    file->next = files->first;
    file->place = &files->first;
    if (file->next)
        file->next->place = &file->next;
    files->first = file;
    files->open++;
    return file;
}

/* Begins a file. NULL at a bound. */
static inline struct file_body *file_begin(struct sl_box *box, struct file_box *files, const struct log_flow *flow, unsigned from,
                                           const char *source) {
    struct file_body *file = file_new(files);
    if (!file)
        return NULL;
    file->flow = *flow;
    file->from = (uint8_t)from;
    file->time = sl_box_time(box);
    file->number = ++files->number;
    const void *kinds[FILE_KINDS] = {files->log.hashes.md5.kind, files->log.hashes.sha1.kind, files->log.hashes.sha256.kind};
    for (unsigned i = 0; i < FILE_KINDS; i++)   /* a machine may forbid MD5 */
        file->hash[i] = kinds[i] ? sl_digest_begin(&files->digests, (enum sl_digest_kind)i) : NULL;
    if (*files->folder) {             /* the name of a copy contains nothing from the network */
        char path[4096];
        snprintf(file->path, sizeof file->path, "%s-%llu-%llu", source, (unsigned long long)flow->number, (unsigned long long)file->number);
        int length = snprintf(path, sizeof path, "%s/%s", files->folder, file->path);
        if (length > 0 && (size_t)length < sizeof path)
            file->copy = sl_create_descriptor(path);
        file->copied = file->copy >= 0;
        if (file->copy < 0)
            sl_fail(box, path, strerror(errno));
    }
    return file;
}

/* Stores bytes of a name, within its bound. */
static inline void file_name(struct log_text *text, const uint8_t *at, size_t length) {
    log_bytes(text, at, (size_t)sl_min(length, FILE_NAME - sl_min(text->used, FILE_NAME)));
}

/* Stores the last part of a URL's path as a name. */
static inline void file_name_of_path(struct log_text *name, const uint8_t *path, size_t end) {
    size_t begin;
    for (size_t i = 0; i < end; i++)
        if (path[i] == '?' || path[i] == '#')
            end = i;
    for (begin = end; begin && path[begin - 1] != '/';)
        begin--;
    if (end > begin)
        file_name(name, path + begin, end - begin);
}

static inline void file_bytes(struct sl_box *box, struct file_box *files, struct file_body *file, const uint8_t *at, size_t length) {
    for (unsigned i = 0; i < FILE_KINDS; i++)
        if (file->hash[i])
            files->digests.of[i].update(file->hash[i], at, length);
    uint32_t take = (uint32_t)sl_min(FILE_HEAD - file->head_used, length);
    if (!file->missing) {
        memcpy(file->head + file->head_used, at, take);
        file->head_used += take;
    }
    if (file->copy >= 0) {
        size_t copy = (size_t)sl_min(length, files->copy_most - sl_min(files->copy_most, file->length));
        files->copies_cut += copy < length && file->length <= files->copy_most;
        for (size_t done = 0; done < copy;) {
            ssize_t written = write(file->copy, at + done, copy - done);
            if (written < 0 && errno == EINTR)
                continue;
            if (written <= 0) {
                sl_fail(box, file->path, strerror(written ? errno : EIO));
                close(file->copy);
                file->copy = -1;
                break;
            }
            done += (size_t)written;
        }
    }
    file->length += length;
}

static inline void file_free(struct file_box *files, struct file_body *file) {
    for (unsigned i = 0; i < FILE_KINDS; i++)
        free(file->hash[i]);
    *file->place = file->next;
    if (file->next)
        file->next->place = file->place;
    if (file->copy >= 0)
        close(file->copy);
    free(file->name.at);
    free(file->declared.at);
    free(file);
    files->open--;
    log_give(&files->budget, sizeof *file);
}

/* Goes on with the copy of a file, which another process has begun: what is there beyond `length` was not committed. */
static inline void file_copy_again(struct sl_box *box, struct file_box *files, struct file_body *file) {
    char path[4096];
    uint64_t size = sl_min(file->length, files->copy_most);
    int length = snprintf(path, sizeof path, "%s/%s", files->folder, file->path);
    if (length > 0 && (size_t)length < sizeof path)
        file->copy = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (file->copy < 0 || ftruncate(file->copy, (off_t)size))
        sl_fail(box, file->path, strerror(errno));
}

/* A file, or NULL, in the state of a connection. */
static inline void file_stored(struct sl_stored *stored, struct sl_box *box, struct file_box *files, struct file_body **file) {
    if (!sl_stored_more(stored, *file != NULL))
        return;
    struct file_body *of = *file;
    if (stored->reads && !(of = *file = file_new(files))) {
        stored->failed = true;
        return;
    }
    log_flow_stored(stored, &files->log, box, &of->flow);
    sl_stored_bytes(stored, &of->from, offsetof(struct file_body, hash) - offsetof(struct file_body, from));
    of->from &= 1;
    for (unsigned i = 0; i < FILE_KINDS; i++)
        sl_digest_stored(stored, &of->hash[i], (enum sl_digest_kind)i);
    log_text_stored(stored, &of->name);
    log_text_stored(stored, &of->declared);
    SL_STORED(stored, of->head_used);
    if (of->head_used > FILE_HEAD) {
        of->head_used = 0;
        stored->failed = true;
    }
    sl_stored_bytes(stored, of->head, of->head_used);
    bool copies = of->copy >= 0;
    SL_STORED(stored, copies);
    SL_STORED(stored, of->copied);
    SL_STORED(stored, of->path);
    of->path[sizeof of->path - 1] = 0;
    if (!stored->reads || stored->failed)
        return;
    files->number = sl_max(files->number, of->number);
    if (copies && !strchr(of->path, '/'))
        file_copy_again(box, files, of);
}

/* Writes the row of a file, and frees it. `complete`: the protocol has marked its end. */
static inline void file_end(struct sl_box *box, struct file_box *files, struct file_body *file, const char *source, bool complete) {
    static const char *const names[FILE_KINDS] = {"md5", "sha1", "sha256"};
    static const unsigned sizes[FILE_KINDS] = {16, 20, 32};
    struct log_text *row = log_begin(&files->log, box, &file->flow, file->from, file->time);
    bool whole = complete && !file->missing;
    files->gaps += file->missing > 0;
    log_word(row, "source", source);
    log_octets(row, "name", (const uint8_t *)file->name.at, (uint32_t)file->name.used);
    bool known = files->magic.type && file->head_used;
    log_word(row, "type", known ? files->magic.buffer(files->magic.type, file->head, file->head_used) : NULL);
    log_word(row, "magic", known && files->magic.text ? files->magic.buffer(files->magic.text, file->head, file->head_used) : NULL);
    log_octets(row, "declared_type", (const uint8_t *)file->declared.at, (uint32_t)file->declared.used);
    log_number(row, "length", file->length);
    log_number(row, "missing", file->missing);
    log_number_if(row, "expected", file->has_expected, file->expected);
    log_flag(row, "complete", whole);
    for (unsigned i = 0; i < FILE_KINDS; i++) {
        uint8_t hash[64];
        log_name(row, names[i]);
        if (whole && file->hash[i] && files->digests.of[i].finish(hash, file->hash[i])) {
            log_put(row, "\"");
            log_hex(row, hash, sizes[i]);
            log_put(row, "\"");
        } else {
            log_put(row, "null");
        }
    }
    log_word(row, "extracted", file->copied ? file->path : NULL);
    log_finish(&files->log);
    file_free(files, file);
}

#endif
