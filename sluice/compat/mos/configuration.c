/* The configuration file: `item = value` lines and blocks of them, as docs/mos.md lists. */
#include "monitor.h"

#include <ctype.h>
#include <errno.h>
#include <unistd.h>


struct reading {
    const char *path;
    unsigned line;
    bool failed;
    bool monitors, end_hosts;   /* kinds of applications */
    uint64_t cpu_mask;          /* of all applications */
};

static int wrong(struct reading *r, const char *what, const char *text)
{
    fprintf(stderr, "libsluice_mos: %s:%u: %s '%s'\n", r->path, r->line, what, text);
    r->failed = true;
    return -1;
}

static int number(struct reading *r, const char *text, int least)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 0);
    if (errno || end == text || *end || value < least || value > INT32_MAX)
        return wrong(r, "no number, or none that makes sense here:", text);
    return (int)value;
}

static uint64_t mask(struct reading *r, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || *end) {
        wrong(r, "no mask of processors:", text);
        return 0;
    }
    return value;
}

static struct mos_device *add_device(struct reading *r, const char *name)
{
    struct mos_device *made = mos_device_add(name);
    if (!made)
        wrong(r, "too many devices:", name);
    return made;
}

static void item(struct reading *r, const char *name, const char *value)
{
    struct mtcp_conf *conf = &mos_configuration.conf;
    static const char *const others[] = {"run", "ip_forward", "nb_mem_channels", "mos_log",
                                         "stat_print", "port", "multiprocess"};
    if (strcmp(name, "max_concurrency") == 0)
        conf->max_concurrency = number(r, value, 1);
    else if (strcmp(name, "rmem_size") == 0)
        conf->rcvbuf_size = number(r, value, 0);
    else if (strcmp(name, "wmem_size") == 0)
        conf->sndbuf_size = number(r, value, 0);
    else if (strcmp(name, "tcp_tw_interval") == 0)
        conf->tcp_tw_interval = conf->tcp_timewait = number(r, value, 0);
    else if (strcmp(name, "tcp_timeout") == 0)
        conf->tcp_timeout = strcmp(value, "-1") == 0 ? -1 : number(r, value, 0);
    else if (strcmp(name, "forward") == 0)
        mos_configuration.forward = number(r, value, 0) != 0;
    else if (strcmp(name, "no_ring_buffers") == 0)
        mos_configuration.no_ring_buffers = number(r, value, 0) != 0;
    else if (strcmp(name, "cpu_mask") == 0 || strcmp(name, "core_mask") == 0)
        r->cpu_mask |= mask(r, value);
    else if (strcmp(name, "type") == 0) {
        r->monitors = r->monitors || strcmp(value, "end") != 0;
        r->end_hosts = r->end_hosts || strcmp(value, "end") == 0;
    } else {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (strcmp(name, others[i]) == 0)
                return;   /* of end hosts, or of features that a capture lacks */
        wrong(r, "there is no item", name);
    }
}

/* A line of a block whose lines are no items. */
static void row(struct reading *r, const char *block, const char *first, const char *second)
{
    if (strcmp(block, "netdev") == 0) {
        if (!mos_device_named(first))
            add_device(r, first);
    } else if (strcmp(block, "nic_forward_table") == 0) {
        struct mos_device *from = mos_device_named(first);
        if (!*second)
            wrong(r, "a device and where its packets go to, not only", first);
        else if ((from = from ? from : add_device(r, first)) && !from->to)
            from->to = strdup(second);
    } else if (strcmp(block, "arp_table") != 0 && strcmp(block, "route_table") != 0) {
        wrong(r, "no item = value, in a block of such:", first);
    }
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]); *end = 0)
        end--;
    return text;
}

/* A piece between braces and line ends. */
static void piece(struct reading *r, const char *block, char *text)
{
    char *equals = strchr(text, '=');
    text = trimmed(text);
    if (!*text)
        return;
    if (equals) {
        *equals = 0;
        item(r, trimmed(text), trimmed(equals + 1));
        return;
    }
    char *second = text + strcspn(text, " \t");
    if (*second)
        *second++ = 0;
    row(r, block, text, trimmed(second));
}

enum { DEEPEST = 8 };

static void lines(struct reading *r, FILE *file)
{
    char text[4096], blocks[DEEPEST][64] = {""};
    int depth = 0;
    while (fgets(text, sizeof text, file)) {
        r->line++;
        text[strcspn(text, "#\n")] = 0;
        char *begin = text;
        for (char *at = text;; at++) {
            char mark = *at;
            if (mark && mark != '{' && mark != '}')
                continue;
            *at = 0;
            if (mark == '{') {
                if (depth + 1 == DEEPEST) {
                    wrong(r, "too many blocks within each other at", trimmed(begin));
                    return;
                }
                snprintf(blocks[++depth], sizeof *blocks, "%s", trimmed(begin));
            } else {
                piece(r, blocks[depth], begin);
            }
            if (mark == '}' && depth-- == 0) {
                wrong(r, "a block ends that has not begun:", "}");
                return;
            }
            if (!mark)
                break;
            begin = at + 1;
        }
    }
    if (depth)
        wrong(r, "the file ends within block", blocks[depth]);
}

/* Devices given by the environment replace those of the file, so that it need not be changed. */
static void from_environment(void)
{
    const char *read = getenv("SLUICE_MOS_READ"), *write = getenv("SLUICE_MOS_WRITE");
    struct reading r = {.path = "SLUICE_MOS_READ"};
    if (read && *read) {
        for (int i = 0; i < mos_configuration.device_count; i++) {
            free(mos_configuration.devices[i].name);
            free(mos_configuration.devices[i].to);
        }
        mos_configuration.device_count = 0;
        char *all = strdup(read), *rest = all;
        for (char *name; rest && (name = strsep(&rest, ","));)
            add_device(&r, name);
        free(all);
    }
    for (int i = 0; write && *write && i < mos_configuration.device_count; i++) {
        if (mos_is_interface(write) && strcmp(mos_configuration.devices[i].name, write) == 0)
            continue;   /* both ways, see configured_devices.c */
        free(mos_configuration.devices[i].to);
        mos_configuration.devices[i].to = strdup(write);
        mos_configuration.forward = true;
    }
}

int mos_configuration_read(const char *path)
{
    mos_configuration_free();
    mos_configuration.conf = (struct mtcp_conf){.num_cores = 1, .cpu_mask = 1, .max_concurrency = 100000, .max_num_buffers = 100000,
                                                .rcvbuf_size = 8192, .sndbuf_size = 8192, .tcp_timeout = 30};
    mos_configuration.conf.num_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    mos_configuration.forward = true;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "libsluice_mos: %s: %s\n", path ? path : "no configuration file", strerror(path ? errno : EINVAL));
        return -1;
    }
    struct reading r = {.path = path};
    lines(&r, file);
    fclose(file);
    from_environment();
    if (r.cpu_mask)
        mos_configuration.conf.cpu_mask = r.cpu_mask;
    mos_configuration.end_host = r.end_hosts && !r.monitors && !getenv("SLUICE_MOS_READ");
    return r.failed ? -1 : mos_devices_check();
}

void mos_configuration_free(void)
{
    for (int i = 0; i < mos_configuration.device_count; i++) {
        free(mos_configuration.devices[i].name);
        free(mos_configuration.devices[i].to);
    }
    mos_configuration = (struct mos_configuration){0};
}
