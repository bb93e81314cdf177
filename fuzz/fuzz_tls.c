// made by: fuzz/make_tls.py
/* Fuzzes tls_connection.h, tls_opener.h and tls_open.h: both sides of a connection that may carry TLS, in the pieces of the input,
 * byte by byte, and in small pieces. All must give the same bytes, gaps and ends of each side, and all memory must be back in the
 * end. Without libcrypto, it does nothing. Run: scripts/fuzz.sh fuzz_tls
 *
 * An input is a byte of settings (bit 0: records are not encrypted, and authentic by zeros, so that a mutation reaches what they
 * carry), the length of a key log (2, little endian), its text, and pieces: what (1: bit 0 the side, bit 1 a gap), the length
 * (2, little endian), and, but of a gap, the bytes. */
#include "sluice.h"

#include "../sluice/functions/ready/tls_connection.h"
#include "pieces.h"

enum { BUDGET = 1 << 22, SEARCH = 300 };

/* What one side comes to, as a hash. */
struct events { uint64_t hash; uint64_t bytes; };

struct fuzzed { struct events side[2]; bool read[2]; struct tls_connection *tls; };

static void mix(struct events *events, const void *at, size_t length) {
    events->hash = hash_more(events->hash, at, length);
}

static void event(struct events *events, char what, uint64_t number) {
    uint64_t words[] = {(uint64_t)what, number, events->bytes};
    mix(events, words, sizeof words);
}

/* Another protocol, in the clear: from an R on, up to the end of a line, no TLS may begin; after it, as in a tunnel. */
static bool on_may_begin(void *user, unsigned side) { return !((struct fuzzed *)user)->read[side]; }
static void on_begins(void *user, unsigned side) { event(&((struct fuzzed *)user)->side[side], 'b', 0); }
static void on_data(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened) {
    struct fuzzed *fuzzed = user;
    struct events *events = &fuzzed->side[side];
    uint8_t *bytes = malloc(length);   /* so that a sanitizer sees what is read beyond them */
    EXPECT(bytes || !length);
    if (length)
        memcpy(bytes, at, length);
    for (uint32_t i = 0; i < length; i++) {
        mix(events, (uint8_t[]){bytes[i], opened}, 2);
        events->bytes++;
        if (!opened && fuzzed->read[side] && bytes[i] == '\n') {
            fuzzed->read[side] = false;
            tls_connection_look_again(fuzzed->tls);
            tls_connection_bytes(fuzzed->tls, side, bytes + i + 1, length - i - 1, 1);
            break;
        }
        fuzzed->read[side] |= !opened && bytes[i] == 'R';
    }
    free(bytes);
}
static void on_gap(void *user, unsigned side, uint64_t length, bool opened) {
    event(&((struct fuzzed *)user)->side[side], opened ? 'G' : 'g', length);
}
static void on_shut(void *user, unsigned side, enum tls_shut why) { event(&((struct fuzzed *)user)->side[side], 's', why); }

static void on_message(void *user, unsigned side, uint8_t type, const uint8_t *at, uint32_t length) {
    struct events *events = &((struct fuzzed *)user)->side[side];
    event(events, 'm', type);
    mix(events, at, length);
}

static const struct tls_connection_owner owner = {on_may_begin, on_begins, on_data, on_gap, on_shut, on_message};

/* --- libcrypto without encryption --- */

static unsigned clear_size;
static int clear_begin(void *context, const void *kind, void *engine, const uint8_t *key, const uint8_t *nonce) {
    return (void)context, (void)kind, (void)engine, (void)key, (void)nonce, 1;
}
static int clear_decrypt(void *context, uint8_t *out, int *length, const uint8_t *at, int size) {
    (void)context;
    if (out)
        memcpy(out, at, (size_t)size);
    *length = size;
    return 1;
}
static int clear_final(void *context, uint8_t *out, int *length) { return (void)context, (void)out, *length = 0, 1; }
static int clear_control(void *context, int kind, int size, void *value) { return (void)context, (void)kind, (void)size, (void)value, 1; }
static int clear_padding(void *context, int pads) { return (void)context, (void)pads, 1; }
static int clear_hash_update(void *context, const uint8_t *at, size_t size) { return (void)context, (void)at, (void)size, 1; }
static int clear_hash_final(void *context, uint8_t *out, unsigned *size) {
    (void)context;
    memset(out, 0, *size = clear_size);
    return 1;
}
static struct tls_crypto crypto;
static int clear_hash_begin(void *context, const void *key, int length, const void *hash, void *engine) {
    (void)context, (void)key, (void)length, (void)engine;
    clear_size = hash == crypto.sha384 ? 48 : hash == crypto.sha256 ? 32 : hash ? 20 : clear_size;
    return 1;
}

/* --- a run --- */

struct sender { struct tls_connection *tls; unsigned side; };

static void take(void *user, const uint8_t *at, uint32_t length) {
    const struct sender *from = user;
    tls_connection_bytes(from->tls, from->side, at, length, 1);
}

static void run(const uint8_t *at, size_t size, size_t piece, struct fuzzed *found) {
    static struct tls_secrets secrets;
    struct log_budget budget = {.most = BUDGET};
    *found = (struct fuzzed){.side = {{.hash = 1}, {.hash = 2}}};
    secrets = (struct tls_secrets){.crypto = crypto, .ready = true};
    if (at[0] & 1) {
        struct tls_crypto *clear = &secrets.crypto;
        clear->decrypt_init = clear_begin;
        clear->decrypt_update = clear_decrypt;
        clear->decrypt_final = clear_final;
        clear->control = clear_control;
        clear->padding = clear_padding;
        clear->hmac_init = clear_hash_begin;
        clear->hmac_update = clear_hash_update;
        clear->hmac_final = clear_hash_final;
    }
    secrets.log.charge = tls_secrets_charge;
    secrets.log.user = &budget;
    size_t keys = (size_t)sl_min(at[1] | at[2] << 8, size - 3), place = 3 + keys;
    key_log_text(&secrets.log, (sl_bytes){at + 3, keys, keys});
    struct tls_connection *tls = tls_connection_new(&owner, found, &secrets, &budget, SEARCH);
    EXPECT(tls);
    found->tls = tls;
    while (size - place >= 3) {
        unsigned what = at[place];
        size_t length = (size_t)(at[place + 1] | at[place + 2] << 8);
        place += 3;
        if (what & 2) {
            tls_connection_missing(tls, what & 1, length + 1);
            continue;
        }
        length = (size_t)sl_min(length, size - place);
        give_pieces(at + place, length, piece, take, &(struct sender){tls, what & 1});
        place += length;
    }
    tls_connection_end(tls);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(tls->opener.side[i].used <= TLS_HELD_MOST);
        EXPECT(!tls->opener.side[i].why || !tls->opener.side[i].held);
        event(&found->side[i], 'e', tls->opener.side[i].why);
    }
    tls_connection_free(tls);
    key_log_close(&secrets.log);
    EXPECT(!budget.used);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (size < 4 || (!crypto.library && !tls_crypto_open(&crypto)))
        return 0;
    struct fuzzed whole, again;
    run(at, size, SIZE_MAX, &whole);
    for (size_t piece = 1; piece < 60; piece += 57) {
        run(at, size, piece, &again);
        EXPECT(memcmp(whole.side, again.side, sizeof whole.side) == 0);
    }
    return 0;
}
