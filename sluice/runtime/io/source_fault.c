/* Messages of back ends. A file of its own, as back ends in other libraries (dpdk/) are compiled with it, too. */
#include "io/source.h"

#include <stdarg.h>
#include <stdio.h>

int sl_source_fail(struct sl_source *source, const char *form, ...)
{
    int n = snprintf(source->fault, sizeof source->fault, "%s: ", source->name);
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(source->fault + n, sizeof source->fault - (size_t)n, form, arguments);
    va_end(arguments);
    return -1;
}
