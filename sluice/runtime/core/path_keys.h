/* The keys that a packet's path uses (NAME_path): of its instances, from the outermost layer on, and further ones. */
#ifndef SL_PATH_KEYS_H
#define SL_PATH_KEYS_H

#include <stdint.h>

enum { SL_PATH_KEYS_MOST = 16 };

/* What a key is for. Of two uses of one key, the first one counts. */
enum sl_key_use {
    SL_KEY_STORED,    /* it finds the instance of a layer */
    SL_KEY_PASSING,   /* such a key, of a packet that stores none: of an unfragmented datagram */
    SL_KEY_FURTHER,   /* it finds an instance if the layer's own key finds none */
    SL_KEY_ADDED,     /* the packet adds it to its instance */
};

struct sl_path_keys {
    uint64_t hash[SL_PATH_KEYS_MOST];   /* keyed, and different for keys of different layers */
    uint8_t use[SL_PATH_KEYS_MOST];     /* enum sl_key_use */
    unsigned count;
    unsigned left_out;   /* further keys, which there was no room for */
};

#endif
