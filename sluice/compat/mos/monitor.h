/* Declarations shared by the parts of libsluice_mos.
 *
 * A context is one core's: its box (the compiled stack), its sockets, its flows. The stack finds the flow of a segment, and
 * its TCP reads it; the states of both ends by name (tcp_state.h) and the bytes that they have received
 * (receive_buffer.h) are stored with its instance. */
#ifndef MOS_MONITOR_H
#define MOS_MONITOR_H

#include "devices.h"
#include "mos_api.h"
#include "packet.h"
#include "receive_buffer.h"
#include "tcp_state.h"

#include "core/box.h"
#include "driver/drive.h"
#include "io/filter.h"

#include <pthread.h>

/* --- events (events.c, registrations.c) --- */

enum { MOS_EVENTS = 64, MOS_BUILT_IN = 12 };
enum mos_hook { MOS_AT_NULL, MOS_AT_RCV, MOS_AT_SND, MOS_HOOKS };

/* Which callbacks are called for which events. Never changed once made, and shared by all flows of a context that have the
 * same: as in mOS, a change replaces one of these by another, along an edge once it has been made before. */
struct mos_registrations {
    event_t registered[MOS_HOOKS];
    callback_t callback[MOS_HOOKS][MOS_EVENTS];
    struct mos_edge *edges;
    struct mos_registrations *next;   /* of all in the context */
};

struct mos_context;

/* With a callback, or without for NULL; NULL when there is no memory. */
const struct mos_registrations *mos_registrations_with(struct mos_context *context, const struct mos_registrations *from,
                                                       enum mos_hook hook, unsigned event, callback_t callback);
void mos_registrations_forget(struct mos_context *context);   /* all of the context */
void mos_events_forget(void);

/* --- TLS (tls.c) --- */

/* The state of a monitor for the records that a side receives. */
struct mos_tls_stream {
    uint64_t at, given;   /* before `at` are whole records; the callback has got those before `given` */
    uint64_t end;         /* of the record that begins at `at`; 0: its header is incomplete */
    uint8_t type;         /* of that record */
    bool foreign;         /* it is not TLS, or a part of it was lost */
    bool is_protected;
};
struct mos_tls {
    struct mos_tls_stream stream[2];
    bool handshake, session, was_session;   /* of the last record */
};

/* --- sockets (socket.c, options.c) --- */

struct mos_flow;

enum { MOS_MONITORS = 64 };   /* of a context at most */

/* A number that a program uses: a monitor, or one flow of one monitor. */
struct mos_socket {
    int id;
    enum socket_type type;
    const struct mos_registrations *registrations;   /* NULL of a flow with those of its monitor */
    struct mos_socket *previous, *next;   /* monitors: in the order in which they were made */
    /* of a monitor */
    struct mos_socket *closed;            /* those that the program has closed and that are still to be freed */
    struct sl_filter *syn, *orphan, *raw;
    int buffer[2], overlap[2];            /* for its flows, by side */
    /* of a flow */
    struct mos_flow *flow;                /* NULL when that has ended */
    const struct mos_socket *monitor;
    void *user;
    struct mos_reader reader[2];
    bool stopped[2];
    struct mos_tls tls;
};

struct mos_socket *mos_socket_new(struct mos_context *context, enum socket_type type);
void mos_socket_free(struct mos_context *context, struct mos_socket *socket);
void mos_sockets_free(struct mos_context *context);          /* all of them, as the context ends */
void mos_monitor_add(struct mos_context *context, struct mos_socket *monitor);
void mos_monitor_remove(struct mos_context *context, struct mos_socket *monitor);   /* closed by the program; freed later */
bool mos_monitors(void);                                     /* has any context a monitor? */
void mos_sockets_free_closed(struct mos_context *context);   /* while no events are raised */

static inline const struct mos_registrations *mos_socket_registrations(const struct mos_socket *socket) {
    return socket->registrations ? socket->registrations : socket->monitor->registrations;
}

struct mos_socket *mos_socket_of(mctx_t mctx, int id);
struct mos_socket *mos_socket_get(mctx_t mctx, int id);   /* for a call of the program's. NULL: EBADF,
    EACCES without a context, EPERM in another thread */
bool mos_is_foreign(const struct mos_context *context);   /* do its callbacks run in another thread than this one? */

/* Raises events of one set for one socket: built-in ones in the order of their bits, each with what happens with it. */
void mos_raise(struct mos_context *context, struct mos_socket *socket, int side, enum mos_hook hook, event_t set);

/* --- filters (filter.c) --- */

struct sl_filter *mos_filter_new(const char *expression);   /* NULL, and a message, when it is none */
bool mos_filter_accepts(struct sl_filter *filter, const struct sl_frame *frame);
void mos_filter_free(struct sl_filter *filter);

/* --- the box (boxed.c) --- */

void mos_boxed_for(struct sl_box *box, struct mos_context *context);
struct mos_context *mos_boxed_context(const struct sl_box *box);

/* --- flows (flow.c, arrival.c, segment.c) --- */

struct mos_flow {
    struct mos_context *context;
    struct mos_flow **place;      /* where the stack's instance keeps it; NULL when that has ended */
    struct sl_instance *instance;
    struct mos_flow *older, *newer;   /* in its queue, by the time of the last packet */
    struct mos_queue *queue;
    uint64_t deadline, next;      /* next: of the receiver of the current segment, before it */
    uint32_t expects;             /* the number that it expects, before that segment */
    event_t received;             /* the receiver's set, which is to be raised when the segment is in the sequence */
    struct mos_address ends[2];   /* client, server */
    bool six;                     /* over IPv6 */
    struct mos_end end[2];
    struct mos_buffer buffer[2];  /* the bytes that each end receives */
    struct mos_translated *translated;   /* the other ends of its packets */
    struct mos_indexed *indexed;  /* by its ends, once the context has an index */
    int offload;                  /* enum mos_ext_offload, or 0 */
    bool plain;                   /* established at both ends, and not offloaded */
    bool was_reset;               /* by its TCP, though its ends may ignore it */
    unsigned sender;              /* of the last packet: 0 the client, 1 the server; as in the stack's instance */
    unsigned view_count;
    struct mos_socket *views[];   /* one for each monitor that took it */
};

/* Flows that wait for the same time: the first is the one that waits longest. */
struct mos_queue { struct mos_flow *first, *last; uint64_t after; };

/* A segment of an instance of the stack, which keeps its flow, or NULL, at *place, before it is in the sequence of its
 * side; `sequences` are both sides'. False where it is not to get there. The flow may have ended. */
struct mos_segment;
bool mos_segment(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance,
                 struct sl_sequence *sequences, unsigned side, const struct mos_segment *known);
bool mos_segment_pass(struct mos_flow *flow, unsigned from, const struct mos_segment *known);   /* of a flow (segment.c) */

/* The payload after `header` bytes of a segment of an established flow is received, without becoming the current packet: no
 * program looks at that. False, and nothing is done, where it is more than the next bytes. */
bool mos_segment_append(struct mos_flow *flow, unsigned from, const struct sl_frame *frame, uint32_t header,
                        sl_bytes segment, const struct mos_segment *known);

/* The segment is in the sequence. The flow may end. */
void mos_segment_received(struct mos_flow *flow, unsigned from, const struct sl_sequence_rules *rules);

/* The stack skips missing bytes of an end. */
void mos_segments_given_up(struct mos_flow *flow, unsigned from, uint64_t offset, uint64_t length, unsigned cause);

void mos_stray(struct mos_context *context);                      /* a segment without an instance */
void mos_flow_forgotten(struct mos_flow *flow);                   /* its instance ends */

/* The current packet goes through the stack as a segment that an end of the flow sent (again.c). The flow may end. */
void mos_packet_again(struct mos_flow *flow, unsigned from, enum mos_again what);

/* A flow for the current SYN at *place, unless no monitor accepts it. */
void mos_flow_begin(struct mos_context *context, struct mos_flow **place, struct sl_instance *instance,
                    const struct sl_sequence *sequences);
void mos_flow_stop(struct mos_socket *view, int side);            /* it is not watched any more, or one side of it */

/* The monitor at position i: packets from the client pass them in order, packets from the server in
 * reverse, so that chained monitors nest. */
struct mos_socket *mos_flow_view(const struct mos_flow *flow, unsigned i);
void mos_flow_raise(struct mos_flow *flow, unsigned side, enum mos_hook hook, event_t set);   /* for all monitors of it */
bool mos_flow_is_watched(const struct mos_flow *flow);            /* by a monitor that has not stopped both sides */
void mos_flow_wait(struct mos_flow *flow);     /* it waits for its next segment from now on */
void mos_flow_settle(struct mos_flow *flow);   /* it waits for its next segment; or ends, with both ends closed */
void mos_flow_end(struct mos_flow *flow, event_t why);
void mos_flows_end(struct mos_context *context);                  /* all of them, as the input ends */
bool mos_flow_set_buffers(struct mos_flow *flow);   /* by its views' options; false: no memory for that */

/* --- flows by their ends (flow_index.c): only where a program looks for one --- */

struct mos_flow_index;
void mos_flow_index_add(struct mos_flow *flow);       /* they do nothing in a context without an index */
void mos_flow_index_remove(struct mos_flow *flow);
void mos_flow_index_close(struct mos_context *context);
struct mos_flow *mos_flow_index_find(struct mos_context *context, const struct mos_address ends[2]);   /* client, server; errno */

/* --- packets by translated addresses (translated.c) --- */

/* Remembers the ends that the current packet has now, if they are others than its flow's. */
void mos_translated_note(struct mos_flow *flow);
void mos_translated_forget(struct mos_flow *flow);

struct mos_run;   /* loop.h */

/* The flow of a packet by such ends, of whichever context of the run, and which end sent it; NULL for none. */
struct mos_flow *mos_translated_find(const struct mos_run *run, const struct mos_packet *packet, unsigned *from);

/* The run that a packet's flow by such ends is of; NULL for none. Fragments, and packets in tunnels, have none. */
struct mos_run *mos_translated_run(const struct sl_frame *frame);

int mos_translated_open(struct mos_context *const *contexts, unsigned count);   /* for all flows; -1: no memory */
void mos_translated_close(void);

/* --- contexts (context.c) --- */

enum { MOS_CONTEXTS = 64 };
struct mos_timer { uint64_t due, order; int id; callback_t callback; };
struct mos_hosts;   /* endpoint.h */

/* Counters of data that programs do not get, reported at the end of the run. */
struct mos_losses {
    uint64_t given_up;            /* bytes of streams: the first hole, where a bound of the stack was reached */
    uint64_t unbuffered;          /* bytes of streams without memory for their receive buffer */
    uint64_t flows;               /* of monitors, without memory */
};

struct mos_context {
    struct mtcp_context public;   /* first, so that it is the program's mctx_t */
    struct sl_box *box;
    struct mos_socket **sockets;  /* by id */
    int socket_count, socket_room, free_ids, *free_id;
    struct mos_socket *first, *last;   /* monitors */
    struct mos_socket *closed;
    struct mos_packet packet;
    struct mos_unit unit;         /* the IP packet that its stack read last; only where tunnels are */
    bool ipv6, tunnels;           /* its stack has them */
    unsigned raw;                 /* monitors of single packets */
    bool looks;                   /* has registered for packets of established flows without a FIN */
    bool passed;                  /* the current segment concerns no program */
    struct mos_losses losses;
    uint8_t *shown;               /* what mtcp_getlastpkt gave of it: a copy, of MOS_SHOWN_ROOM bytes */
    struct mos_queue open, time_wait;
    uint8_t *again;               /* a packet that returns to the stack, of UINT16_MAX bytes */
    void (*enter)(struct mos_context *context, const struct sl_frame *frame, sl_bytes ip);   /* its stack, at IP */
    uint64_t flows, time;
    bool started;                 /* a packet was received */
    struct mos_timer *timers;     /* a heap */
    unsigned timer_count, timer_room;
    uint64_t timer_order;
    event_t raisable, raised;     /* while a filter runs */
    event_t wanted[MOS_HOOKS];    /* built-in events for which, or for one below, a callback was registered */
    bool filtering;
    struct mos_registrations nothing, *registrations;   /* that without callbacks, and all others */
    struct mos_run *run;          /* the thread of its callbacks; NULL before there is one */
    pthread_t thread;             /* which made it */
    uint64_t seed;                /* of its tables */
    struct mos_hosts *hosts;      /* NULL while it has no end hosts */
    struct mos_flow_index *index; /* NULL until mos_ext_find */
    void (*start)(mctx_t mctx, void *arg);   /* to be called in the thread of its callbacks, once */
    void *start_arg;
};

void mos_context_start(struct mos_context *context);   /* it is about to process (extensions.c) */

static inline struct mos_context *mos_context_of(mctx_t mctx) { return (struct mos_context *)(void *)mctx; }

unsigned mos_contexts(struct mos_context **contexts);   /* all there are; how many */
bool mos_contexts_stop(void);       /* for mtcp_destroy. False in a signal's handler, which may free nothing */
void mos_contexts_release(void);    /* all unused ones, and their shared data */

/* Stopping (thread.c). */
extern struct mos_context mos_context_memory[];                /* by core */
unsigned mos_context_core(const struct mos_context *context);
bool mos_context_stopped(const struct mos_context *context);   /* has it been destroyed? */
void mos_context_set_stopped(const struct mos_context *context, bool is);
bool mos_stopped(void);                                        /* has one of them been destroyed? */
void mos_set_stopped(bool is);

/* --- time (timer.c) --- */

/* Time advances to `now`: timers fire and flows end, each at its time, of all contexts in the order of time. */
void mos_advance(struct mos_context **contexts, unsigned count, uint64_t now);
bool mos_time_passes(struct mos_context **contexts, unsigned count, uint64_t now);   /* or false, where anything happens by then */

uint64_t mos_next_due(struct mos_context *const *contexts, unsigned count);   /* when that happens next; SL_NEVER */

#endif
