/* Decrypts QUIC packets (RFC 9001, RFC 9369): Initial packets with keys derived from a connection id, all others with the
 * secrets of a key log, which are found by the client random of the ClientHello.
 *
 * Only authenticated data is used. The client is the sender of the first Initial packet that keys of its own Destination
 * Connection ID decrypt, as only a client sends such packets. Therefore Retry, which changes the id, a lost first packet,
 * and sides that were first taken for each other need no special case. */
#include "native/native.h"
#include "native/key_log.h"
#include "quic_protection_crypto.h"

enum { INITIAL, EARLY, HANDSHAKE, RETRY, SHORT };                 /* kinds of packets */
enum { SPACE_INITIAL, SPACE_HANDSHAKE, SPACE_APPLICATION, SPACES };   /* of packet numbers (RFC 9000, 12.3) */
enum reason { NO_CONNECTION = 1, NO_KEY, NOT_AUTHENTIC, TOO_SHORT, CUT, RESERVED_BITS, VERSION, NO_LIBCRYPTO,
              WRONG_TAG, TOO_MANY, TOO_COSTLY };

/* Initial packets of one connection and time that fail to decrypt, after which no further one is tried: a datagram may
 * contain dozens, and each costs a derivation of keys and two operations of a cipher. */
enum { FAILED_MOST = 3 };

/* The size of a packet that is not opened because keys may not be derived for it; that of others is -1. */
enum { DENIED = -2 };

/* Anyone can seal Initial packets, and to open one costs about a quarter of a derivation, for which it counts. If the
 * server answers, so many before that and after it count for little: a handshake has no more. In parts of a derivation. */
enum { DERIVATION_PARTS = 32, OPENED_PARTS = 8, ANSWERED_PARTS = 1, UNANSWERED_MOST = 2, ANSWERED_MOST = 4 };

#define SETTLED_FOR UINT64_C(10000000000)   /* nanoseconds in which no other Initial packet restarts the handshake */

struct worker {
    struct sl_native_box *box;   /* NULL: nothing bounds derivations */
    struct quic_crypto crypto;
    struct key_log log;
    int64_t opened;              /* parts of a derivation for Initial packets that known keys opened, not yet counted */
    bool ready;
};

/* One direction of 1-RTT packets: keys of this phase and the one before (RFC 9001, 6). */
struct application {
    struct key_secret secret;      /* of this phase */
    struct quic_keys now, before;
    uint8_t phase;
    uint64_t begin;                 /* the lowest packet number of this phase that was seen */
};

/* The connection id from which Initial keys are derived. */
struct id {
    uint8_t bytes[20], length;
};

struct connection {
    struct id id, id_before;        /* of this attempt, and of the one before */
    uint8_t client;                 /* the side that is the client */
    bool begun, settled;            /* there are Initial keys; the server has answered with them */
    uint8_t attempt;                /* restarts of the handshake: by Retry, or by another connection */
    bool known;                     /* the client random is known */
    uint32_t initial_version, version;
    uint64_t last_initial;          /* when the last one was decrypted */
    uint8_t random[KEY_RANDOM];
    struct quic_keys initial[2];    /* of the client, of the server: without a cipher until they are needed */
    struct quic_keys early, handshake[2];
    struct application application[2];
    uint8_t suite;                  /* of handshake and 1-RTT packets, once one was decrypted */
    uint32_t failures;              /* packets without a key so far */
    struct id tried;                /* before it has begun: the id whose keys failed last, and are initial[0] */
    uint32_t tried_version;         /* 0: none */
    uint64_t failed_at;             /* when the last Initial packet failed to decrypt */
    uint8_t failed;                 /* how many failed at that time */
    uint8_t unanswered, answered;   /* Initial packets that known keys opened, before the server's first one and from it on */
    uint64_t expected[SPACES][2];   /* one more than the largest packet number of each side */
};

_Static_assert(sizeof(struct connection) <= 1024, "a connection takes a block of 2 KiB");

/* Of key_log.h: the secrets are charged to the memory of the box, which gets nothing back before it closes. */
static bool charge_box(void *user, int64_t bytes) {
    struct sl_native_box *box = user;
    return bytes <= 0 || box->charge(box, (uint64_t)bytes);
}

static void attach(void *memory, struct sl_native_box *box) {
    struct worker *worker = memory;
    worker->box = box;
    worker->log.charge = charge_box;
    worker->log.user = box;
}

/* Whether keys may be derived for the current packet. */
static bool may_derive(struct worker *worker) { return !worker->box || worker->box->derive(worker->box); }

/* The keys were those of a secret, as they opened the packet: their derivation does not count. */
static void excuse(struct worker *worker) {
    if (worker->box)
        worker->box->excuse(worker->box);
}

static int start(void *memory, const char *option) {
    struct worker *worker = memory;
    worker->ready = quic_crypto_open(&worker->crypto);
    return key_log_open(&worker->log, option);
}

static void stop(void *memory) {
    struct worker *worker = memory;
    key_log_close(&worker->log);
    quic_crypto_close(&worker->crypto);
}

static void take_secrets(void *memory, uint32_t kind, sl_bytes secrets) {
    struct worker *worker = memory;
    if (kind == SL_SECRETS_TLS_KEY_LOG)
        key_log_text(&worker->log, secrets);
}

const struct sl_native_module quic_protection = {.context_bytes = sizeof(struct connection),
                                                 .worker_bytes = sizeof(struct worker),
                                                 .open = start,
                                                 .close = stop,
                                                 .secrets = take_secrets,
                                                 .attach = attach};

/* The full packet number, from its low bits and the next expected one (RFC 9000, A.3). */
static uint64_t whole_number(uint64_t expected, uint64_t low, unsigned bits) {
    uint64_t window = UINT64_C(1) << bits, half = window / 2;
    uint64_t near = (expected & ~(window - 1)) | low;
    if (near + half <= expected && near < (UINT64_C(1) << 62) - window)
        return near + window;
    if (near > expected + half && near >= window)
        return near - window;
    return near;
}

/* Removes header protection, with keys that may be the wrong ones. */
static bool lay_open(struct worker *worker, const struct quic_keys *keys, struct quic_packet *packet, uint64_t expected) {
    uint8_t mask[5];
    if (!quic_mask(&worker->crypto, keys, packet->at + packet->number_at + 4, mask))
        return false;
    packet->first = (uint8_t)(packet->at[0] ^ (mask[0] & (packet->at[0] & 0x80 ? 0x0f : 0x1f)));
    packet->number_length = (uint8_t)((packet->first & 3) + 1);
    uint64_t low = 0;
    for (unsigned i = 0; i < packet->number_length; i++) {
        packet->number_bytes[i] = packet->at[packet->number_at + i] ^ mask[1 + i];
        low = low << 8 | packet->number_bytes[i];
    }
    packet->number = whole_number(expected, low, 8u * packet->number_length);
    return packet->number_at + packet->number_length + TLS_TAG <= packet->length;
}

static int64_t open_with(struct worker *worker, const struct quic_keys *keys, struct quic_packet *packet,
                         uint64_t expected, uint8_t *out) {
    if (keys->cipher == TLS_AEAD_UNKNOWN || !lay_open(worker, keys, packet, expected))
        return -1;
    return quic_open(&worker->crypto, keys, packet, out);
}

/* --- Initial packets ------------------------------------------------------------------------------------------------ */

/* The packet was opened: of the derivation that was asked for, only its parts count. */
static void count_opened(struct worker *worker, struct connection *c, bool answers) {
    if (answers)
        worker->opened -= (OPENED_PARTS - ANSWERED_PARTS) * c->unanswered;
    bool cheap = c->settled && c->answered < ANSWERED_MOST;
    c->answered = (uint8_t)(c->answered + cheap);
    c->unanswered = (uint8_t)(c->unanswered + (!c->settled && c->unanswered < UNANSWERED_MOST));
    worker->opened += cheap ? ANSWERED_PARTS : OPENED_PARTS;
    if (worker->opened < DERIVATION_PARTS)
        excuse(worker);
    else
        worker->opened -= DERIVATION_PARTS;
}

static int64_t open_initial(struct worker *worker, struct connection *c, struct sl_native_call *call, unsigned side,
                            const struct quic_version *version, struct quic_packet *packet) {
    struct quic_keys keys;
    int64_t size = -1;
    if (c->begun) {
        bool other_version = c->initial_version != version->number;
        bool server = side != c->client;
        struct quic_keys *known = &c->initial[server];
        if (other_version && !may_derive(worker))
            return DENIED;
        if (!may_derive(worker))   /* a packet that fails to open costs about as much */
            return DENIED;
        if (!other_version && known->cipher != TLS_AEAD_UNKNOWN)
            keys = *known;
        else if (!quic_initial_keys(&worker->crypto, version, c->id.bytes, c->id.length, server, &keys))   /* RFC 9369, 4.1 */
            return -1;
        if (!other_version)
            *known = keys;
        size = open_with(worker, &keys, packet, c->expected[SPACE_INITIAL][side], call->sdu);
        if (size >= 0) {
            if (other_version)
                c->initial[!server].cipher = TLS_AEAD_UNKNOWN;
            *known = keys;
            c->initial_version = version->number;
            bool answers = server && !c->settled;
            c->settled |= server;
            count_opened(worker, c, answers);
        }
    }
    sl_bytes id = call->bytes[1];
    if (size < 0 && id.captured == id.length && id.length <= sizeof c->id.bytes &&
        !(c->settled && call->time < c->last_initial + SETTLED_FOR)) {
        bool tried = !c->begun && c->tried_version == version->number && c->tried.length == id.length &&
                     (!id.length || memcmp(c->tried.bytes, id.at, id.length) == 0);
        if (tried)
            keys = c->initial[0];
        else if (!may_derive(worker))
            return DENIED;
        else if (!quic_initial_keys(&worker->crypto, version, id.at, (uint8_t)id.length, false, &keys))
            return -1;
        size = open_with(worker, &keys, packet, 0, call->sdu);
        if (size < 0 && !tried && !c->begun) {
            c->tried_version = version->number;
            c->tried.length = (uint8_t)id.length;
            if (id.length)
                memcpy(c->tried.bytes, id.at, id.length);
            c->initial[0] = keys;
        }
        if (size >= 0) {   /* the client's: its first one, or that after a Retry, or of another connection */
            c->initial[0] = keys;
            c->initial[1].cipher = TLS_AEAD_UNKNOWN;
            c->id_before = c->id;
            c->id.length = (uint8_t)id.length;
            if (id.length)
                memcpy(c->id.bytes, id.at, id.length);
            c->initial_version = version->number;
            c->client = (uint8_t)side;
            c->attempt = (uint8_t)(c->attempt + c->begun);
            c->begun = true;
            c->settled = false;
            c->unanswered = c->answered = 0;
            memset(c->expected, 0, sizeof c->expected);
        }
    }
    if (size >= 0)
        c->last_initial = call->time;
    return size;
}

/* The tag of a Retry packet shows which Initial packet it answers: the first one of this attempt or, if a copy of it arrives
 * after the client's next attempt, of the previous one. */
static unsigned check_retry(struct worker *worker, const struct connection *c, unsigned side,
                            const struct quic_version *version, sl_bytes packet) {
    if (!c->begun)
        return NO_KEY;
    if (packet.captured < packet.length)
        return CUT;
    if (!may_derive(worker))   /* the keys are known, but the operation costs as much */
        return TOO_COSTLY;
    const struct id *ids[] = {&c->id, &c->id_before};
    for (unsigned i = 0; i < (c->attempt ? 2 : 1) && side != c->client; i++)
        if (quic_retry_is_authentic(&worker->crypto, version, ids[i]->bytes, ids[i]->length, packet.at, packet.length))
            return 0;
    return WRONG_TAG;
}

/* --- packets with keys of a key log ---------------------------------------------------------------------------------- */

/* The secret of this connection in the log, which is read further at intervals that double each time. */
static const struct key_secret *secret_of(struct worker *worker, struct connection *c, enum key_label label) {
    static const struct key_secret none;
    if (!c->known)
        return &none;
    const struct key_entry *entry = key_log_find(&worker->log, c->random);
    if (entry && entry->secrets[label].length)
        return &entry->secrets[label];
    c->failures++;
    if ((c->failures & (c->failures - 1)) != 0)
        return &none;
    key_log_read(&worker->log, KEY_LOG_STEP);
    entry = key_log_find(&worker->log, c->random);
    return entry && entry->secrets[label].length ? &entry->secrets[label] : &none;
}

/* Decrypts with keys of the secret, derived if `keys` has none yet: a secret of 32 bytes may be of one of three ciphers. */
static int64_t open_first(struct worker *worker, const struct quic_version *version, const struct key_secret *secret,
                          uint8_t suite, struct quic_keys *keys, struct quic_packet *packet, uint64_t expected,
                          uint8_t *out) {
    static const uint8_t short_ones[] = {TLS_AES_128_GCM, TLS_CHACHA20_POLY1305, TLS_AES_128_CCM}, long_ones[] = {TLS_AES_256_GCM};
    const uint8_t *ciphers = secret->length == 48 ? long_ones : short_ones;
    for (unsigned i = 0; i < (secret->length == 48 ? sizeof long_ones : sizeof short_ones); i++) {
        if (suite != TLS_AEAD_UNKNOWN && suite != ciphers[i])
            continue;
        struct quic_keys made;
        if (!may_derive(worker))
            return DENIED;
        if (!quic_keys_of(&worker->crypto, version, ciphers[i], secret, &made))
            return -1;
        int64_t size = open_with(worker, &made, packet, expected, out);
        if (size >= 0) {
            excuse(worker);
            *keys = made;
            return size;
        }
    }
    return -1;
}

static int64_t open_logged(struct worker *worker, struct connection *c, const struct quic_version *version,
                           const struct key_secret *secret, struct quic_keys *keys, struct quic_packet *packet,
                           uint64_t expected, uint8_t *out, uint8_t *suite) {
    int64_t size = open_with(worker, keys, packet, expected, out);
    if (size < 0 && (keys->cipher == TLS_AEAD_UNKNOWN || version->number != c->version))
        size = open_first(worker, version, secret, *suite, keys, packet, expected, out);
    if (size >= 0)
        *suite = keys->cipher;
    return size;
}

/* The keys of the next phase; header protection stays as it is (RFC 9001, 6.1). */
static bool next_phase(struct worker *worker, const struct quic_version *version, const struct application *a,
                       struct key_secret *secret, struct quic_keys *keys) {
    secret->length = a->secret.length;
    if (!tls_expand_from(&worker->crypto.tls, &a->secret) ||
        !tls_expand(&worker->crypto.tls, version->update, secret->bytes, secret->length) ||
        !quic_keys_of(&worker->crypto, version, a->now.cipher, secret, keys))
        return false;
    memcpy(keys->hp, a->now.hp, sizeof keys->hp);
    return true;
}

static int64_t open_short(struct worker *worker, struct connection *c, unsigned side, struct quic_packet *packet,
                          uint8_t *out) {
    struct application *a = &c->application[side];
    const struct quic_version *version = quic_version_of(c->version);
    uint64_t expected = c->expected[SPACE_APPLICATION][side];
    if (a->now.cipher == TLS_AEAD_UNKNOWN) {
        int64_t size = open_first(worker, version, &a->secret, c->suite, &a->now, packet, expected, out);
        if (size < 0)
            return size;
        a->phase = packet->first >> 2 & 1;
        a->begin = packet->number;
        c->suite = a->now.cipher;
        return size;
    }
    if (!lay_open(worker, &a->now, packet, expected))
        return -1;
    if ((packet->first >> 2 & 1) == a->phase) {
        int64_t size = quic_open(&worker->crypto, &a->now, packet, out);
        if (size >= 0 && packet->number < a->begin)
            a->begin = packet->number;
        return size;
    }
    if (packet->number < a->begin)
        return a->before.cipher == TLS_AEAD_UNKNOWN ? -1 : quic_open(&worker->crypto, &a->before, packet, out);
    struct key_secret secret;
    struct quic_keys keys;
    if (!may_derive(worker))
        return DENIED;
    if (!next_phase(worker, version, a, &secret, &keys))
        return -1;
    int64_t size = quic_open(&worker->crypto, &keys, packet, out);
    if (size >= 0) {
        excuse(worker);
        a->before = a->now;
        a->now = keys;
        a->secret = secret;
        a->phase ^= 1;
        a->begin = packet->number;
    }
    return size;
}

/* --- functions of descriptions --------------------------------------------------------------------------------------- */

/* numbers: side, version, kind, offset of the packet number. bytes: the packet, its Destination Connection ID. Returns the
 * frames (none for a Retry packet), the packet number, how many of the frames' last bytes are 0, and the attempt's number. */
unsigned open_quic_packet(struct sl_native_call *call) {
    struct worker *worker = call->worker;
    struct connection *c = call->context;
    unsigned side = call->numbers[0] & 1;
    const struct quic_version *version = quic_version_of(call->numbers[1]);
    uint64_t kind = call->numbers[2], number_at = call->numbers[3];
    sl_bytes bytes = call->bytes[0];
    struct quic_packet packet = {.at = bytes.at, .length = bytes.length};
    if (!c)
        return NO_CONNECTION;
    if (!worker->ready)
        return NO_LIBCRYPTO;
    if (!version && kind != SHORT)
        return VERSION;
    if (kind == RETRY)
        return check_retry(worker, c, side, version, bytes);
    if (number_at < 1 || number_at + 4 + QUIC_SAMPLE > bytes.length || bytes.length > call->room)
        return TOO_SHORT;
    if (bytes.captured < bytes.length)
        return CUT;
    packet.number_at = (uint32_t)number_at;
    bool client = side == c->client;
    unsigned space = kind == INITIAL ? SPACE_INITIAL : kind == HANDSHAKE ? SPACE_HANDSHAKE : SPACE_APPLICATION;
    uint64_t expected = c->expected[space][side];
    int64_t size = -1;
    if (kind == INITIAL) {
        if (c->failed >= FAILED_MOST && c->failed_at == call->time)
            return TOO_MANY;
        size = open_initial(worker, c, call, side, version, &packet);
        if (size == -1) {
            c->failed = c->failed_at == call->time ? (uint8_t)(c->failed + 1) : 1;
            c->failed_at = call->time;
        }
        if (size == -1 && !c->begun)
            return NO_KEY;
    } else if (kind == SHORT) {
        struct application *a = &c->application[side];
        if (!a->secret.length)
            a->secret = *secret_of(worker, c, client ? KEY_CLIENT_TRAFFIC : KEY_SERVER_TRAFFIC);
        if (!a->secret.length || !quic_version_of(c->version))
            return NO_KEY;
        size = open_short(worker, c, side, &packet, call->sdu);
    } else {
        enum key_label label = client ? KEY_CLIENT_HANDSHAKE : KEY_SERVER_HANDSHAKE;
        struct quic_keys *keys = kind == EARLY ? &c->early : &c->handshake[side];
        const struct key_secret *secret = secret_of(worker, c, kind == EARLY ? KEY_EARLY : label);
        if (!secret->length)
            return NO_KEY;
        uint8_t early_suite = TLS_AEAD_UNKNOWN;   /* that of the resumed session */
        size = open_logged(worker, c, version, secret, keys, &packet, expected, call->sdu,
                           kind == EARLY ? &early_suite : &c->suite);
    }
    if (size < 0)
        return size == DENIED ? TOO_COSTLY : NOT_AUTHENTIC;
    if (packet.first & (kind == SHORT ? 0x18 : 0x0c))
        return RESERVED_BITS;
    if (kind == INITIAL || kind == HANDSHAKE)
        c->version = version->number;
    if (packet.number >= c->expected[space][side])
        c->expected[space][side] = packet.number + 1;
    call->length = (uint32_t)size;
    call->outputs[0] = packet.number;
    while (size > 0 && call->sdu[size - 1] == 0)
        size--;
    call->outputs[1] = call->length - (uint64_t)size;
    call->outputs[2] = c->attempt;
    return 0;
}

/* bytes: the client random of a ClientHello. */
unsigned learn_quic_random(struct sl_native_call *call) {
    struct connection *c = call->context;
    sl_bytes random = call->bytes[0];
    if (!c)
        return 1;
    if (random.captured != KEY_RANDOM)
        return 2;
    if (c->known && memcmp(c->random, random.at, KEY_RANDOM) == 0)
        return 0;
    memcpy(c->random, random.at, KEY_RANDOM);
    c->known = true;
    c->failures = 0;
    c->suite = TLS_AEAD_UNKNOWN;
    memset(&c->early, 0, sizeof c->early);
    memset(c->handshake, 0, sizeof c->handshake);
    memset(c->application, 0, sizeof c->application);
    return 0;
}
