/* Encrypted handshakes of TLS 1.3 over TCP, which the secrets of a key log open: certificates, and the protocol that the server
 * chooses. Part of tlslog.c. */
#ifndef TLSLOG_SEALED_H
#define TLSLOG_SEALED_H

static bool tlslog_may_begin(void *user, unsigned side) { return (void)user, (void)side, true; }
static void tlslog_begins(void *user, unsigned side) { (void)user, (void)side; }
static void tlslog_no_data(void *user, unsigned side, const uint8_t *at, uint32_t length, bool opened)
{
    (void)user, (void)side, (void)at, (void)length, (void)opened;
}
static void tlslog_no_gap(void *user, unsigned side, uint64_t length, bool opened) { (void)user, (void)side, (void)length, (void)opened; }

static void tlslog_shut(void *user, unsigned side, enum tls_shut why)
{
    const struct tlslog_connection *connection = user;
    struct sl_box *box = connection->box;
    const struct tls_opener *opener = &connection->tls->opener;
    bool sealed = connection->side[side].stop == TLS_ENCRYPTED && opener->side[side].phase != TLS_IN_TRAFFIC;
    SLUICE_COUNTER_OF(box, tls_gaps) += why == TLS_SHUT_GAP && sealed;   /* one in the clear is counted there */
    SLUICE_COUNTER_OF(box, tls_without_key) += why == TLS_SHUT_NO_KEY;
    SLUICE_COUNTER_OF(box, tls_ciphers) += why == TLS_SHUT_CIPHER && opener->suite.is_13;   /* older ones have certificates in the clear */
    SLUICE_COUNTER_OF(box, tls_refused) += why == TLS_SHUT_REFUSED;
    SLUICE_COUNTER_OF(box, tls_no_memory) += why == TLS_SHUT_NO_MEMORY;
}

static void tlslog_sealed(void *user, unsigned side, uint8_t type, const uint8_t *at, uint32_t length)
{
    struct tlslog_connection *connection = user;
    struct tlslog_reading reading = {connection->box, connection, (uint8_t)side, (uint8_t)side, true};
    tlslog_message(&reading, type, at, length);
}

static const struct tls_connection_owner tlslog_owner = {tlslog_may_begin, tlslog_begins, tlslog_no_data, tlslog_no_gap, tlslog_shut,
                                                         tlslog_sealed};

/* Whether a connection has encrypted messages that are still to be read. */
static bool tlslog_waits(const struct tlslog_connection *connection)
{
    const struct tls_opener *opener = connection->tls ? &connection->tls->opener : NULL;
    return opener && opener->answered && opener->suite.is_13 && !tls_open_has_finished(opener);
}

#endif
