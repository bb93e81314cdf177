/* The part of libxdp (version 1) that AF_XDP sockets need. The library is loaded when the first source is opened, so it is
 * not required to build. The declarations repeat its stable binary interface, xdp/xsk.h. */
#ifndef SL_IO_XDP_LIBRARY_H
#define SL_IO_XDP_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct xsk_umem;
struct xsk_socket;

/* struct xsk_ring_prod and struct xsk_ring_cons. One side writes `producer`, the other one `consumer`; both count up. */
struct sl_xsk_ring {
    uint32_t cached_producer, cached_consumer;   /* the library's own */
    uint32_t mask, size;
    uint32_t *producer, *consumer;
    void *ring;
    uint32_t *flags;
};

struct sl_xsk_umem_config {
    uint32_t fill_size, comp_size, frame_size, frame_headroom, flags;
};

struct sl_xsk_socket_config {
    uint32_t rx_size, tx_size, libxdp_flags, xdp_flags;
    uint16_t bind_flags;
};

struct sl_xdp_library {
    void *handle;
    int (*umem_create)(struct xsk_umem **umem, void *area, uint64_t size, struct sl_xsk_ring *fill,
                       struct sl_xsk_ring *completion, const struct sl_xsk_umem_config *config);
    int (*umem_delete)(struct xsk_umem *umem);
    int (*socket_create)(struct xsk_socket **socket, const char *interface, uint32_t queue, struct xsk_umem *umem,
                         struct sl_xsk_ring *rx, struct sl_xsk_ring *tx, struct sl_xsk_ring *fill,
                         struct sl_xsk_ring *completion, const struct sl_xsk_socket_config *config);
    void (*socket_delete)(struct xsk_socket *socket);
    int (*socket_fd)(const struct xsk_socket *socket);
};

static inline bool sl_xdp_symbol(void *handle, void *place, const char *name)
{
    void *found = dlsym(handle, name);
    memcpy(place, &found, sizeof found);
    return found != NULL;
}

/* Loads the library. False if it is not installed. It is unloaded by dlclose(library->handle). */
static inline bool sl_xdp_load(struct sl_xdp_library *library)
{
    void *(*set_print)(void *print);
    library->handle = dlopen("libxdp.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return false;
    /* both libraries print what they try on standard error; the result is what counts */
    if (sl_xdp_symbol(library->handle, &set_print, "libxdp_set_print"))
        set_print(NULL);
    if (sl_xdp_symbol(library->handle, &set_print, "libbpf_set_print"))
        set_print(NULL);
    return sl_xdp_symbol(library->handle, &library->umem_create, "xsk_umem__create") &&
           sl_xdp_symbol(library->handle, &library->umem_delete, "xsk_umem__delete") &&
           sl_xdp_symbol(library->handle, &library->socket_create, "xsk_socket__create_shared") &&
           sl_xdp_symbol(library->handle, &library->socket_delete, "xsk_socket__delete") &&
           sl_xdp_symbol(library->handle, &library->socket_fd, "xsk_socket__fd");
}

#endif
