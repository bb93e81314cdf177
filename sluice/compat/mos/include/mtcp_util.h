/* Helpers that programs for mOS include: under this name, too. */
#ifndef MTCP_UTIL_H
#define MTCP_UTIL_H

#include "rss.h"

#include <arpa/inet.h>
#include <unistd.h>

#endif
