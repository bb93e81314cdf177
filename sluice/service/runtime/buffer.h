/* Buffers of one size, from a pool that is allocated at start. A channel has one only while it holds bytes. A pool belongs
 * to a worker; a buffer that another worker gives back, since it has taken over an instance, returns through a list of
 * its own. */
#ifndef SERVICE_BUFFER_H
#define SERVICE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

struct service_buffer {
    struct service_buffer *next; /* in the pool */
    struct service_buffers *home;
    uint32_t start, end;         /* its bytes */
    uint8_t bytes[];
};

struct service_buffers {
    struct service_buffer *free;
    uint8_t *memory;
    uint64_t count, used; /* `used`: taken once at least. Untouched memory costs nothing. */
    uint64_t taken;
    uint32_t size;
    _Atomic(struct service_buffer *) returned; /* by other workers */
};

static inline uint64_t service_buffer_stride(const struct service_buffers *pool)
{
    return (sizeof(struct service_buffer) + pool->size + 63) & ~UINT64_C(63);
}

/* False if there is no memory. */
static inline bool service_buffers_make(struct service_buffers *pool, uint64_t count, uint32_t size)
{
    *pool = (struct service_buffers){.count = count, .size = size};
    atomic_init(&pool->returned, NULL);
    pool->memory = mmap(NULL, count * service_buffer_stride(pool), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pool->memory != MAP_FAILED;
}

static inline void service_buffers_free(struct service_buffers *pool)
{
    munmap(pool->memory, pool->count * service_buffer_stride(pool));
}

/* Takes back the buffers that other workers have released. */
static inline void service_buffers_collect(struct service_buffers *pool)
{
    struct service_buffer *found, *next;

    if (!atomic_load_explicit(&pool->returned, memory_order_relaxed))
        return;
    for (found = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire); found; found = next) {
        next = found->next;
        found->next = pool->free;
        pool->free = found;
        pool->taken--;
    }
}

/* An empty buffer, or null if all are in use. */
static inline struct service_buffer *service_buffer_take(struct service_buffers *pool)
{
    struct service_buffer *found;

    if (!pool->free)
        service_buffers_collect(pool);
    found = pool->free;
    if (found) {
        pool->free = found->next;
    } else if (pool->used < pool->count) {
        found = (struct service_buffer *)(pool->memory + pool->used++ * service_buffer_stride(pool));
        found->home = pool;
    } else {
        return NULL;
    }
    pool->taken++;
    found->start = found->end = 0;
    return found;
}

static inline void service_buffer_give(struct service_buffers *pool, struct service_buffer *buffer)
{
    struct service_buffers *home = buffer->home;

    if (home != pool) {
        buffer->next = atomic_load_explicit(&home->returned, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&home->returned, &buffer->next, buffer, memory_order_release,
                                                      memory_order_relaxed))
            ;
        return;
    }
    buffer->next = pool->free;
    pool->free = buffer;
    pool->taken--;
}

static inline uint32_t service_buffer_held(const struct service_buffer *buffer)
{
    return buffer ? buffer->end - buffer->start : 0;
}

/* Moves the bytes to the front. Pointers into the buffer are invalid after it. */
static inline void service_buffer_compact(struct service_buffer *buffer)
{
    memmove(buffer->bytes, buffer->bytes + buffer->start, buffer->end - buffer->start);
    buffer->end -= buffer->start;
    buffer->start = 0;
}

#endif
