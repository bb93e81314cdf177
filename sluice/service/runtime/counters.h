/* The counters, with their reasons. Faults end an instance; the others do not. */
#ifndef SERVICE_COUNTERS_H
#define SERVICE_COUNTERS_H

#include <stdint.h>

#define SERVICE_COUNTERS(X)                                                                    \
    X(ACCEPTED, "connections accepted")                                                        \
    X(CONNECTED, "connections to backends")                                                    \
    X(REUSED, "idle connections to backends used again")                                       \
    X(REOPENED, "connections that a backend closed while nothing was due")                      \
    X(UNASKED, "connections to backends closed: bytes came while no answer was due")           \
    X(RECEIVED, "messages received")                                                           \
    X(SENT, "messages sent")                                                                   \
    X(DROPPED, "messages received that were not sent on")                              \
    X(BYTES_IN, "bytes received")                                                              \
    X(BYTES_OUT, "bytes sent")                                                                 \
    X(BYTES_PASSED, "bytes of bodies that passed through buffers")                             \
    X(BYTES_SPLICED, "bytes of bodies that passed in the kernel")                              \
    X(NO_PIPE, "bodies that passed through buffers: all pipes were in use")                    \
    X(STOLEN, "instances taken over from busy workers")                                        \
    X(MARKED_DOWN, "backends marked as down")                                                  \
    X(HANDSHAKES_DONE, "TLS handshakes")                                                       \
    X(HANDSHAKES_RESUMED, "TLS handshakes that resumed a session")                             \
    X(CUT, "TLS connections whose end was not announced")                                      \
    X(TLS_REFUSED, "connections refused: no memory left for TLS")                              \
    X(CHECKS_GOOD, "health checks that succeeded")                                             \
    X(CHECKS_FAILED, "health checks that failed")                                              \
    X(TAKEN_OUT, "backends taken out by health checks")                                        \
    X(PUT_BACK, "backends put back by health checks")                                          \
    X(LOGGED, "access log lines")                                                              \
    X(LOG_LOST, "access log lines lost: they came faster than they could be written, or were too long") \
    X(LOG_UNWRITTEN, "access log lines lost: the file could not be written")                   \
    X(LOG_MISSED, "requests that are not in the access log: too many were waiting for their answers") \
    X(LOG_CUT, "access log lines with a field that was too long and was cut")                  \
    X(CACHE_HITS, "cache: responses from the cache")                                           \
    X(CACHE_MISSES, "cache: requests for what is not stored")                                  \
    X(CACHE_STALE, "cache: requests for what is stored, but not fresh")                        \
    X(CACHE_USED_STALE, "cache: responses from the cache that were not fresh: their backend failed, or was being asked") \
    X(CACHE_CONFIRMED, "cache: stored responses that the backend confirmed")                   \
    X(CACHE_UNCACHEABLE, "cache: requests that a cache cannot answer")                         \
    X(CACHE_WAITED, "cache: requests that waited for another one for the same")                \
    X(CACHE_STORED, "cache: responses stored")                                                 \
    X(CACHE_REFUSED, "cache: responses not stored: forbidden, without a lifetime, or too large") \
    X(CACHE_INVALIDATED, "cache: responses removed by a request that changes them")            \
    X(CACHE_EVICTED, "cache: responses replaced: the memory was full")                         \
    X(CACHE_BYTES, "cache: bytes of bodies from the cache")                                    \
    X(ENDED, "instances ended by their program")                                               \
    X(WAITED_BUFFER, "waits for a buffer: the pool was empty")                                  \
    X(WAITED_INSTANCE, "waits of the listener: all instances were in use")                      \
    X(ACCEPT_FAILED, "connections that could not be accepted")                                 \
    X(H2_CONNECTIONS, "connections of HTTP/2")                                                 \
    X(H2_STREAMS, "requests of HTTP/2")                                                        \
    X(H2_REFUSED, "requests of HTTP/2 refused: all instances, buffers or memory were in use")  \
    X(H2_TOO_LARGE, "requests of HTTP/2 refused: their head is too large, or no head of HTTP/1.1") \
    X(H2_UNANSWERED, "streams of HTTP/2 reset: the program gave no answer, or a part of one")  \
    X(H2_UPLINKS, "connections of HTTP/2 to backends")                                         \
    X(H2_ASKED, "requests of HTTP/2 to backends")                                              \
    X(H2_WAITED, "requests of HTTP/2 to backends that waited for room for a stream")           \
    X(H2_REPEATED, "requests of HTTP/2 sent again: the backend had not processed them")        \
    X(H2_UNASKED, "requests that cannot be sent to a backend of HTTP/2: too many fields")      \
    X(H2_GIVEN_UP, "streams of HTTP/2 to backends that did not end well")                      \
    X(PROXIED, "connections with a PROXY header")                                              \
    X(PROXY_MALFORMED, "faults: malformed PROXY header")                                       \
    X(H2_BROKEN, "faults: a connection of HTTP/2 that breaks its protocol")                    \
    X(H2_UNSPOKEN, "faults: a backend of HTTP/2 does not use it")                              \
    X(H2_FLOOD, "faults: a connection of HTTP/2 with too many frames that bring nothing")      \
    X(H2_MEMORY, "faults: no memory left for HTTP/2")                                          \
    X(BAD_MESSAGE, "faults: malformed message")                                                  \
    X(TRUNCATED, "faults: a connection ended within a message")                                \
    X(TOO_LARGE, "faults: message larger than a buffer")                                       \
    X(CONNECT_FAILED, "faults: a backend could not be connected")                              \
    X(BACKEND_CLOSED, "faults: a backend closed while answers were due")                       \
    X(RESET, "faults: connection reset")                                                       \
    X(INTERIM, "faults: a backend sent too many interim responses to a request")               \
    X(CLOSED_CHANNEL, "faults: sent to a channel that is closed")                              \
    X(BAD_INDEX, "faults: index out of range")                                                 \
    X(DIVISION, "faults: division by zero")                                                    \
    X(BAD_NUMBER, "faults: string is no number")                                               \
    X(LIMIT, "faults: limit of a list, string or dictionary")                                  \
    X(EMPTY_LIST, "faults: head or tail of an empty list")                                     \
    X(UNFIT, "faults: a value does not fit its field")                                         \
    X(TIMEOUT, "faults: a backend did not answer in time")                                     \
    X(SLOW, "faults: a message did not arrive in time")                                        \
    X(SLOW_BODY, "faults: the rest of a message did not pass fast enough")                     \
    X(SLOW_READER, "faults: a connection did not take fast enough what was sent")              \
    X(BACKEND_FULL, "faults: a backend has as many connections as it may")                     \
    X(HANDSHAKE_FAILED, "faults: TLS handshake failed")                                        \
    X(HANDSHAKE_SLOW, "faults: TLS handshake not done in time")                                \
    X(HANDSHAKES_FULL, "faults: TLS handshake ended by newer ones: as many at once as may be")  \
    X(UNVERIFIED, "faults: the certificate of a backend is not valid")                         \
    X(TLS_BROKEN, "faults: bytes that are no TLS")                                             \
    X(TLS_MEMORY, "faults: no memory left for TLS")                                            \
    X(CHECKSUM, "faults: wrong checksum")                                                      \
    X(HANDLED, "faults handled by the program")                                                \
    X(EVICTED, "entries of global dictionaries replaced: the dictionary was full")             \
    X(IDLE, "faults: nothing happened for the idle time")                                      \
    X(STOPPED, "instances ended by the end of the service")

enum service_counter {
#define SERVICE_NAME(name, text) SERVICE_##name,
    SERVICE_COUNTERS(SERVICE_NAME)
#undef SERVICE_NAME
    SERVICE_COUNTER_COUNT
};

/* What `except` can name: classes of faults. */
enum service_exception {
    SERVICE_BROKEN_CONNECTION,
    SERVICE_MALFORMED_MESSAGE,
    SERVICE_TIMED_OUT,
    SERVICE_LIMITED,
    SERVICE_FAILURE, /* of the program's own computation */
};

static inline enum service_exception service_class(enum service_counter fault)
{
    switch (fault) {
    case SERVICE_TRUNCATED:
    case SERVICE_CONNECT_FAILED:
    case SERVICE_BACKEND_CLOSED:
    case SERVICE_RESET:
    case SERVICE_INTERIM:
    case SERVICE_CLOSED_CHANNEL:
    case SERVICE_BACKEND_FULL:
    case SERVICE_HANDSHAKE_FAILED:
    case SERVICE_UNVERIFIED:
    case SERVICE_TLS_BROKEN:
    case SERVICE_H2_UNSPOKEN:
        return SERVICE_BROKEN_CONNECTION;
    case SERVICE_BAD_MESSAGE:
    case SERVICE_PROXY_MALFORMED:
    case SERVICE_CHECKSUM:
        return SERVICE_MALFORMED_MESSAGE;
    case SERVICE_TIMEOUT:
    case SERVICE_HANDSHAKE_SLOW:
    case SERVICE_SLOW:
    case SERVICE_SLOW_BODY:
    case SERVICE_SLOW_READER:
        return SERVICE_TIMED_OUT;
    case SERVICE_TOO_LARGE:
    case SERVICE_LIMIT:
    case SERVICE_TLS_MEMORY:
    case SERVICE_HANDSHAKES_FULL:
        return SERVICE_LIMITED;
    default:
        return SERVICE_FAILURE;
    }
}

#endif
