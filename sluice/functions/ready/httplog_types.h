/* The parameters, counters and types of httplog. */
#ifndef HTTPLOG_TYPES_H
#define HTTPLOG_TYPES_H

#include "http2_side.h"
#include "http3_quic.h"
#include "http_side.h"
#include "log_row.h"
#include "log_sctp.h"
#include "tls_connection.h"

SLUICE_PARAMETER(out, text, "", "file that the rows are written to; without one standard output")
SLUICE_PARAMETER(keylog, text, "", "file of TLS secrets, in the format of SSLKEYLOGFILE, with which HTTP in TLS is read")
SLUICE_PARAMETER(search, number, 4096, "bytes of each side of a connection in which a first message may begin")
SLUICE_PARAMETER(pipelined, number, 256, "exchanges of one connection that are not complete, at most")
SLUICE_PARAMETER(connections, number, 65536, "connections that are read at once, at most")
SLUICE_PARAMETER(memory, number, 268435456, "bytes that all of them store together, at most")

SLUICE_COUNTER(http_gaps, "messages that bytes are missing of, other than of their bodies")
SLUICE_COUNTER(http_refused, "messages that are no HTTP by llhttp or nghttp2, as those with contradicting lengths")
SLUICE_COUNTER(http_long_heads, "messages whose head is beyond the bound of 256 KiB")
SLUICE_COUNTER(http_cut_values, "messages of which a path or a header is longer than what is stored")
SLUICE_COUNTER(http_incomplete, "messages that their connection ended within")
SLUICE_COUNTER(http_unpaired_responses, "responses whose request was not seen")
SLUICE_COUNTER(http_unanswered_requests, "requests whose response was not seen")
SLUICE_COUNTER(http_too_many, "connections that are not read further, as too many exchanges are open")
SLUICE_COUNTER(http_version_2, "connections with HTTP/2")
SLUICE_COUNTER(http_2_not_read, "connections with HTTP/2 that are not read: without libnghttp2, or after messages of HTTP/1")
SLUICE_COUNTER(http_2_gaps, "sides of HTTP/2 connections that are not read after a gap")
SLUICE_COUNTER(http_2_refused, "sides of HTTP/2 connections that are not read after a frame against RFC 9113")
SLUICE_COUNTER(http_2_undecodable, "sides of HTTP/2 connections that are not read after a header block that nghttp2 does not decode")
SLUICE_COUNTER(http_2_large_tables, "sides of HTTP/2 connections whose table for header compression is beyond the bound of 64 KiB")
SLUICE_COUNTER(http_2_long_heads, "sides of HTTP/2 connections that are not read after a header block beyond the bound of 256 KiB")
SLUICE_COUNTER(http_2_streams_left_out, "streams of HTTP/2 without a row, as too many exchanges of their connection were open")
SLUICE_COUNTER(http_2_resets, "streams of HTTP/2 that an end has reset")
SLUICE_COUNTER(http_version_3, "connections with HTTP/3")
SLUICE_COUNTER(http_3_not_read, "connections with HTTP/3 that are not read: without libnghttp3")
SLUICE_COUNTER(http_3_unknown, "connections of QUIC with streams in the clear, but without SETTINGS of HTTP/3")
SLUICE_COUNTER(http_3_gaps, "streams of HTTP/3 that are not read after missing bytes, of theirs or of the table for header compression")
SLUICE_COUNTER(http_3_refused, "streams of HTTP/3 that are not read after a frame against RFC 9114")
SLUICE_COUNTER(http_3_undecodable, "streams of HTTP/3 that are not read as nghttp3 does not decode a header block, or the table for it")
SLUICE_COUNTER(http_3_blocked, "streams of HTTP/3 with a header block that waited for its table in vain, or that were too many to wait")
SLUICE_COUNTER(http_3_large_tables, "streams of HTTP/3 whose table for header compression is beyond the bound of 64 KiB")
SLUICE_COUNTER(http_3_long_heads, "streams of HTTP/3 that are not read after a header block beyond the bound of 256 KiB")
SLUICE_COUNTER(http_3_streams_left_out, "streams of HTTP/3 without a row: too many were open, or had too many bytes, or a gap, before SETTINGS")
SLUICE_COUNTER(http_3_resets, "requests and responses of HTTP/3 that their sender has reset")
SLUICE_COUNTER(http_tunnels, "connections that went on with another protocol after CONNECT or Upgrade")
SLUICE_COUNTER(http_sctp_unordered, "messages of SCTP that begin as HTTP does, and are not read: their sender gave them no place in a stream")
SLUICE_COUNTER(http_connections_left_out, "connections that are not read, as too many were open")
SLUICE_COUNTER(http_tls_opened, "connections of TLS whose application data are read")
SLUICE_COUNTER(http_tls_without_key, "sides of TLS connections that are not read: their secrets are not in the key log")
SLUICE_COUNTER(http_tls_ciphers, "sides of TLS connections that are not read: their version is below 1.2, or their cipher none with AES-GCM, AES-CCM, AES-CBC or ChaCha20-Poly1305")
SLUICE_COUNTER(http_tls_refused, "sides of TLS connections that are not read further after a record that is not valid, or not authentic")
SLUICE_COUNTER(http_tls_gaps, "sides of TLS connections that are not read further after a gap")
SLUICE_COUNTER(http_not_continued, "connections of HTTP/2, HTTP/3, over SCTP, or with a key log, that are not read further, as another process has them now")
SLUICE_COUNTER(http_no_memory, "connections that are not read further for want of memory")

enum { HTTPLOG_INDEX = 64 };

struct httplog_exchange {
    struct httplog_exchange *next, *before;    /* of its connection */
    struct httplog_exchange *next_stream;      /* in the index */
    struct http_message request, response;
    uint16_t interim[HTTP_INFORMATIONAL];
    uint8_t interim_count;
    bool tunnel;
    bool promising;            /* the server's current header block is the request of a pushed response */
    bool upgraded;             /* from HTTP/1 to HTTP/2, by this request (RFC 7540, 3.2) */
    uint64_t stream;           /* of HTTP/2, or the key in HTTP/3; 0: of HTTP/1 */
};

/* State of a connection after the first frame of HTTP/2 or of HTTP/3. */
struct httplog_streams {
    struct http2_side side[2];                 /* as the sides of the connection */
    struct httplog_exchange *index[HTTPLOG_INDEX];   /* lists of exchanges, by a hash of their streams */
    struct httplog_exchange *current[2];       /* of the header block or body that each side sends; NULL: without a row */
    uint32_t highest, promised;                /* the highest stream that the client, and the server, has begun */
    bool changed;                              /* a message, or a side, has ended */
    bool upgraded;                             /* after messages of HTTP/1 */
    bool counted;                              /* it is HTTP/2 for certain, and counted */
};

struct httplog_connection {
    struct log_flow flow;
    struct sl_box *box;
    struct http_side side[2];
    struct httplog_exchange *first, *last;
    uint32_t count;
    bool from_its_beginning;   /* the request side was seen from its beginning on, without a gap */
    bool resume;               /* the response for which the requests wait has been received */
    bool given_up;
    struct httplog_streams *streams;
    struct tls_connection *tls;   /* NULL: without secrets */
};

struct httplog_state {
    struct httplog_connection *connection;
    struct http3_state quic;       /* of a connection of QUIC, or of one of its streams */
    struct log_sctp *sctp;         /* of an association */
    uint32_t path;
    bool over;
};
SLUICE_STATE(struct httplog_state)

struct httplog {
    struct log_output log;
    struct log_budget budget;
    struct http2_library hpack;
    struct http3_library qpack;
    struct tls_secrets secrets;
    struct log_quic quic;
    struct log_sctp_association association;
    uint64_t open;
};
SLUICE_WORKER(struct httplog)

#endif
