/* Devices: inputs, outputs, and the configuration that names them. */
#ifndef MOS_DEVICES_H
#define MOS_DEVICES_H

#include "mos_api.h"

#include "io/capture.h"
#include "io/source.h"
#include "io/writer.h"

enum { MOS_DEVICES = 64 };

/* --- devices (device.c) --- */

struct mos_input {
    struct sl_source *source;
    int device;
    bool live, forwards;
};

unsigned mos_inputs_open(struct mos_input **out);   /* those that can be: how many, with a message for each of the others */
void mos_inputs_report(bool stopped);               /* losses; unless it was stopped, also their errors */

/* Where a run's packets are forwarded to, by the device that they came from. */
struct mos_output {
    struct file *file;             /* shared by all runs; or */
    struct sl_source *interface;   /* the run's own */
    uint64_t refused;              /* packets that the interface did not accept: too long, or no room */
    bool tried;                    /* to open it */
};
struct mos_outputs { struct mos_output by_device[MOS_DEVICES]; };

/* Writes a frame to where packets of a device are forwarded to; -1 when they are not. */
int mos_output(struct mos_outputs *outputs, int device, const struct sl_frame *frame);

/* Are they? Opens it: there is a file even if all are dropped. */
bool mos_forwards(struct mos_outputs *outputs, int device, uint32_t link_type);
void mos_outputs_close(struct mos_outputs *outputs);
void mos_files_close(void);                         /* those that all runs have written to */

/* --- configuration (configuration.c, configured_devices.c) --- */

struct mos_device {
    char *name;   /* of a capture file or an interface */
    char *to;     /* the one that its packets are forwarded to, or NULL */
    bool live;    /* an interface */
};

struct mos_configuration {
    struct mtcp_conf conf;
    bool forward, no_ring_buffers;
    bool end_host;                /* all applications are: it needs no device */
    struct mos_device devices[MOS_DEVICES];
    int device_count;
};

extern struct mos_configuration mos_configuration;
int mos_configuration_read(const char *path);
void mos_configuration_free(void);
struct mos_device *mos_device_named(const char *name);   /* NULL: none */
struct mos_device *mos_device_add(const char *name);     /* NULL: there are too many */
bool mos_devices_forward(void);                          /* do packets of any leave at another one? */
int mos_devices_check(void);                             /* -1, with a message: one can be neither read nor written */
bool mos_is_interface(const char *name);

#endif
