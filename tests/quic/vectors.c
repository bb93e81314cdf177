/* The examples of RFC 9001 and RFC 9369, appendix A, and of RFC 9000, A.3, against the module itself. */
#include "quic_protection.c"

static int failures;

static void expect(const char *what, const uint8_t *found, const char *wanted) {
    uint8_t bytes[64];
    uint32_t size = key_hex(&wanted, bytes, sizeof bytes);
    if (!size || memcmp(found, bytes, size) != 0) {
        printf("%s\n", what);
        failures++;
    }
}

static void expect_number(const char *what, uint64_t found, uint64_t wanted) {
    if (found != wanted) {
        printf("%s: %llx\n", what, (unsigned long long)found);
        failures++;
    }
}

/* Appendix A.5: a packet of one PING frame, with a packet number that nothing before it told. */
static void chacha20(struct worker *worker, uint32_t version, const char *key, const char *iv, const char *hp,
                     const char *sealed) {
    const char *text = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b";
    struct key_secret secret = {.length = 32};
    struct quic_keys keys;
    uint8_t bytes[64], out[64];
    key_hex(&text, secret.bytes, 32);
    if (!quic_keys_of(&worker->crypto, quic_version_of(version), TLS_CHACHA20_POLY1305, &secret, &keys))
        failures++;
    expect("key", keys.key, key);
    expect("iv", keys.iv, iv);
    expect("hp", keys.hp, hp);
    struct quic_packet packet = {.at = bytes, .length = key_hex(&sealed, bytes, sizeof bytes), .number_at = 1};
    expect_number("opened", (uint64_t)open_with(worker, &keys, &packet, 654360560, out), 1);
    expect_number("number", packet.number, 654360564);
    expect_number("first byte", packet.first, 0x42);
    expect("payload", out, "01");
    bytes[packet.length - 1] ^= 1;
    expect_number("altered", (uint64_t)open_with(worker, &keys, &packet, 654360560, out), (uint64_t)-1);
}

static void initial(struct worker *worker, uint32_t version, const char *client[3], const char *server[3]) {
    const char *text = "8394c8f03e515708";
    struct quic_keys keys[2];
    uint8_t id[8];
    key_hex(&text, id, sizeof id);
    for (unsigned side = 0; side < 2; side++) {
        if (!quic_initial_keys(&worker->crypto, quic_version_of(version), id, sizeof id, side, &keys[side]))
            failures++;
        const char **wanted = side ? server : client;
        expect("initial key", keys[side].key, wanted[0]);
        expect("initial iv", keys[side].iv, wanted[1]);
        expect("initial hp", keys[side].hp, wanted[2]);
    }
}

/* Appendix A.4: a Retry packet that answers the Initial packet of A.2. */
static void retry(struct worker *worker, uint32_t version, const char *packet) {
    const char *text = "8394c8f03e515708";
    uint8_t id[8], bytes[64];
    key_hex(&text, id, sizeof id);
    uint32_t length = key_hex(&packet, bytes, sizeof bytes);
    const struct quic_version *known = quic_version_of(version);
    expect_number("retry", quic_retry_is_authentic(&worker->crypto, known, id, sizeof id, bytes, length), 1);
    expect_number("another id", quic_retry_is_authentic(&worker->crypto, known, id, 7, bytes, length), 0);
    expect_number("no id", quic_retry_is_authentic(&worker->crypto, known, id, 0, bytes, length), 0);
    expect_number("no tag", quic_retry_is_authentic(&worker->crypto, known, id, sizeof id, bytes, 15), 0);
    for (uint32_t at = 0; at < length; at++) {
        bytes[at] ^= 1;
        expect_number("altered retry", quic_retry_is_authentic(&worker->crypto, known, id, sizeof id, bytes, length), 0);
        bytes[at] ^= 1;
    }
}

int main(void) {
    static struct worker worker;
    if (start(&worker, ""))
        return 2;
    if (!worker.ready) {   /* of a machine without libcrypto */
        struct connection connection = {0};
        struct sl_native_call call = {.worker = &worker, .context = &connection, .numbers = (uint64_t[4]){0, 1, INITIAL, 9},
                                      .bytes = (sl_bytes[2]){{0}}};
        unsigned reason = open_quic_packet(&call);
        stop(&worker);
        return reason == NO_LIBCRYPTO ? 77 : 1;
    }
    initial(&worker, 1, (const char *[]){"1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2"},
            (const char *[]){"cf3a5331653c364c88f0f379b6067e37", "0ac1493ca1905853b0bba03e", "c206b8d9b9f0f37644430b490eeaa314"});
    initial(&worker, 0x6b3343cf, (const char *[]){"8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9"},
            (const char *[]){"82db637861d55e1d011f19ea71d5d2a7", "dd13c276499c0249d3310652", "edf6d05c83121201b436e16877593c3a"});
    chacha20(&worker, 1, "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8", "e0459b3474bdd0e44a41c144",
             "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4", "4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    chacha20(&worker, 0x6b3343cf, "3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2", "a6b5bc6ab7dafce30ffff5dd",
             "d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2", "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba");
    retry(&worker, 1, "ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    retry(&worker, 0x6b3343cf, "cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6");
    expect_number("A.3", whole_number(0xa82f30eb, 0x9b32, 16), 0xa82f9b32);
    expect_number("after", whole_number(0x10001, 0xffff, 16), 0xffff);
    expect_number("ahead", whole_number(0x1ffff, 0x0002, 16), 0x20002);
    expect_number("at the beginning", whole_number(0, 0xff, 8), 0xff);
    expect_number("at the end", whole_number((UINT64_C(1) << 62) - 1, 0x00, 8), (UINT64_C(1) << 62) - 256);
    stop(&worker);
    return failures ? 1 : 0;
}
