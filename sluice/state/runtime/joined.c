/* Several clients as one store: in a cluster, each has the objects of one function, which lie in one slot. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

struct joined {
    struct sl_store store;
    struct sl_store **all;
    const char *const *names;
    uint32_t count;
    struct sl_store_counts counts;
};

static struct joined *joined_of(struct sl_store *store) { return (struct joined *)(void *)store; }

static enum sl_store_status joined_call(struct sl_store *store, const struct sl_store_call *call,
                                        struct sl_store_result *result) {
    static const char begin[] = "sluice:{";
    const struct joined *joined = joined_of(store);
    const char *tag = call->key + sizeof begin - 1;
    size_t length = call->key_length > sizeof begin ? strcspn(tag, "}") : 0;
    for (uint32_t i = 0; i < joined->count; i++)
        if (strlen(joined->names[i]) == length && memcmp(joined->names[i], tag, length) == 0)
            return joined->all[i]->call(joined->all[i], call, result);
    return SL_STORE_FAILED;
}

static void joined_flush(struct sl_store *store) {
    for (uint32_t i = 0; i < joined_of(store)->count; i++)
        joined_of(store)->all[i]->flush(joined_of(store)->all[i]);
}

static void joined_finish(struct sl_store *store) {
    for (uint32_t i = 0; i < joined_of(store)->count; i++)
        joined_of(store)->all[i]->finish(joined_of(store)->all[i]);
}

/* All fields of the counts are numbers of one type. */
static const struct sl_store_counts *joined_counts(struct sl_store *store) {
    struct joined *joined = joined_of(store);
    uint64_t sum[sizeof joined->counts / sizeof(uint64_t)] = {0}, one[sizeof sum / sizeof *sum];
    for (uint32_t i = 0; i < joined->count; i++) {
        memcpy(one, joined->all[i]->counts(joined->all[i]), sizeof one);
        for (size_t k = 0; k < sizeof sum / sizeof *sum; k++)
            sum[k] += one[k];
    }
    memcpy(&joined->counts, sum, sizeof sum);
    return &joined->counts;
}

static const char *joined_fault(struct sl_store *store) {
    const char *fault = "";
    for (uint32_t i = 0; i < joined_of(store)->count && !*fault; i++)
        fault = joined_of(store)->all[i]->fault(joined_of(store)->all[i]);
    return fault;
}

struct sl_store *sluice_clients_join(struct sl_store *const *stores, const char *const *names, uint32_t count) {
    struct joined *joined = calloc(1, sizeof *joined);
    if (!joined || !(joined->all = malloc(count * sizeof *stores))) {
        free(joined);
        return NULL;
    }
    joined->store = (struct sl_store){.call = joined_call, .flush = joined_flush, .finish = joined_finish,
                                      .counts = joined_counts, .fault = joined_fault, .caches = stores[0]->caches,
                                      .instance = stores[0]->instance};
    memcpy(joined->all, stores, count * sizeof *stores);
    joined->names = names;
    joined->count = count;
    return &joined->store;
}

void sluice_clients_part(struct sl_store *store) {
    free(joined_of(store)->all);
    free(joined_of(store));
}
