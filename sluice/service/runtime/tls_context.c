/* Certificates, their choice by the name of the server (RFC 6066, section 3), ALPN, and the bound of memory. */
#include "tls_parts.h"

#include <malloc.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESERVE = 128 << 10 }; /* bytes that are left to connections that are there when another one is refused */

static _Atomic uint64_t used;
static uint64_t most = UINT64_MAX;

static void *allocate(size_t size, const char *file, int line)
{
    void *found;

    (void)file, (void)line;
    if (size > most || atomic_load_explicit(&used, memory_order_relaxed) > most - size)
        return NULL;
    found = malloc(size);
    if (found)
        atomic_fetch_add_explicit(&used, malloc_usable_size(found), memory_order_relaxed);
    return found;
}

static void release(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    if (memory)
        atomic_fetch_sub_explicit(&used, malloc_usable_size(memory), memory_order_relaxed);
    free(memory);
}

static void *resize(void *memory, size_t size, const char *file, int line)
{
    size_t before = memory ? malloc_usable_size(memory) : 0;
    void *found;

    if (!memory)
        return allocate(size, file, line);
    if (size == 0) {
        release(memory, file, line);
        return NULL;
    }
    if (size > before && atomic_load_explicit(&used, memory_order_relaxed) > most - (size - before))
        return NULL;
    found = realloc(memory, size);
    if (found)
        atomic_fetch_add_explicit(&used, malloc_usable_size(found) - before, memory_order_relaxed);
    return found;
}

const char *service_tls_memory(uint64_t bytes)
{
    if (bytes < 2 * RESERVE)
        return "TLS: the memory is too small";
    most = bytes;
    return CRYPTO_set_mem_functions(allocate, resize, release) ? NULL : "TLS: the memory of OpenSSL cannot be bounded";
}

bool service_tls_affords(void) { return atomic_load_explicit(&used, memory_order_relaxed) < most - RESERVE; }

static struct service_tls_config *config_of(struct service_config *config)
{
    if (!config->tls)
        config->tls = calloc(1, sizeof *config->tls);
    return config->tls;
}

/* Messages of the handshake protocol cost time, and bring nothing: a peer that sends only these is not served. */
static void count_message(int write, int version, int type, const void *bytes, size_t size, SSL *ssl, void *argument)
{
    struct service_tls *tls = SSL_get_app_data(ssl);

    (void)version, (void)bytes, (void)size, (void)argument;
    if (tls && tls->done && !write && type == SSL3_RT_HANDSHAKE)
        tls->messages++;
}

static SSL_CTX *make_context(const SSL_METHOD *method)
{
    SSL_CTX *made = SSL_CTX_new(method);

    if (!made)
        return NULL;
    SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
    SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_clear_mode(made, SSL_MODE_AUTO_RETRY); /* a read ends after each message without data, so that they are counted */
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF); /* tickets resume sessions, without memory here */
    SSL_CTX_set_msg_callback(made, count_message);
    return made;
}

/* The certificate whose names have that of the server which a client names. */
static int choose_certificate(SSL *ssl, int *alert, void *argument)
{
    struct service_tls_config *config = argument;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    (void)alert;
    for (uint32_t i = 0; name && i < config->count; i++)
        if (X509_check_host(SSL_CTX_get0_certificate(config->servers[i]), name, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
                            NULL) == 1) {
            SSL_set_SSL_CTX(ssl, config->servers[i]);
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_NOACK;
}

/* A client that offers only other protocols is refused (RFC 7301, section 3.2). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size, const unsigned char *offered,
                           unsigned int offered_size, void *argument)
{
    struct service_tls_config *config = argument;

    (void)ssl;
    if (!config->protocols_size)
        return SSL_TLSEXT_ERR_NOACK;
    return SSL_select_next_proto((unsigned char **)out, size, config->protocols, config->protocols_size, offered,
                                 offered_size) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The text of the last error of OpenSSL. Options are read by one thread. */
static const char *wrong(const char *what, const char *name)
{
    static char text[512];
    char reason[256];

    ERR_error_string_n(ERR_peek_last_error(), reason, sizeof reason);
    snprintf(text, sizeof text, "TLS: %s %s: %s", what, name, reason);
    return text;
}

const char *service_tls_certificate(struct service_config *config, const char *chain, const char *key)
{
    struct service_tls_config *tls = config_of(config);
    SSL_CTX *made = make_context(TLS_server_method());

    if (!tls || !made)
        return "TLS: no memory";
    if (tls->count == SERVICE_CERTIFICATES) {
        SSL_CTX_free(made);
        return "TLS: too many certificates";
    }
    tls->servers[tls->count++] = made;
    if (SSL_CTX_use_certificate_chain_file(made, chain) != 1)
        return wrong("the certificate", chain);
    if (SSL_CTX_use_PrivateKey_file(made, key, SSL_FILETYPE_PEM) != 1)
        return wrong("the key", key);
    SSL_CTX_set_session_id_context(made, (const uint8_t *)"sluice", 6);
    SSL_CTX_set_tlsext_servername_callback(made, choose_certificate);
    SSL_CTX_set_tlsext_servername_arg(made, tls);
    SSL_CTX_set_alpn_select_cb(made, choose_protocol, tls);
    return NULL;
}

const char *service_tls_protocols(struct service_config *config, const char *list)
{
    struct service_tls_config *tls = config_of(config);

    if (!tls)
        return "TLS: no memory";
    tls->protocols_size = tls->offered_size = 0;
    while (*list) {
        size_t size = strcspn(list, ",");

        if (size == 0 || size > 255 || tls->protocols_size + size + 1 > sizeof tls->protocols)
            return "TLS: a protocol of ALPN is empty, or all are too long";
        tls->protocols[tls->protocols_size++] = (uint8_t)size;
        memcpy(tls->protocols + tls->protocols_size, list, size);
        tls->protocols_size += (uint32_t)size;
        if (size != 2 || memcmp(list, "h2", 2) != 0) {
            tls->offered[tls->offered_size++] = (uint8_t)size;
            memcpy(tls->offered + tls->offered_size, list, size);
            tls->offered_size += (uint32_t)size;
        }
        list += size + (list[size] == ',');
    }
    return NULL;
}

const char *service_tls_authorities(struct service_config *config, const char *authorities)
{
    struct service_tls_config *tls = config_of(config);

    if (!tls)
        return "TLS: no memory";
    if (!tls->client && !(tls->client = make_context(TLS_client_method())))
        return "TLS: no memory";
    SSL_CTX_set_verify(tls->client, SSL_VERIFY_PEER, NULL);
    if (authorities ? SSL_CTX_load_verify_file(tls->client, authorities) != 1
                    : SSL_CTX_set_default_verify_paths(tls->client) != 1)
        return wrong("the authorities of backends", authorities ? authorities : "of the system");
    return NULL;
}

void service_tls_free(struct service_config *config)
{
    struct service_tls_config *tls = config->tls;

    for (uint32_t i = 0; tls && i < tls->count; i++)
        SSL_CTX_free(tls->servers[i]);
    if (tls)
        SSL_CTX_free(tls->client);
    free(tls);
    config->tls = NULL;
}
