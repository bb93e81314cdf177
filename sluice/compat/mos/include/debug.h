/* Helpers that programs for mOS include: messages. TRACE_ERROR and TRACE_INFO go to standard error; the others only in
 * programs compiled with -DDEBUG. Headers that programs expect from it are included. */
#ifndef MOS_DEBUG_H
#define MOS_DEBUG_H

#include "mos_api.h"
#include "rss.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define MOS_TRACE(...) fprintf(stderr, __VA_ARGS__)
#define TRACE_ERROR(...) MOS_TRACE(__VA_ARGS__)
#define TRACE_INFO(...) MOS_TRACE(__VA_ARGS__)
#define TRACE_CONFIG(...) MOS_TRACE(__VA_ARGS__)

#ifdef DEBUG
#define TRACE_DBG(...) MOS_TRACE(__VA_ARGS__)
#else
#define TRACE_DBG(...) ((void)0)
#endif
#define TRACE_API(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_APP(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_EPOLL(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_FUNC(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_LOOP(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_STATE(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_STREAM(...) TRACE_DBG(__VA_ARGS__)
#define TRACE_TIMEOUT(...) TRACE_DBG(__VA_ARGS__)

#endif
