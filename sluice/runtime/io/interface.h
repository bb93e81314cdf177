/* Properties of network interfaces. */
#ifndef SL_IO_INTERFACE_H
#define SL_IO_INTERFACE_H

#include "io/source.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* The LINKTYPE_ of a device type (ARPHRD_) of the kernel; -1 if unknown. */
static inline int sl_link_type_of(unsigned hardware)
{
    switch (hardware) {
    case ARPHRD_ETHER:
    case ARPHRD_LOOPBACK: return 1;
    case ARPHRD_TUNNEL:
    case ARPHRD_TUNNEL6:
    case ARPHRD_SIT:
    case ARPHRD_IPGRE:
    case 519:               /* ARPHRD_RAWIP */
    case 0xfffe: return 101;   /* ARPHRD_NONE: TUN devices, WireGuard */
    case ARPHRD_IEEE80211: return 105;
    case ARPHRD_IEEE80211_PRISM: return 119;
    case ARPHRD_IEEE80211_RADIOTAP: return 127;
    default: return -1;
    }
}

static inline uint64_t sl_read_counter(const char *interface, const char *counter)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%.32s/statistics/%s", interface, counter);
    FILE *file = fopen(path, "re");
    uint64_t value = 0;
    if (file && fscanf(file, "%" SCNu64, &value) != 1)
        value = 0;
    if (file)
        fclose(file);
    return value;
}

/* A counter of an interface, which begins at 0 again where the interface is made again. Nothing of it can be read once the
 * interface is removed: what was read last remains. */
struct sl_interface_counter { uint64_t before, last, earlier; };

/* The interface has this value now; `value` is 0 where there is no interface. */
static inline void sl_interface_counter_set(struct sl_interface_counter *counter, uint64_t value)
{
    if (value > counter->last)
        counter->last = value;
}

/* Counts from this value on, that of an interface which was opened now. */
static inline void sl_interface_counter_begin(struct sl_interface_counter *counter, uint64_t value)
{
    counter->earlier += counter->last - counter->before;
    counter->before = counter->last = value;
}

/* What was counted. */
static inline uint64_t sl_interface_counted(const struct sl_interface_counter *counter)
{
    return counter->earlier + counter->last - counter->before;
}

/* ioctl with the name of an interface in its request. control: any socket. Returns 0; or -1, with errno. */
static inline int sl_interface_ioctl(int control, const char *interface, unsigned long number, struct ifreq *request)
{
    size_t length = strlen(interface);
    if (length >= sizeof request->ifr_name) {
        errno = ENODEV;
        return -1;
    }
    memcpy(request->ifr_name, interface, length + 1);
    return ioctl(control, number, request);
}

/* The same for a request of ethtool. */
static inline int sl_interface_ethtool(int control, const char *interface, void *data)
{
    struct ifreq request = {.ifr_data = data};
    return sl_interface_ioctl(control, interface, SIOCETHTOOL, &request);
}

/* Whether an interface is down. control: any socket. */
static inline bool sl_is_down(int control, const char *interface)
{
    struct ifreq request = {0};
    return sl_interface_ioctl(control, interface, SIOCGIFFLAGS, &request) == 0 && !(request.ifr_flags & IFF_UP);
}

/* Whether an interface is up. control: any socket. */
static inline bool sl_is_up(int control, const char *interface)
{
    struct ifreq request = {0};
    return sl_interface_ioctl(control, interface, SIOCGIFFLAGS, &request) == 0 && request.ifr_flags & IFF_UP;
}

/* Examines the interface of a source, which must be up. control: any socket. Returns 0, with its device type (ARPHRD_); or -1,
 * with the fault. */
static inline int sl_interface_examine(struct sl_source *source, int control, unsigned *type)
{
    struct ifreq request = {0};
    if (sl_interface_ioctl(control, source->name, SIOCGIFFLAGS, &request))
        return sl_source_fail(source, "cannot be examined: %s", strerror(errno));
    if (!(request.ifr_flags & IFF_UP))
        return sl_source_fail(source, "the interface is down (`ip link set %s up`)", source->name);
    if (sl_interface_ioctl(control, source->name, SIOCGIFHWADDR, &request))
        return sl_source_fail(source, "cannot be examined: %s", strerror(errno));
    *type = request.ifr_hwaddr.sa_family;
    return 0;
}

/* Whether an interface is an end of a veth pair: its peer is on this machine, and leaves checksums to a card that does not
 * exist. control: any socket. */
static inline bool sl_is_veth(int control, const char *interface)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    return sl_interface_ethtool(control, interface, &driver) == 0 && strcmp(driver.driver, "veth") == 0;
}

#endif
