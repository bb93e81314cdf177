// links: -I sluice/state/runtime sluice/state/runtime/*.c -lhiredis
// Any bytes as the replies of a store, to calls that wait and calls that do not: the client acknowledges no call
// twice, keeps its text and its calls consistent, and gives up in time.
#include "../sluice/state/runtime/client.c"

#include <sys/socket.h>
#include <unistd.h>

static void check(bool holds) {
    if (!holds)
        abort();
}

/* The calls that are not acknowledged have just the text that is stored. */
static void check_client(const struct client *client) {
    size_t bytes = 0;
    for (uint64_t n = client->store.acknowledged; n < client->store.made; n++)
        bytes += client->call[n & (client->calls - 1)].bytes;
    check(client->store.acknowledged <= client->replied && client->replied <= client->store.made && client->end - client->first == bytes);
    check(client->first <= client->taken && client->first <= client->sent && client->sent <= client->end && client->end <= client->room);
}

static void update(struct sl_store *store, uint32_t *open, uint64_t id, uint8_t which) {
    static const enum sl_store_operation kinds[] = {SL_STORE_ADD, SL_STORE_PUSH, SL_STORE_MAP_ADD, SL_STORE_PUT, SL_STORE_DROP};
    const struct sl_store_call call = {.operation = kinds[which % 5], .recovered = which & 8, .key = "sluice:{f}o:",
                                       .key_length = 12, .id = id, .number = which, .bytes = "struct", .length = 6, .open = open};
    client_call(store, &call, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    uint32_t open = 0;
    if (size < 2 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
        return 0;
    struct sluice_client_options options = {.path = "/nonexistent/store", .prefix = "p", .instance = "0", .epoch = 1,
                                            .timeout = 1, .bytes = 1 << 16, .caches = true, .replicas = data[0] >> 7};
    /* as sluice_client_open makes one, with one end of the pair in place of a connection to a server */
    struct client *client = calloc(1, sizeof *client);
    client->options = options;
    client->calls = CALLS_LEAST;
    client->call = malloc(CALLS_LEAST * sizeof *client->call);
    client->batch = malloc(BATCHES * sizeof *client->batch);
    client->room = 1 << 16;
    client->text = malloc(client->room);
    client->connection.fd = ends[0];
    client->callbacks.fd = -1;
    sluice_reader_open(&client->connection);
    struct sl_store *store = &client->store;
    for (uint64_t id = 1; id <= data[0] % 64u; id++)
        update(store, &open, id, data[1] ^ (uint8_t)id);
    client_flush(store);
    check_client(client);
    for (size_t at = 2; at < size && client->connection.fd >= 0;) {
        size_t part = size - at < 1u + data[1] ? size - at : 1u + data[1];
        check(write(ends[1], data + at, part) == (ssize_t)part);
        at += part;
        client_flush(store);
        check_client(client);
    }
    client_finish(store);
    check_client(client);
    check(client->store.acknowledged == client->store.made);
    close(ends[1]);
    sluice_client_close(store);
    return 0;
}
