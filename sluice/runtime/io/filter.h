/* Capture filters in pcap syntax, compiled by libpcap, which is loaded when the first filter is opened. */
#ifndef SL_IO_FILTER_H
#define SL_IO_FILTER_H

#include "core/packet.h"

#include <stdbool.h>
#include <stddef.h>

struct sl_filter;

/* Opens a filter. snap_length: what its program in the kernel returns for accepted packets; 0: 262144. Returns NULL if the
 * expression is none for Ethernet, or without libpcap, with the reason in `why`. */
struct sl_filter *sl_filter_open(const char *expression, uint32_t snap_length, char *why, size_t why_size);

/* Whether it accepts a frame. It is compiled for each link type; where the expression makes no sense for one, it accepts
 * no frame of it. */
bool sl_filter_accepts(struct sl_filter *filter, const struct sl_frame *frame);

/* Its program for frames of a link type: classic BPF, as struct sock_filter. Returns the number of instructions; 0 if there
 * is none. */
unsigned sl_filter_program(struct sl_filter *filter, uint16_t link_type, const void **instructions);

/* NULL is allowed. */
void sl_filter_close(struct sl_filter *filter);

#endif
