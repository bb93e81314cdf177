/* Reads DNS messages (RFC 1035, 4.1): header, compressed names, and records as text (RFC 1035, 5.1; RFC 3597). */
#ifndef DNS_MESSAGE_H
#define DNS_MESSAGE_H

#include "log_text.h"

#include <arpa/inet.h>

enum {
    DNS_HEADER = 12,
    DNS_NAME_MOST = 255,              /* octets of a name on the wire (RFC 1035, 2.3.4) */
    DNS_NAME_TEXT = 4 * DNS_NAME_MOST + 2,
    DNS_OPT = 41,
};

/* The reason why a message cannot be read to its end. */
enum dns_reason { DNS_WHOLE, DNS_SHORT, DNS_POINTER, DNS_LONG_NAME, DNS_LABEL };

struct dns_reader {
    const uint8_t *at;
    uint32_t length, place;   /* length of the message; offset of the next item */
    enum dns_reason reason;
};

struct dns_name {
    char text[DNS_NAME_TEXT];
    uint32_t length;          /* of the text */
};

static inline bool dns_refuse(struct dns_reader *reader, enum dns_reason reason) {
    if (reader->reason == DNS_WHOLE)
        reader->reason = reason;
    return false;
}

/* Appends an octet of a label as text. Dots, backslashes and unprintable octets are escaped (RFC 1035, 5.1). */
static inline void dns_letter(struct dns_name *name, uint8_t octet) {
    char *at = name->text + name->length;
    if (octet == '.' || octet == '\\') {
        at[0] = '\\';
        at[1] = (char)octet;
        name->length += 2;
    } else if (octet > 0x20 && octet < 0x7f) {
        at[0] = (char)octet;
        name->length++;
    } else {
        at[0] = '\\';
        at[1] = (char)('0' + octet / 100);
        at[2] = (char)('0' + octet / 10 % 10);
        at[3] = (char)('0' + octet % 10);
        name->length += 4;
    }
}

/* Reads the name at the reader's place. A compression pointer must refer to an offset below the beginning of the
 * current part of the name (the name itself, or the target of the previous pointer). Therefore the loop terminates for
 * any input. */
static inline bool dns_name(struct dns_reader *reader, struct dns_name *name) {
    uint32_t at = reader->place, begin = at, octets = 0, after = 0;
    name->length = 0;
    for (;;) {
        if (at >= reader->length)
            return dns_refuse(reader, DNS_SHORT);
        uint8_t size = reader->at[at];
        if (size >= 0xc0) {
            if (at + 2 > reader->length)
                return dns_refuse(reader, DNS_SHORT);
            uint32_t to = (uint32_t)sl_load_be16(reader->at + at) & 0x3fff;
            after = after ? after : at + 2;
            if (to >= begin)
                return dns_refuse(reader, DNS_POINTER);
            at = begin = to;
            continue;
        }
        if (size >= 0x40)
            return dns_refuse(reader, DNS_LABEL);
        octets += size + 1u;
        if (octets > DNS_NAME_MOST)
            return dns_refuse(reader, DNS_LONG_NAME);
        if (!size)
            break;
        if (size + 1u > reader->length - at)
            return dns_refuse(reader, DNS_SHORT);
        if (name->length)
            name->text[name->length++] = '.';
        for (uint32_t i = 1; i <= size; i++)
            dns_letter(name, reader->at[at + i]);
        at += size + 1u;
    }
    if (!name->length)
        name->text[name->length++] = '.';   /* the root */
    reader->place = after ? after : at + 1;
    return true;
}

struct dns_question {
    struct dns_name name;
    uint16_t type, class_;
};

static inline bool dns_question(struct dns_reader *reader, struct dns_question *question) {
    if (!dns_name(reader, &question->name))
        return false;
    if (reader->length - reader->place < 4)
        return dns_refuse(reader, DNS_SHORT);
    question->type = (uint16_t)sl_load_be16(reader->at + reader->place);
    question->class_ = (uint16_t)sl_load_be16(reader->at + reader->place + 2);
    reader->place += 4;
    return true;
}

struct dns_record {
    struct dns_name name;
    uint16_t type, class_;
    uint32_t ttl, data, data_length;   /* `data`: offset of the data in the message */
};

static inline bool dns_record(struct dns_reader *reader, struct dns_record *record) {
    if (!dns_name(reader, &record->name))
        return false;
    if (reader->length - reader->place < 10)
        return dns_refuse(reader, DNS_SHORT);
    const uint8_t *at = reader->at + reader->place;
    record->type = (uint16_t)sl_load_be16(at);
    record->class_ = (uint16_t)sl_load_be16(at + 2);
    record->ttl = (uint32_t)sl_load_be32(at + 4);
    record->data_length = (uint32_t)sl_load_be16(at + 8);
    record->data = reader->place + 10;
    if (record->data_length > reader->length - record->data)
        return dns_refuse(reader, DNS_SHORT);
    reader->place = record->data + record->data_length;
    return true;
}

/* --- names of types, classes and codes --- */

struct dns_word { uint16_t number; const char *word; };

static const struct dns_word dns_types[] = {
    {1, "A"}, {2, "NS"}, {5, "CNAME"}, {6, "SOA"}, {10, "NULL"}, {12, "PTR"}, {13, "HINFO"}, {15, "MX"}, {16, "TXT"},
    {17, "RP"}, {18, "AFSDB"}, {24, "SIG"}, {25, "KEY"}, {28, "AAAA"}, {29, "LOC"}, {33, "SRV"}, {35, "NAPTR"}, {36, "KX"},
    {37, "CERT"}, {38, "A6"}, {39, "DNAME"}, {41, "OPT"}, {42, "APL"}, {43, "DS"}, {44, "SSHFP"}, {45, "IPSECKEY"},
    {46, "RRSIG"}, {47, "NSEC"}, {48, "DNSKEY"}, {49, "DHCID"}, {50, "NSEC3"}, {51, "NSEC3PARAM"}, {52, "TLSA"},
    {53, "SMIMEA"}, {55, "HIP"}, {59, "CDS"}, {60, "CDNSKEY"}, {61, "OPENPGPKEY"}, {62, "CSYNC"}, {63, "ZONEMD"},
    {64, "SVCB"}, {65, "HTTPS"}, {99, "SPF"}, {108, "EUI48"}, {109, "EUI64"}, {249, "TKEY"}, {250, "TSIG"}, {251, "IXFR"},
    {252, "AXFR"}, {255, "ANY"}, {256, "URI"}, {257, "CAA"},
};
static const struct dns_word dns_codes[] = {
    {0, "NOERROR"}, {1, "FORMERR"}, {2, "SERVFAIL"}, {3, "NXDOMAIN"}, {4, "NOTIMP"}, {5, "REFUSED"}, {6, "YXDOMAIN"},
    {7, "YXRRSET"}, {8, "NXRRSET"}, {9, "NOTAUTH"}, {10, "NOTZONE"}, {11, "DSOTYPENI"}, {16, "BADVERS"}, {17, "BADKEY"},
    {18, "BADTIME"}, {22, "BADTRUNC"}, {23, "BADCOOKIE"},
};
static const struct dns_word dns_classes[] = {{1, "IN"}, {3, "CH"}, {4, "HS"}, {254, "NONE"}, {255, "ANY"}};

/* Writes the name of a number, or `otherwise` followed by the number if it has none (for types and classes: RFC 3597,
 * 5). */
static inline void dns_word(struct log_text *row, const struct dns_word *words, size_t count, uint32_t number,
                            const char *otherwise) {
    for (size_t i = 0; i < count; i++)
        if (words[i].number == number) {
            log_format(row, "\"%s\"", words[i].word);
            return;
        }
    log_format(row, "\"%s%u\"", otherwise, number);
}

#define DNS_WORD(row, words, number, otherwise) dns_word(row, words, sizeof words / sizeof *words, number, otherwise)

/* --- the data of a record as text --- */

/* Reads a name in the data of a record. Returns false if it extends beyond the data. */
static inline bool dns_data_name(struct dns_reader *data, struct dns_name *name, uint32_t end) {
    return dns_name(data, name) && data->place <= end;
}

/* Formats data that consist of numbers, names, and further numbers, as in MX and SOA. */
static inline bool dns_data_names(struct dns_reader *data, const struct dns_record *record, char *to, size_t room,
                                  unsigned before, unsigned names, unsigned after) {
    uint32_t end = record->data + record->data_length;
    size_t used = 0;
    struct dns_name name;
    if (record->data_length < 2 * before)
        return false;
    for (unsigned i = 0; i < before; i++, data->place += 2)
        used += (size_t)snprintf(to + used, room - used, "%u ", (unsigned)sl_load_be16(data->at + data->place));
    for (unsigned i = 0; i < names; i++) {
        if (!dns_data_name(data, &name, end))
            return false;
        used += (size_t)snprintf(to + used, room - used, "%s%.*s", i ? " " : "", (int)name.length, name.text);
    }
    if (end - data->place != 4 * after)
        return false;
    for (unsigned i = 0; i < after; i++, data->place += 4)
        used += (size_t)snprintf(to + used, room - used, " %u", (unsigned)sl_load_be32(data->at + data->place));
    return true;
}

/* Writes a record's data as a JSON string: depending on the type, an address, names and numbers, or character strings;
 * otherwise the generic form of RFC 3597, 5. */
static inline void dns_data(struct log_text *row, const struct dns_reader *message, const struct dns_record *record) {
    struct dns_reader data = {message->at, message->length, record->data, DNS_WHOLE};
    const uint8_t *at = message->at + record->data;
    char text[2 * DNS_NAME_TEXT + 128];
    bool known = false;
    switch (record->type) {
    case 1:
        if ((known = record->data_length == 4))
            inet_ntop(AF_INET, at, text, sizeof text);
        break;
    case 28:
        if ((known = record->data_length == 16))
            inet_ntop(AF_INET6, at, text, sizeof text);
        break;
    case 2: case 5: case 12: case 39: known = dns_data_names(&data, record, text, sizeof text, 0, 1, 0); break;
    case 6: known = dns_data_names(&data, record, text, sizeof text, 0, 2, 5); break;
    case 15: case 18: case 36: known = dns_data_names(&data, record, text, sizeof text, 1, 1, 0); break;
    case 33: known = dns_data_names(&data, record, text, sizeof text, 3, 1, 0); break;
    default: break;
    }
    if (known) {
        log_string(row, text, strlen(text));
        return;
    }
    struct log_text words = {0};
    bool strings = record->type == 16 || record->type == 99 || record->type == 13;
    uint32_t place = 0;
    while (strings && place < record->data_length && at[place] < record->data_length - place) {
        log_bytes(&words, place ? " " : "", place ? 1 : 0);
        log_bytes(&words, at + place + 1, at[place]);
        place += at[place] + 1u;
    }
    if (!strings || place != record->data_length) {
        words.used = 0;
        log_format(&words, "\\# %u ", record->data_length);
        log_hex(&words, at, record->data_length);
    }
    row->failed |= words.failed;
    log_string(row, words.at, words.used);
    free(words.at);
}

#endif
