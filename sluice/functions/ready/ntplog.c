/* Writes a row for each message of NTP (RFC 5905, 7.3) on UDP port 123, versions 1 to 4, and for each control and private
 * message (RFC 9327; mode 7 of the reference implementation). */
#include "sluice.h"

#include "log_datagram.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")

SLUICE_COUNTER(ntp_short, "messages on port 123 that end within their fixed part")
SLUICE_COUNTER(ntp_bad_version, "messages on port 123 of a version that is not 1 to 4")

enum { NTPLOG_PORT = 123, NTPLOG_FIXED = 48, NTPLOG_CONTROL = 6, NTPLOG_PRIVATE = 7 };
#define NTPLOG_EPOCH UINT64_C(2208988800)   /* seconds from 1900 to 1970 (RFC 5905, A.4) */

struct ntplog { struct log_output log; };
SLUICE_WORKER(struct ntplog)

static const struct log_named ntplog_modes[] = {
    {0, "reserved"}, {1, "symmetric active"}, {2, "symmetric passive"}, {3, "client"}, {4, "server"}, {5, "broadcast"},
    {NTPLOG_CONTROL, "control"}, {NTPLOG_PRIVATE, "private"}};

/* Writes a duration in NTP's short format: 16 bits of seconds and 16 of their fraction (RFC 5905, 6). */
static void ntplog_short(struct log_text *row, const char *name, uint64_t value)
{
    log_seconds(row, name, (value >> 16) * 1000000000 + ((value & 0xffff) * 1000000000 >> 16));
}

/* Writes a timestamp as seconds since 1970; null if it is 0, which means unknown. Times before 1968 lie in the era from
 * 2036 on (RFC 4330, 3). */
static void ntplog_time(struct log_text *row, const char *name, uint64_t value)
{
    uint64_t seconds = value >> 32, fraction = (value & 0xffffffff) * 1000000000 >> 32;
    if (!value) {
        log_word(row, name, NULL);
        return;
    }
    if (!(seconds >> 31))
        seconds += UINT64_C(1) << 32;
    if (seconds < NTPLOG_EPOCH)   /* 1968 and 1969 */
        log_word(row, name, NULL);
    else
        log_seconds(row, name, (seconds - NTPLOG_EPOCH) * 1000000000 + fraction);
}

/* Writes the reference id: of a primary server (stratum 1) or of stratum 0, a code of up to four letters; else an address,
 * or a part of the hash of one (RFC 5905, 7.3). */
static void ntplog_reference(struct log_text *row, uint64_t stratum, const uint8_t *at)
{
    uint32_t length = 4;
    if (stratum > 1) {
        log_ip(row, "reference", at, 4);
        return;
    }
    while (length && !at[length - 1])
        length--;
    log_octets(row, "reference", at, length);
}

static void ntplog_row(const struct sl_event *event, sl_bytes message)
{
    char text[16];
    const uint8_t *at = message.at;
    unsigned version = at[0] >> 3 & 7, mode = at[0] & 7;
    bool data = mode != NTPLOG_CONTROL && mode != NTPLOG_PRIVATE;
    struct log_text *row = log_message(&SLUICE_WORKER_OF(event->box)->log, event);
    log_number(row, "version", version);
    log_word(row, "mode", LOG_NAMED(ntplog_modes, mode, text));
    log_number(row, "bytes", message.length);
    if (data) {
        log_number(row, "leap", at[0] >> 6);
        log_number(row, "stratum", at[1]);
        log_name(row, "poll");
        log_format(row, "%d", (int8_t)at[2]);
        log_name(row, "precision");
        log_format(row, "%d", (int8_t)at[3]);
        ntplog_short(row, "root_delay", sl_load_be32(at + 4));
        ntplog_short(row, "root_dispersion", sl_load_be32(at + 8));
        ntplog_reference(row, at[1], at + 12);
        ntplog_time(row, "reference_time", sl_load_be64(at + 16));
        ntplog_time(row, "origin_time", sl_load_be64(at + 24));
        ntplog_time(row, "receive_time", sl_load_be64(at + 32));
        ntplog_time(row, "transmit_time", sl_load_be64(at + 40));
        log_number(row, "extra_bytes", message.length - NTPLOG_FIXED);
    } else {
        log_flag(row, "response", at[mode == NTPLOG_CONTROL ? 1 : 0] & 0x80);
        log_number(row, "opcode", mode == NTPLOG_CONTROL ? at[1] & 0x1f : at[3]);
    }
    log_finish(&SLUICE_WORKER_OF(event->box)->log);
}

SLUICE_ON(udp, packet) {
    sl_bytes message = log_datagram(event, data->length);
    if (!message.length || !log_has_port(event, NTPLOG_PORT))
        return;
    unsigned mode = message.captured ? message.at[0] & 7 : 0, version = message.captured ? message.at[0] >> 3 & 7 : 0;
    uint32_t least = mode == NTPLOG_CONTROL ? 12 : mode == NTPLOG_PRIVATE ? 8 : NTPLOG_FIXED;
    if (message.captured < least)
        SLUICE_COUNTER_OF(event->box, ntp_short)++;
    else if (version < 1 || version > 4)
        SLUICE_COUNTER_OF(event->box, ntp_bad_version)++;
    else
        ntplog_row(event, message);
}

SLUICE_OPEN { return log_open(&SLUICE_WORKER_OF(box)->log, box, "ntp", SLUICE_PARAMETER_OF(box, out)); }

SLUICE_CLOSE {
    log_close(&SLUICE_WORKER_OF(box)->log, box, "ntplog rows", "ntplog rows lost for want of memory",
              "ntplog flows without layers");
}
