#define _GNU_SOURCE
#include "io/filter.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
    SNAP = 262144,
    LINK_TYPES = 16,   /* of one input: a capture can name 65,536, and each takes a program and time to compile it */
};

/* As pcap/pcap.h has them. */
struct bpf_program { unsigned bf_len; void *bf_insns; };
struct pcap_pkthdr { struct timeval ts; uint32_t caplen, len; };

/* A filter is compiled for each link type that packets have. */
struct compiled {
    uint16_t link_type;
    bool works;
    struct bpf_program program;
    struct compiled *next;
};

struct sl_filter {
    void *library;
    void *(*open_dead)(int link_type, int snap_length);
    int (*compile)(void *pcap, struct bpf_program *program, const char *text, int optimize, uint32_t netmask);
    int (*offline_filter)(const struct bpf_program *program, const struct pcap_pkthdr *header, const uint8_t *packet);
    char *(*geterr)(void *pcap);
    void (*freecode)(struct bpf_program *program);
    void (*close)(void *pcap);
    uint32_t snap_length;
    struct compiled *compiled;
    char text[];
};

static bool find(struct sl_filter *filter, void *place, const char *name)
{
    void *found = dlsym(filter->library, name);
    memcpy(place, &found, sizeof found);
    return found != NULL;
}

static bool load(struct sl_filter *filter)
{
    static const char *const names[] = {"libpcap.so.0.8", "libpcap.so.1", "libpcap.so"};
    for (size_t i = 0; !filter->library && i < sizeof names / sizeof *names; i++)
        filter->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return filter->library && find(filter, &filter->open_dead, "pcap_open_dead") &&
           find(filter, &filter->compile, "pcap_compile") && find(filter, &filter->offline_filter, "pcap_offline_filter") &&
           find(filter, &filter->geterr, "pcap_geterr") && find(filter, &filter->freecode, "pcap_freecode") &&
           find(filter, &filter->close, "pcap_close");
}

/* pcap's own number of a link type: that of raw IP differs from the one in files. */
static int link_of(uint16_t link_type) { return link_type == 101 ? 12 : link_type; }

/* NULL without memory. why: for the reason if the expression does not compile. */
static struct compiled *compile(struct sl_filter *filter, uint16_t link_type, char *why, size_t why_size)
{
    struct compiled *made = calloc(1, sizeof *made);
    void *dead = made ? filter->open_dead(link_of(link_type), (int)filter->snap_length) : NULL;
    if (!dead) {
        snprintf(why, why_size, "filter '%s': out of memory", filter->text);
        free(made);
        return NULL;
    }
    made->link_type = link_type;
    made->works = filter->compile(dead, &made->program, filter->text, 1, UINT32_MAX) == 0;
    if (!made->works)
        snprintf(why, why_size, "filter '%s': %s", filter->text, filter->geterr(dead));
    filter->close(dead);
    made->next = filter->compiled;
    filter->compiled = made;
    return made;
}

/* NULL without memory, and for more link types than LINK_TYPES. */
static struct compiled *compiled_for(struct sl_filter *filter, uint16_t link_type)
{
    struct compiled *made = filter->compiled;
    unsigned seen = 0;
    for (; made && made->link_type != link_type; made = made->next)
        seen++;
    return made || seen == LINK_TYPES ? made : compile(filter, link_type, NULL, 0);
}

struct sl_filter *sl_filter_open(const char *expression, uint32_t snap_length, char *why, size_t why_size)
{
    struct sl_filter *filter = calloc(1, sizeof *filter + strlen(expression) + 1);
    if (!filter) {
        snprintf(why, why_size, "filter '%s': out of memory", expression);
        return NULL;
    }
    strcpy(filter->text, expression);
    filter->snap_length = snap_length ? snap_length : SNAP;
    const struct compiled *made = NULL;
    if (load(filter))
        made = compile(filter, 1, why, why_size);
    else
        snprintf(why, why_size, "filters need libpcap: install it (Debian: libpcap0.8)");
    if (made && made->works)
        return filter;
    sl_filter_close(filter);
    return NULL;
}

bool sl_filter_accepts(struct sl_filter *filter, const struct sl_frame *frame)
{
    const struct compiled *made = compiled_for(filter, frame->link_type);
    const struct pcap_pkthdr header = {{0, 0}, frame->captured, frame->length};
    return made && made->works && filter->offline_filter(&made->program, &header, frame->at);
}

unsigned sl_filter_program(struct sl_filter *filter, uint16_t link_type, const void **instructions)
{
    const struct compiled *made = compiled_for(filter, link_type);
    if (!made || !made->works)
        return 0;
    *instructions = made->program.bf_insns;
    return made->program.bf_len;
}

void sl_filter_close(struct sl_filter *filter)
{
    if (!filter)
        return;
    for (struct compiled *made = filter->compiled, *next; made; made = next) {
        next = made->next;
        if (made->works)
            filter->freecode(&made->program);
        free(made);
    }
    if (filter->library)
        dlclose(filter->library);
    free(filter);
}
