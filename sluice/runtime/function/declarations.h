/* The declarations of a function on events, as marks that sluice/hooks reads from the output of the preprocessor.
 *
 * sluice.h includes this file instead of its own contents when SLUICE_DECLARATIONS is defined. The preprocessor then
 * works as in the compilation (comments, conditions, macros, continued lines, the function's own headers), and replaces
 * each declaration by SLUICE_DECLARED(kind, arguments). Accessors leave a mark, too: what a box maintains for a
 * function follows from the accessors that it calls. Marks within the runtime's own headers do not count. */
#ifndef SL_DECLARATIONS_H
#define SL_DECLARATIONS_H

#define SLUICE_ON(layer, event) SLUICE_DECLARED("on", #layer, #event)
#define SLUICE_ON_DEMAND(layer, event) SLUICE_DECLARED("on_demand", #layer, #event)
#define SLUICE_EVENT(layer, name, base) SLUICE_DECLARED("event", #layer, #name, #base)
#define SLUICE_PUBLISH(name, ...) SLUICE_DECLARED("publish", "", #name, __VA_ARGS__)
#define SLUICE_PUBLISH_AS(base, name, ...) SLUICE_DECLARED("publish", #base, #name, __VA_ARGS__)
#define SLUICE_EMIT(event, name, ...) (SLUICE_DECLARED("emit", #name), __VA_ARGS__)
#define SLUICE_WRITES(layer, field) SLUICE_DECLARED("writes", #layer, #field)
#define SLUICE_KEEP(layer, bytes) SLUICE_DECLARED("keep", #layer, bytes)
#define SLUICE_CONTROL(layer) SLUICE_DECLARED("control", #layer)
#define SLUICE_TIMER(layer, name) SLUICE_DECLARED("timer", #layer, #name)
#define SLUICE_STATE(type) SLUICE_DECLARED("state", #type)
#define SLUICE_WORKER(type) SLUICE_DECLARED("worker", #type)
#define SLUICE_COMMON(type) SLUICE_DECLARED("common", #type)
#define SLUICE_PARAMETER(name, kind, value, help) SLUICE_DECLARED("parameter", #name, #kind, value, help)
#define SLUICE_COUNTER(name, help) SLUICE_DECLARED("counter", #name, help)
#define SLUICE_SHARED(name, type, scope, access, loss, help) \
    SLUICE_DECLARED("shared", #name, #type, #scope, #access, #loss, help)
#define SLUICE_OPERATION(name, lua) SLUICE_DECLARED("operation", #name, lua)
#define SLUICE_SOURCE(file) SLUICE_DECLARED("source", file)
#define SLUICE_LIBRARY(name) SLUICE_DECLARED("library", name)
#define SLUICE_INLINE SLUICE_DECLARED("inline")
#define SLUICE_DESTROY SLUICE_DECLARED("destroy")
#define SLUICE_OPEN SLUICE_DECLARED("open")
#define SLUICE_CLOSE SLUICE_DECLARED("close")

#define SLUICE_NEEDS(what) SLUICE_DECLARED("needs", #what)

/* Accessors, by what the box maintains for them. */
#define SL_NEEDS(what) SLUICE_DECLARED("needs", what)
#define sl_packet_time(...) SL_NEEDS("packet")
#define sl_packet_number(...) SL_NEEDS("packet")
#define sl_packet_frame(...) SL_NEEDS("packet")
#define sl_random(...) SL_NEEDS("packet")
#define sl_output_file_open(...) SL_NEEDS("packet")
#define sl_box_time(...) SL_NEEDS("packet")
#define sl_box_depth(...) SL_NEEDS("path")
#define sl_box_path(...) SL_NEEDS("path")
#define sl_path(...) SL_NEEDS("path")
#define sl_path_depth(...) SL_NEEDS("path")
#define sl_path_layer(...) SL_NEEDS("path")
#define sl_layer_unit(...) SL_NEEDS("units")
#define sl_view(...) SL_NEEDS("peek")
#define sl_event_half(...) SL_NEEDS("key")
#define sl_instance_key(...) SL_NEEDS("key")
#define sl_layer_field(layer, name) SLUICE_DECLARED("field", #name)
#define sl_peek(...) SL_NEEDS("peek")
#define SLUICE_DROP(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define SLUICE_REWRITE(...) SL_NEEDS("inline") SL_NEEDS("rewrite")
#define SLUICE_REDIRECT(...) SL_NEEDS("inline") SL_NEEDS("redirect")
#define sl_redirect(...) SL_NEEDS("inline") SL_NEEDS("redirect")
#define SLUICE_RESET(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define SLUICE_SEND(...) SL_NEEDS("inline")
#define SLUICE_HOLD(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define SLUICE_RELEASE(...) SL_NEEDS("inline")
#define SLUICE_DISCARD(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define sl_hold(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define sl_release(...) SL_NEEDS("inline")
#define sl_discard(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define sl_drop(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define sl_rewrite(...) SL_NEEDS("inline") SL_NEEDS("rewrite")
#define sl_reset(...) SL_NEEDS("inline") SL_NEEDS("drop")
#define sl_send(...) SL_NEEDS("inline")
#define sl_edits_packet(...) SL_NEEDS("inline") SL_NEEDS("drop") SL_NEEDS("rewrite") SL_NEEDS("units") SL_NEEDS("packet")
#define sl_edits_data(...) SL_NEEDS("peek")
#define sl_buffer(...) SL_NEEDS("control")
#define sl_policy(...) SL_NEEDS("control")
#define SLUICE_STOP(...) SL_NEEDS("control")
#define SLUICE_RESUME(...) SL_NEEDS("control")

#endif
