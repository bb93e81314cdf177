/* Reads X.509 certificates (RFC 5280) with OpenSSL's libcrypto, using stable functions that versions 1.1 and 3
 * share. */
#ifndef TLS_CERTIFICATE_H
#define TLS_CERTIFICATE_H

#include "log_hash.h"
#include "log_text.h"

#include <time.h>

enum {
    TLS_NAMES_MOST = 256,            /* maximum number of subject alternative names in a row, per certificate */
    OSSL_ALTERNATIVE_NAMES = 85,     /* NID_subject_alt_name */
    OSSL_MEMORY_INFO = 3,            /* BIO_CTRL_INFO */
    OSSL_NEGATIVE = 0x102,           /* V_ASN1_NEG_INTEGER */
    OSSL_EMAIL = 1, OSSL_DNS = 2, OSSL_URI = 6, OSSL_IP = 7,   /* GEN_EMAIL and so on: RFC 5280's choices */
};
#define OSSL_RFC2253 0x1110313ul     /* XN_FLAG_RFC2253 without ASN1_STRFLGS_ESC_MSB: names stay UTF-8 */

struct tls_x509 {
    void *(*read)(void **, const unsigned char **, long);
    void (*free)(void *);
    void *(*subject)(const void *), *(*issuer)(const void *);
    const void *(*not_before)(const void *), *(*not_after)(const void *), *(*serial)(const void *);
    void *(*extension)(const void *, int, int *, int *);
    int (*count)(const void *);
    void *(*item)(const void *, int), *(*name_value)(const void *, int *);
    void (*names_free)(void *);
    const unsigned char *(*string)(const void *);
    int (*string_length)(const void *), (*string_type)(const void *);
    int (*to_time)(const void *, struct tm *);
    int (*print_name)(void *, const void *, int, unsigned long);
    void *(*output)(const void *);
    const void *(*memory)(void);
    long (*control)(void *, int, long, void *);
    int (*output_free)(void *);
    void (*clear_errors)(void);
};

/* Loads the functions. Returns false if the library lacks one. */
SL_COLD bool tls_x509_open(struct tls_x509 *x509, void *library) {
    const struct { void *to; const char *name; } all[] = {
        {&x509->read, "d2i_X509"}, {&x509->free, "X509_free"}, {&x509->subject, "X509_get_subject_name"},
        {&x509->issuer, "X509_get_issuer_name"}, {&x509->not_before, "X509_get0_notBefore"},
        {&x509->not_after, "X509_get0_notAfter"}, {&x509->serial, "X509_get0_serialNumber"},
        {&x509->extension, "X509_get_ext_d2i"}, {&x509->count, "OPENSSL_sk_num"}, {&x509->item, "OPENSSL_sk_value"},
        {&x509->name_value, "GENERAL_NAME_get0_value"}, {&x509->names_free, "GENERAL_NAMES_free"},
        {&x509->string, "ASN1_STRING_get0_data"}, {&x509->string_length, "ASN1_STRING_length"},
        {&x509->string_type, "ASN1_STRING_type"},
        {&x509->to_time, "ASN1_TIME_to_tm"}, {&x509->print_name, "X509_NAME_print_ex"}, {&x509->output, "BIO_new"},
        {&x509->memory, "BIO_s_mem"}, {&x509->control, "BIO_ctrl"}, {&x509->output_free, "BIO_free"},
        {&x509->clear_errors, "ERR_clear_error"}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        void *symbol = dlsym(library, all[i].name);
        memcpy(all[i].to, &symbol, sizeof symbol);
        if (!symbol)
            return false;
    }
    return true;
}

/* Writes a distinguished name in the form of RFC 4514 (2253), or null. */
SL_COLD void tls_name(struct log_text *text, const struct tls_x509 *x509, const char *name, const void *value) {
    void *output = x509->output(x509->memory());
    char *at = NULL;
    log_name(text, name);
    if (output && value && x509->print_name(output, value, 0, OSSL_RFC2253) >= 0) {
        long length = x509->control(output, OSSL_MEMORY_INFO, 0, &at);
        log_string(text, at, length > 0 ? (size_t)length : 0);
    } else {
        log_put(text, "null");
    }
    if (output)
        x509->output_free(output);
}

SL_COLD void tls_date(struct log_text *text, const struct tls_x509 *x509, const char *name, const void *value) {
    struct tm date;
    log_name(text, name);
    if (value && x509->to_time(value, &date) == 1)
        log_format(text, "\"%04d-%02d-%02dT%02d:%02d:%02dZ\"", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday, date.tm_hour,
                   date.tm_min, date.tm_sec);
    else
        log_put(text, "null");
}

/* Writes the alternative names: DNS names, addresses, mail addresses and URIs. */
SL_COLD void tls_names(struct log_text *text, const struct tls_x509 *x509, const void *certificate) {
    void *names = x509->extension(certificate, OSSL_ALTERNATIVE_NAMES, NULL, NULL);
    int count = names ? x509->count(names) : 0, listed = 0;
    char address[64];
    log_put(text, ",\"names\":[");
    for (int i = 0; i < count && i < TLS_NAMES_MOST; i++) {
        int type = -1;
        const void *value = x509->name_value(x509->item(names, i), &type);
        if (type != OSSL_DNS && type != OSSL_EMAIL && type != OSSL_URI && type != OSSL_IP)
            continue;
        const unsigned char *at = x509->string(value);
        int length = x509->string_length(value);
        log_put(text, listed++ ? "," : "");
        if (type == OSSL_IP && (length == 4 || length == 16) &&
            inet_ntop(length == 4 ? AF_INET : AF_INET6, at, address, sizeof address))
            log_string(text, address, strlen(address));
        else
            log_string(text, at, length > 0 ? (size_t)length : 0);
    }
    log_put(text, "]");
    if (count > TLS_NAMES_MOST)
        log_number(text, "names_left_out", (uint64_t)(count - TLS_NAMES_MOST));
    if (names)
        x509->names_free(names);
}

/* Appends a certificate as a JSON object. Returns false, and appends nothing, if it cannot be parsed. */
SL_COLD bool tls_certificate(struct log_text *text, const struct tls_x509 *x509, const struct log_hashes *hashes,
                             const uint8_t *at, uint32_t length) {
    const unsigned char *place = at;
    uint8_t hash[LOG_HASH_MOST];
    void *certificate = x509->read(NULL, &place, (long)length);
    x509->clear_errors();
    if (!certificate)
        return false;
    log_put(text, "{\"sha256\":\"");
    if (log_hash(hashes, &hashes->sha256, at, length, hash))
        log_hex(text, hash, LOG_HASH_MOST);
    const void *serial = x509->serial(certificate);
    log_put(text, "\",\"serial\":\"");
    log_put(text, x509->string_type(serial) == OSSL_NEGATIVE ? "-" : "");
    log_hex(text, x509->string(serial), (size_t)x509->string_length(serial));
    log_put(text, "\"");
    tls_name(text, x509, "subject", x509->subject(certificate));
    tls_name(text, x509, "issuer", x509->issuer(certificate));
    tls_date(text, x509, "not_before", x509->not_before(certificate));
    tls_date(text, x509, "not_after", x509->not_after(certificate));
    tls_names(text, x509, certificate);
    log_put(text, "}");
    x509->free(certificate);
    x509->clear_errors();
    return true;
}

#endif
