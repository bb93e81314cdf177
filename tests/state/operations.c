/* A function whose packets are operations on shared objects: each datagram has an operation, a key and two numbers.
 * It writes a row with the status and the result of each, so that stores can be compared. */
#include "sluice.h"

#include "output_file.h"

#include <inttypes.h>

SLUICE_PARAMETER(out, text, "", "file that the rows are written to")

struct pair { int64_t first, second; };

SLUICE_SHARED(counter, counter, all, write_mostly, recover, "a counter")
SLUICE_SHARED(number, number, sport, read_write, recover, "a number for each source port")
SLUICE_SHARED(pair, struct pair, src+dport, read_write, recover, "a struct")
SLUICE_SHARED(flow_pair, struct pair, flow, read_write, recover, "a struct of a flow")
SLUICE_SHARED(list, list, all, read_write, recover, "a list")
SLUICE_SHARED(set, set, dst, read_write, recover, "a set")
SLUICE_SHARED(map, map, all, read_write, recover, "a map")

SLUICE_OPERATION(twice, "return 2 * value + argument - other") { return 2 * value + argument - other; }

struct operations { FILE *out; };
SLUICE_WORKER(struct operations)

static enum sl_store_status pair_set(struct sl_object *object, int64_t x, int64_t y, int64_t *result) {
    struct pair *pair = sl_shared_struct(object);
    if (!pair)
        return SL_STORE_FAILED;
    *result = pair->first + pair->second;
    *pair = (struct pair){x, y};
    return sl_shared_put(object);
}

static enum sl_store_status apply(const struct sl_event *event, uint8_t operation, int64_t x, int64_t y, int64_t *result) {
    struct sl_object *number = SLUICE_SHARED_OF(event, number), *list = SLUICE_SHARED_ALL(event->box, list);
    struct sl_object *set = SLUICE_SHARED_OF(event, set), *map = SLUICE_SHARED_ALL(event->box, map);
    struct sl_object *counter = SLUICE_SHARED_ALL(event->box, counter);
    switch (operation) {
    case 0: return sl_shared_add(counter, x, NULL);
    case 1: return sl_shared_add(counter, y, result);
    case 2: return sl_shared_read(counter, result);
    case 3: return sl_shared_add(number, x, result);
    case 4: return sl_shared_set(number, x);
    case 5: return sl_shared_minimum(number, x, result);
    case 6: return sl_shared_maximum(number, x, result);
    case 7: return sl_shared_compare(number, x, y, result);
    case 8: return SLUICE_CUSTOM(number, twice, x, y, result);
    case 9: return pair_set(SLUICE_SHARED_OF(event, pair), x, y, result);
    case 10: return pair_set(SLUICE_SHARED_OF(event, flow_pair), x, y, result);
    case 11: return sl_shared_fill(list, x % 100, x % 100 + 5);
    case 12: return sl_shared_push(list, x);
    case 13: return sl_shared_pop(list, result);
    case 14: return sl_shared_insert(set, x % 16, result);
    case 15: return sl_shared_remove(set, x % 16, result);
    case 16: return sl_shared_contains(set, x % 16, result);
    case 17: return sl_shared_map_add(map, x % 8, y, result);
    case 18: return sl_shared_map_read(map, x % 8, result);
    case 19: return sl_shared_map_minimum(map, x % 8, y, result);
    case 20: return sl_shared_map_maximum(map, x % 8, y, result);
    case 21: return sl_shared_map_least(map, x, result);
    case 22: return sl_shared_insert(set, x, NULL);
    case 23: return sl_shared_map_add(map, x % 8, 1, NULL);
    case 24: sl_shared_drop(number); return SL_STORE_DONE;
    case 25: sl_shared_drop(SLUICE_SHARED_OF(event, pair)); return SL_STORE_DONE;
    case 26: return sl_shared_read(number, result);
    /* not among the random ones */
    case 27: return sl_shared_map_add(map, x, y, result);
    default: return SL_STORE_DONE;
    }
}

SLUICE_ON(udp, packet) {
    if (!event->instance || event->unit.captured < 8 + 17)
        return;
    const uint8_t *at = event->unit.at + 8;
    int64_t x = (int64_t)sl_load_be64(at + 1), y = (int64_t)sl_load_be64(at + 9), result = 0;
    enum sl_store_status status = apply(event, at[0], x, y, &result);
    fprintf(SLUICE_WORKER_OF(event->box)->out, "%u %" PRId64 " %" PRId64 ": %d %" PRId64 "\n", at[0], x, y,
            at[0] == 0 || at[0] == 4 || at[0] == 12 || (at[0] >= 22 && at[0] <= 26) ? 0 : (int)status, result);
}

SLUICE_OPEN {
    SLUICE_WORKER_OF(box)->out = sl_output_file_open(box, SLUICE_PARAMETER_OF(box, out));
    return SLUICE_WORKER_OF(box)->out ? 0 : -1;
}

SLUICE_CLOSE { sl_rows_close(box, SLUICE_WORKER_OF(box)->out, "operations"); }
