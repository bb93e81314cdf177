/* Types of files by libmagic, which is loaded if it is there. It takes up to a millisecond for a file, so that types are cached by the
 * bytes that they follow from: servers send the same files, and the same beginnings, again and again. The cache has a MiB at most. */
#ifndef FILE_MAGIC_H
#define FILE_MAGIC_H

#include "core/siphash.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { FILE_TYPES = 256 };            /* that are cached */

/* A type and its description; NULL: unknown. Of a cached one, also the bytes that it follows from. */
struct file_type {
    const char *type, *text;
    uint8_t *head;
    uint32_t length;
};

struct file_magic {
    void *type, *text;                /* cookies, for the MIME type and for the description; `text` NULL: there is none */
    const char *(*buffer)(void *cookie, const void *at, size_t length);
    void (*close)(void *cookie);
    struct file_type cached[FILE_TYPES];   /* by a hash of the bytes */
    uint8_t key[16];
};

/* Returns false without the library. `seed`: of the hash. */
SL_COLD bool file_magic_open(struct file_magic *magic, bool describe, uint64_t seed) {
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
    sl_siphash_key(magic->key, seed, "types");
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

SL_COLD void file_magic_close(struct file_magic *magic) {
    for (unsigned i = 0; i < FILE_TYPES; i++)
        free(magic->cached[i].head);
    if (magic->type)
        magic->close(magic->type);
    if (magic->text)
        magic->close(magic->text);
}

/* Caches a type: one allocation has the bytes and both texts. What was in its place is given up. */
static inline void file_magic_cache(struct file_type *place, const struct file_type *type, const uint8_t *head, uint32_t length) {
    size_t first = type->type ? strlen(type->type) + 1 : 0, second = type->text ? strlen(type->text) + 1 : 0;
    free(place->head);
    *place = (struct file_type){0};
    uint8_t *at = malloc(length + first + second);
    if (!at)
        return;
    memcpy(at, head, length);
    if (first)
        memcpy(at + length, type->type, first);
    if (second)
        memcpy(at + length + first, type->text, second);
    *place = (struct file_type){.type = first ? (char *)at + length : NULL, .text = second ? (char *)at + length + first : NULL,
                                .head = at, .length = length};
}

/* The type of a file by its first bytes, at least one. Its texts are valid until the next call. */
static inline struct file_type file_magic_type(struct file_magic *magic, const uint8_t *head, uint32_t length) {
    struct file_type *place = &magic->cached[sl_siphash(magic->key, head, length) % FILE_TYPES];
    if (place->head && place->length == length && memcmp(place->head, head, length) == 0)
        return *place;
    struct file_type type = {.type = magic->buffer(magic->type, head, length),
                             .text = magic->text ? magic->buffer(magic->text, head, length) : NULL};
    file_magic_cache(place, &type, head, length);
    return type;
}

#endif
