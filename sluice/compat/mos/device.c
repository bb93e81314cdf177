/* Devices: capture files and interfaces, which packets come from and are forwarded to. */
#include "monitor.h"

enum { SENDING_RING = 2 << 20 };   /* bytes of the receive ring of an interface that is only sent to: the least there is */

static struct output {
    const char *name;              /* the configuration's */
    struct sl_writer *writer;      /* a capture file; or */
    struct sl_source *interface;   /* an interface, */
    bool own;                      /* which no packets are received from */
    uint64_t refused;              /* packets that could not be written or sent: of another link type, too long, no room */
    bool failed;                   /* it could not be opened */
} outputs[MOS_DEVICES], *by_device[MOS_DEVICES];

static struct mos_input inputs[MOS_DEVICES];
static unsigned input_count;

/* --- in --- */

unsigned mos_inputs_open(struct mos_input **out)
{
    char message[SL_SOURCE_MESSAGE], uri[512];
    input_count = 0;
    for (int device = 0; device < mos_configuration.device_count; device++) {
        const struct mos_device *d = &mos_configuration.devices[device];
        struct mos_input *input = &inputs[input_count];
        snprintf(uri, sizeof uri, "%s%s", d->live ? "af_packet:" : "", d->name);
        *input = (struct mos_input){.device = device, .live = d->live, .forwards = d->to != NULL};
        if (sl_source_open(&input->source, uri, NULL, message, sizeof message))
            fprintf(stderr, "libsluice_mos: %s\n", message);
        else
            input_count++;
    }
    *out = inputs;
    return input_count;
}

/* What was not received is said: a monitor that has seen half of a flow should know why. */
void mos_inputs_report(bool stopped)
{
    for (unsigned i = 0; i < input_count; i++) {
        struct sl_source_statistics statistics = {0};
        const char *name = mos_configuration.devices[inputs[i].device].name;
        if (!stopped && sl_source_fault(inputs[i].source))
            fprintf(stderr, "libsluice_mos: %s\n", sl_source_fault(inputs[i].source));
        sl_source_statistics(inputs[i].source, &statistics);
        if (statistics.dropped_kernel || statistics.dropped_interface)
            fprintf(stderr, "libsluice_mos: %s: %llu packets received, %llu dropped by the kernel, %llu by the interface\n",
                    name,
                    (unsigned long long)statistics.packets, (unsigned long long)statistics.dropped_kernel,
                    (unsigned long long)statistics.dropped_interface);
    }
}

/* --- out --- */

static struct sl_source *input_of(const char *name)
{
    for (unsigned i = 0; i < input_count; i++)
        if (inputs[i].live && strcmp(mos_configuration.devices[inputs[i].device].name, name) == 0)
            return inputs[i].source;
    return NULL;
}

static int open_output(struct output *output, uint32_t link_type, char *message, size_t size)
{
    if (!mos_is_interface(output->name))
        return sl_writer_open(&output->writer, output->name, link_type, 0, message, size);
    output->interface = input_of(output->name);
    if (output->interface)
        return 0;
    const struct sl_source_options options = {.ring_bytes = SENDING_RING, .no_promiscuous = true, .snap_length = 1};
    char uri[512];
    snprintf(uri, sizeof uri, "af_packet:%s", output->name);
    output->own = true;
    return sl_source_open(&output->interface, uri, &options, message, size);
}

static struct output *output_of(const char *name)
{
    for (struct output *output = outputs; output < outputs + MOS_DEVICES; output++) {
        if (!output->name)
            output->name = name;
        if (strcmp(output->name, name) == 0)
            return output;
    }
    return NULL;
}

static struct output *find_output(int device)
{
    const char *name = mos_configuration.devices[device].to;
    return name && mos_configuration.forward ? output_of(name) : NULL;
}

/* Where packets of a device go, opened if it is not yet; NULL when they go nowhere. */
static struct output *output_for(int device, uint32_t link_type)
{
    if (device < 0 || device >= mos_configuration.device_count)
        return NULL;
    struct output *output = by_device[device] ? by_device[device] : find_output(device);
    if (!output || output->failed)
        return NULL;
    by_device[device] = output;
    char message[SL_SOURCE_MESSAGE];
    if (!output->writer && !output->interface && open_output(output, link_type, message, sizeof message)) {
        fprintf(stderr, "libsluice_mos: %s\n", message);
        output->failed = true;
        return NULL;
    }
    return output;
}

bool mos_forwards(int device, uint32_t link_type) { return output_for(device, link_type) != NULL; }

int mos_output(int device, const struct sl_frame *frame)
{
    struct output *output = output_for(device, frame->link_type);
    if (!output)
        return -1;
    bool sent = output->interface ? sl_source_send(output->interface, frame, 1) == 1
                                  : sl_writer_write(output->writer, frame) == 0;
    if (sent)
        return 0;
    if (!output->refused++)
        fprintf(stderr, "libsluice_mos: %s%s%s\n", output->interface ? "" : output->name, output->interface ? "" : ": ",
                output->interface ? sl_source_fault(output->interface) : sl_writer_fault(output->writer));
    return -1;
}

void mos_outputs_close(void)
{
    for (struct output *output = outputs; output < outputs + MOS_DEVICES; output++) {
        char message[SL_CAPTURE_MESSAGE];
        if (output->refused > 1)   /* of the first it was said */
            fprintf(stderr, "libsluice_mos: %s: %llu packets could not be sent\n", output->name,
                    (unsigned long long)output->refused);
        if (sl_writer_close(output->writer, message, sizeof message))
            fprintf(stderr, "libsluice_mos: %s\n", message);
        if (output->own)
            sl_source_close(output->interface, NULL, 0);
        *output = (struct output){0};
    }
    memset(by_device, 0, sizeof by_device);
}
