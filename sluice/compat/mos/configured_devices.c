/* The devices that a configuration names: which are read, which are written, and whether they can be. */
#include "monitor.h"

#include <net/if.h>
#include <sys/stat.h>

struct mos_configuration mos_configuration;

struct mos_device *mos_device_named(const char *name)
{
    for (int i = 0; i < mos_configuration.device_count; i++)
        if (strcmp(mos_configuration.devices[i].name, name) == 0)
            return &mos_configuration.devices[i];
    return NULL;
}

struct mos_device *mos_device_add(const char *name)
{
    if (mos_configuration.device_count == MOS_DEVICES)
        return NULL;
    struct mos_device *made = &mos_configuration.devices[mos_configuration.device_count++];
    *made = (struct mos_device){strdup(name), NULL, false};
    return made;
}

bool mos_devices_forward(void)
{
    for (int i = 0; i < mos_configuration.device_count; i++)
        if (mos_configuration.forward && mos_configuration.devices[i].to)
            return true;
    return false;
}

/* The target of forwarding is written: it is not read, unless it forwards itself. */
static bool is_output(const struct mos_device *d)
{
    if (mos_is_interface(d->name))
        return false;   /* it is both */
    for (int i = 0; i < mos_configuration.device_count; i++)
        if (!d->to && mos_configuration.devices[i].to && strcmp(mos_configuration.devices[i].to, d->name) == 0)
            return true;
    return false;
}

bool mos_is_interface(const char *name)
{
    return strlen(name) < IF_NAMESIZE && (strcmp(name, "any") == 0 || if_nametoindex(name));
}

static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* A device is a capture file, to which nothing is written, or an interface. */
static int check_device(struct mos_device *d)
{
    struct stat status;
    if (stat(d->name, &status) || !S_ISREG(status.st_mode)) {
        d->live = mos_is_interface(d->name);
        if (d->live || mos_configuration.end_host)
            return 0;   /* end hosts use the kernel's interfaces, whichever cards the file names */
        fprintf(stderr, "libsluice_mos: device '%s' is no capture file and no interface: name one in netdev, "
                        "or in SLUICE_MOS_READ\n", d->name);
        return -1;
    }
    for (int i = 0; i < mos_configuration.device_count; i++) {
        const char *to = mos_configuration.devices[i].to;
        if (to && same_file(to, d->name)) {
            fprintf(stderr, "libsluice_mos: '%s' is read, and packets forwarded to it would overwrite it: forward to another file\n", to);
            return -1;
        }
    }
    return 0;
}

/* Between interfaces packets go both ways, as in mOS, and both are read. */
static void bridge(void)
{
    for (int i = 0; i < mos_configuration.device_count; i++) {
        const char *to = mos_configuration.devices[i].to;
        if (!to || !mos_is_interface(to) || !mos_is_interface(mos_configuration.devices[i].name))
            continue;
        struct mos_device *other = mos_device_named(to);
        if (!other)
            other = mos_device_add(to);
        if (!other)
            fprintf(stderr, "libsluice_mos: nic_forward_table: too many devices: '%s'\n", to);
        else if (!other->to)
            other->to = strdup(mos_configuration.devices[i].name);
    }
}

int mos_devices_check(void)
{
    bridge();
    bool output[MOS_DEVICES];
    int count = mos_configuration.device_count, kept = 0;
    for (int i = 0; i < count; i++)
        output[i] = is_output(&mos_configuration.devices[i]);
    for (int i = 0; i < count; i++) {
        struct mos_device d = mos_configuration.devices[i];
        if (output[i])
            free(d.name);
        else
            mos_configuration.devices[kept++] = d;
    }
    mos_configuration.device_count = kept;
    for (int i = 0; i < kept; i++)
        if (check_device(&mos_configuration.devices[i]))
            return -1;
    return 0;
}
