/* The parts of a compiled program, and the platform's structs for it.
 *
 * A program has ports: a channel, or an array of channels. An instance is made for each connection that is accepted; it
 * has a channel for each port, or several for an array, its state, and a frame while it needs one: the variables of the
 * program's rules. A rule is a function that runs until it has to wait, and that is called again when anything has changed.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <pthread.h>
#include <stddef.h>

#include "buffer.h"
#include "counters.h"
#include "dictionary.h"
#include "frame.h"
#include "text.h"
#include "value.h"

struct service_instance;
struct service_h2;
struct service_lane;
struct service_log;
struct service_ring;
struct service_tally;

enum service_outcome {
    SERVICE_STEP,  /* did something; may go on */
    SERVICE_WAIT,  /* for bytes, or for room */
    SERVICE_END,   /* the channel that it reads has ended */
    SERVICE_YIELD, /* its time slice is over; it has more to do */
    SERVICE_FAULT, /* the instance ends; its `fault` is the reason */
};

typedef enum service_outcome service_run(struct service_instance *self);

struct service_rule {
    service_run *run;
    uint64_t reads, writes; /* bit i: port i */
    bool shared;            /* uses global state: it runs with the lock */
};

struct service_port {
    const char *name;
    bool array, receives, sends;
    const char *finish; /* the bytes that end the stream of sent messages; may be null */
    uint32_t finish_size;
    bool sums;          /* a checksum follows it */
    bool notes;         /* an answer cannot be read without a note of its request */
    bool exact;         /* the grammar defines which requests have an answer */
    bool strict;        /* each request has one: bytes from a backend while none is due are no answer */
    bool web;           /* it receives requests of HTTP */
};

struct service_program {
    const char *name;
    const struct service_port *ports;
    const struct service_rule *rules;
    uint32_t port_count, rule_count; /* at most SERVICE_PORTS, and 64 */
    uint32_t frame_size, own_size; /* bytes of the variables of its rules, and of the state of an instance */
    uint32_t handles;       /* bit i: `except` handles the class i of faults, enum service_exception */
    uint64_t rings[2];      /* bit i: a backend of port i is chosen by ketama(), and by ketama_weighted() */
    bool tallied;           /* it reads the counters of backends, tally.h */
    size_t shared_size;     /* bytes of global state */
    enum service_outcome (*begin)(struct service_instance *self);        /* first values of its state; may be null */
    enum service_outcome (*begin_shared)(struct service_instance *self); /* those of global state; may be null */
};

enum { SERVICE_NOTES = 4 }; /* requests without an answer that the parser of answers needs */

enum { SERVICE_INTERIMS = 16 }; /* interim responses of HTTP to a request (RFC 9110, section 15.2) that are taken */

enum service_link { SERVICE_CLOSED, SERVICE_CONNECTING, SERVICE_OPEN };

/* One end of a connection. */
struct service_channel {
    struct service_instance *instance;
    struct service_buffer *in, *out;
    struct service_channel *to;   /* the target of the message that passes; null if it is skipped */
    struct service_channel *from; /* whose message is passing to this one: no other may be sent meanwhile */
    struct service_tail tail;     /* parts of that message after these */
    uint32_t need;                /* bytes without which a parser cannot continue */
    uint64_t passing;             /* bytes of a message that are still to pass or to be skipped */
    uint32_t received, sent;      /* final answers, and requests that have one, since nothing was due last */
    uint32_t due_since;           /* the second since which an answer is due */
    uint32_t waits_since;         /* the second since which the rest of a message is missing; 0: none is. While one
                                   * passes: since which `pass_bytes` are counted */
    uint32_t out_since, out_bytes; /* the same while the connection does not accept all of `out`; 0: it does */
    union {
        uint32_t sum_in;     /* a checksum of the messages, none of which passes then */
        uint32_t pass_bytes; /* of the message that passes */
    };
    uint32_t sum_out;             /* checksum of the sent bytes */
    uint32_t taken;               /* bytes at the front of `in` that the current step of a rule has received */
    int fd;
    uint32_t asked_at;            /* microseconds: the only request that is due was sent; 0: not known (tally.h) */
    uint32_t address; /* IPv4: of the client; of a backend, that to which `bind` has bound it; 0: none */
    uint8_t notes[SERVICE_NOTES]; /* of the requests that were sent, for the parser of their answers */
    uint16_t index;
    uint16_t peer_port; /* TCP port of a client */
    uint8_t port;       /* below SERVICE_PORTS */
    uint8_t link;       /* enum service_link */
    uint8_t broken;     /* enum service_counter: why the connection has ended; the next rule that uses it is notified */
    uint8_t pipe;       /* that through which a message passes in the kernel, of its worker; 0: none */
    bool reopens : 1;     /* connected to a backend, at the first message and again after its end */
    bool readable : 1;    /* more may be read from the connection */
    bool writable : 1;    /* more may be written to it */
    bool hung_up : 1;     /* the other side has shut its half: unread bytes, and then the end, are available */
    bool in_ended : 1;    /* no more bytes will be received */
    bool out_ending : 1;  /* nothing more will be sent: the connection's half is shut when `out` is empty */
    bool out_ended : 1;   /* it is shut */
    bool pinned : 1;      /* the current step has looked at the bytes of `in`: they must not move */
    bool ends : 1;        /* the message received last is the last one */
    bool parked : 1;      /* nothing is due, and nothing more is sent: another instance can use the connection */
    bool sums : 1;        /* its messages have a checksum at their end */
    bool finished : 1;    /* the end of a stream was sent */
    bool fresh : 1;       /* the message received or looked at last is the first one of its step */
    bool reused : 1;      /* the connection was idle before, and has not answered yet: its end is no failure of the backend */
    bool copies : 1;      /* the message that passes does so through buffers: no pipe was free */
    bool secure : 1;      /* the connection uses TLS */
    bool cut : 1;         /* TLS: the connection has ended without close_notify */
    bool awaits : 1;      /* the header of a proxy precedes its first message */
    bool cached : 1;      /* answers of its backend are stored, cache.h */
    bool stream : 1;      /* the connection is a stream of HTTP/2 */
    bool unsent : 1;      /* the message received last was not sent to any channel yet */
    uint8_t notes_first : 3;
    uint8_t interims : 5; /* interim responses to the request whose answer is due */
    uint8_t notes_count : 3;
};

enum { SERVICE_PORTS = 16 };

/* Global state, which the instances of all workers share. */
struct service_shared {
    pthread_mutex_t lock;
    void *state;
};

/* A backend, for all workers. */
struct service_backend {
    _Atomic uint32_t load;       /* connections of instances */
    _Atomic uint32_t down_until; /* the second until which it counts as down */
    _Atomic bool unhealthy;      /* health checks have taken it out */
};

/* Shared by instances of one program within a worker. */
struct service_core {
    const struct service_program *program;
    struct service_shared *shared;
    struct service_backend *backends; /* of all ports in a row; of all workers. May be null in tests. */
    struct service_tally *tallies; /* of each backend, tally.h; null: nothing reads them */
    struct service_ring *const *rings; /* of each port for both functions, ring.h; may be null in tests */
    uint32_t most; /* connections to a backend; 0: any number */
    uint32_t down; /* seconds for which a backend that failed counts as down */
    uint32_t now;  /* seconds */
    struct service_log *log; /* the access log; null without */
    uint32_t work; /* iterations of loops, to look at the clock only at some of them */
    struct service_buffers buffers;
    struct service_frames frames; /* of the instances whose memory this worker has */
    uint64_t counters[SERVICE_COUNTER_COUNT];
    uint32_t counts[SERVICE_PORTS]; /* channels of each port */
    uint32_t first[SERVICE_PORTS];  /* the first channel of each port */
};

struct service_instance {
    struct service_core *core;
    struct service_lane *home; /* whose memory it is */
    struct service_instance *next; /* in the queue, or among the free ones */
    struct service_instance *older, *newer; /* of the instances in use */
    uint64_t alive;                /* bit i: rule i has not ended */
    uint32_t channel_count;
    uint16_t turn;                 /* where the next choice among channels begins */
    uint8_t fault;                 /* enum service_counter */
    bool queued, progressed, in_use;
    bool begins;                   /* the data before its messages is incomplete */
    bool lingers;                  /* it only drops what its client sends, linger.h: */
    uint32_t since, dropped;       /* from this second on; bytes */
    bool starved;                  /* waits for a buffer of the pool */
    uint32_t active;               /* the second in which it last did something */
    struct service_buffer *visits, *visits_last; /* requests that are to be in the access log, log.h */
    struct service_h2 *h2; /* its connection uses HTTP/2; null else */
    void *frame; /* null: no rule is within a step */
    void *own;   /* its state */
    struct service_channel channels[];
};

/* Whether the worker that runs it is the one to which its memory belongs: a lane begins with its core. */
static inline bool service_at_home(const struct service_instance *self)
{
    return (const void *)self->home == (const void *)self->core;
}

/* The channels of a port. */
static inline struct service_channel *service_port(struct service_instance *self, uint32_t port)
{
    return self->channels + self->core->first[port];
}

/* Bytes of an instance without its state. */
static inline size_t service_instance_head(uint32_t channels)
{
    return (sizeof(struct service_instance) + channels * sizeof(struct service_channel) + 15) & ~(size_t)15;
}

/* Whether a message is passing, or is skipped: the next one cannot be received yet. */
static inline bool service_transit(const struct service_channel *c)
{
    return c->passing > 0 || c->tail.kind != SERVICE_NO_TAIL;
}

/* Whether the time slice of the instance that runs is over. */
bool service_slice_over(struct service_core *core);

/* Whether its turn is over, after a step. */
bool service_turn_over(struct service_core *core);

/* The test in a loop of compiled code after each iteration. */
static inline bool service_spent(struct service_instance *self)
{
    return (++self->core->work & 63) == 0 && service_slice_over(self->core);
}

static inline enum service_outcome service_fail(struct service_instance *self, enum service_counter reason)
{
    self->fault = (uint8_t)reason;
    return SERVICE_FAULT;
}

#endif
