/* Filters in pcap's syntax, by libpcap's own compiler. It is loaded when the first filter is bound, so that programs
 * without filters need none of it. */
#include "monitor.h"

#include <dlfcn.h>

/* As pcap/pcap.h has them. */
struct bpf_program { unsigned bf_len; void *bf_insns; };
struct pcap_pkthdr { struct timeval ts; uint32_t caplen, len; };

static struct {
    void *library;
    void *(*open_dead)(int link_type, int snap_length);
    int (*compile)(void *pcap, struct bpf_program *program, const char *text, int optimize, uint32_t netmask);
    int (*offline_filter)(const struct bpf_program *program, const struct pcap_pkthdr *header, const uint8_t *packet);
    char *(*geterr)(void *pcap);
    void (*freecode)(struct bpf_program *program);
    void (*close)(void *pcap);
} pcap;

static bool find(void *place, const char *name)
{
    void *found = dlsym(pcap.library, name);
    memcpy(place, &found, sizeof found);
    return found != NULL;
}

static bool load(void)
{
    if (pcap.library)
        return true;
    static const char *const names[] = {"libpcap.so.0.8", "libpcap.so.1", "libpcap.so"};
    for (size_t i = 0; !pcap.library && i < sizeof names / sizeof *names; i++)
        pcap.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (pcap.library && find(&pcap.open_dead, "pcap_open_dead") && find(&pcap.compile, "pcap_compile") &&
        find(&pcap.offline_filter, "pcap_offline_filter") && find(&pcap.geterr, "pcap_geterr") &&
        find(&pcap.freecode, "pcap_freecode") && find(&pcap.close, "pcap_close"))
        return true;
    fputs("libsluice_mos: filters need libpcap: install it (Debian: libpcap0.8)\n", stderr);
    pcap.library = NULL;
    return false;
}

/* A filter is compiled for each link type that packets have. */
struct compiled {
    uint32_t link_type;
    bool works;
    struct bpf_program program;
    struct compiled *next;
};

struct mos_filter {
    struct compiled *compiled;
    char text[];
};

/* pcap's own number of a link type: of raw IP it is another one than in files. */
static int link_of(uint32_t link_type) { return link_type == 101 ? 12 : (int)link_type; }

static struct compiled *compile(struct mos_filter *filter, uint32_t link_type, bool say)
{
    struct compiled *made = calloc(1, sizeof *made);
    void *dead = made ? pcap.open_dead(link_of(link_type), MOS_FRAME_MOST) : NULL;
    if (!dead) {
        free(made);
        return NULL;
    }
    made->link_type = link_type;
    made->works = pcap.compile(dead, &made->program, filter->text, 1, UINT32_MAX) == 0;
    if (!made->works && say)
        fprintf(stderr, "libsluice_mos: filter '%s': %s\n", filter->text, pcap.geterr(dead));
    pcap.close(dead);
    made->next = filter->compiled;
    filter->compiled = made;
    return made;
}

struct mos_filter *mos_filter_new(const char *expression)
{
    if (!load())
        return NULL;
    struct mos_filter *filter = calloc(1, sizeof *filter + strlen(expression) + 1);
    if (!filter)
        return NULL;
    strcpy(filter->text, expression);
    const struct compiled *made = compile(filter, 1, true);
    if (!made || !made->works) {
        mos_filter_free(filter);
        return NULL;
    }
    return filter;
}

bool mos_filter_accepts(struct mos_filter *filter, const struct sl_frame *frame)
{
    if (!filter)
        return true;
    struct compiled *made = filter->compiled;
    while (made && made->link_type != frame->link_type)
        made = made->next;
    if (!made)
        made = compile(filter, frame->link_type, true);
    const struct pcap_pkthdr header = {{0, 0}, frame->captured, frame->length};
    return made && made->works && pcap.offline_filter(&made->program, &header, frame->at);
}

void mos_filter_free(struct mos_filter *filter)
{
    if (!filter)
        return;
    for (struct compiled *made = filter->compiled, *next; made; made = next) {
        next = made->next;
        if (made->works)
            pcap.freecode(&made->program);
        free(made);
    }
    free(filter);
}
