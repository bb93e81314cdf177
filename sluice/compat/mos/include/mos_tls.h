/* Events of TLS (RFC 8446, 5.1) on top of MOS_ON_CONN_NEW_DATA, at MOS_NULL. */
#ifndef MOS_TLS_H
#define MOS_TLS_H

#include "mos_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* record: a side received whole records; handshake: one of them is of the handshake protocol; session: once a flow, both
 * ends have sent a record that is protected, so that the handshake's keys are in use. The last two are children of the
 * first. */
struct mos_tls_events { event_t record, handshake, session; };

/* Defines them, or gives those that were defined before; -1, ENOMEM: there are 64 events. */
int mos_tls_define(struct mos_tls_events *events);

enum { MOS_TLS_CHANGE_CIPHER_SPEC = 20, MOS_TLS_ALERT = 21, MOS_TLS_HANDSHAKE = 22, MOS_TLS_APPLICATION_DATA = 23 };

struct mos_tls_record {
    uint64_t offset;    /* of its header in the stream: mtcp_ppeek reads it while it is stored */
    uint16_t version, length;   /* length: without the header's 5 bytes */
    uint8_t type;
};

/* In a callback of these events: the next record that the side has received whole. 1; 0: there are no more; -1, ENODATA: its
 * header is not stored any more. */
int mos_tls_next(mctx_t mctx, int sock, int side, struct mos_tls_record *record);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
