/* The data of built-in events, for functions and for programs that embed a stack: see BUILT_IN in sluice/lang/events.py.
 *
 * For C11 and C++ without extensions. */
#ifndef SL_BUILT_IN_EVENTS_H
#define SL_BUILT_IN_EVENTS_H

#include "core/packet.h"

struct sl_on_malformed { uint64_t length, reason; };   /* in words: event->layer->malformed[data->reason] */
struct sl_on_created { char nothing; };
struct sl_on_orphan { uint64_t length; };
struct sl_on_sent { uint64_t length; };
struct sl_on_packet { uint64_t length; };
struct sl_on_state { uint64_t before, after; };   /* their names: event->owner->state[data->after].name */
struct sl_on_data { uint64_t offset; sl_bytes bytes; };
struct sl_on_rexmit { uint64_t offset, length; sl_bytes new_bytes, old; };
struct sl_on_out_of_wnd { char nothing; };
struct sl_on_gap { uint64_t offset, length, cause; };
struct sl_on_end { uint64_t reason; };
struct sl_on_lost { uint64_t offset, length, cause; };
struct sl_on_dropped { uint64_t length, reason; };
struct sl_on_unplaced { uint64_t length, cause; };

#endif
