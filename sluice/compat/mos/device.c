/* Devices: capture files and interfaces, from which packets are read, and to which they are forwarded. */
#include "monitor.h"

/* Capture files that packets are forwarded to, which runs share. */
static struct file {
    const char *name;              /* the configuration's */
    struct sl_writer *writer;
    uint64_t refused;              /* packets that could not be written: of another link type, or no room */
    bool failed;                   /* it could not be opened */
} files[MOS_DEVICES];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

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
        const struct sl_source_options options = {.forwarding = input->live && input->forwards};
        if (sl_source_open(&input->source, uri, &options, message, sizeof message))
            fprintf(stderr, "libsluice_mos: %s\n", message);
        else
            input_count++;
    }
    *out = inputs;
    return input_count;
}

/* Lost packets are reported, as a reason why a monitor may have seen half of a flow. */
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

/* With the lock. */
static struct file *open_file(const char *name, uint32_t link_type)
{
    struct file *file = files;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    char message[SL_SOURCE_MESSAGE];
    file->name = name;
    if (!file->writer && !file->failed) {
        file->failed = sl_writer_open(&file->writer, name, link_type, 0, message, sizeof message) != 0;
        if (file->failed)
            fprintf(stderr, "libsluice_mos: %s\n", message);
    }
    return file->failed ? NULL : file;
}

static struct file *file_of(const char *name, uint32_t link_type)
{
    pthread_mutex_lock(&writing);
    struct file *file = open_file(name, link_type);
    pthread_mutex_unlock(&writing);
    return file;
}

static struct sl_source *interface_of(const char *name)
{
    char message[SL_SOURCE_MESSAGE], uri[512];
    struct sl_source *interface = NULL;
    snprintf(uri, sizeof uri, "af_packet:%s", name);
    if (sl_source_create(&interface, uri, NULL, message, sizeof message) == 0)
        return interface;
    fprintf(stderr, "libsluice_mos: %s\n", message);
    return NULL;
}

/* The output of a device's packets, opened if it is not yet; NULL without one. */
static struct mos_output *output_for(struct mos_outputs *outputs, int device, uint32_t link_type)
{
    if (device < 0 || device >= mos_configuration.device_count)
        return NULL;
    struct mos_output *output = &outputs->by_device[device];
    const char *to = mos_configuration.forward ? mos_configuration.devices[device].to : NULL;
    if (!output->tried && to) {
        output->tried = true;
        if (mos_is_interface(to))
            output->interface = interface_of(to);
        else
            output->file = file_of(to, link_type);
    }
    return output->file || output->interface ? output : NULL;
}

bool mos_forwards(struct mos_outputs *outputs, int device, uint32_t link_type)
{
    return output_for(outputs, device, link_type) != NULL;
}

static int write_file(struct file *file, const struct sl_frame *frame)
{
    pthread_mutex_lock(&writing);
    const int result = sl_writer_write(file->writer, frame) ? -1 : 0;
    if (result && !file->refused++)
        fprintf(stderr, "libsluice_mos: %s: %s\n", file->name, sl_writer_fault(file->writer));
    pthread_mutex_unlock(&writing);
    return result;
}

int mos_output(struct mos_outputs *outputs, int device, const struct sl_frame *frame)
{
    struct mos_output *output = output_for(outputs, device, frame->link_type);
    if (!output)
        return -1;
    if (output->file)
        return write_file(output->file, frame);
    if (sl_source_send(output->interface, frame, 1) == 1)
        return 0;
    if (!output->refused++)
        fprintf(stderr, "libsluice_mos: %s\n", sl_source_fault(output->interface));
    return -1;
}

static void say_refused(const char *name, uint64_t refused)
{
    if (refused > 1)   /* the first was reported */
        fprintf(stderr, "libsluice_mos: %s: %llu packets could not be sent\n", name, (unsigned long long)refused);
}

void mos_outputs_close(struct mos_outputs *outputs)
{
    for (int device = 0; device < MOS_DEVICES; device++) {
        struct mos_output *output = &outputs->by_device[device];
        say_refused(mos_configuration.devices[device].to, output->refused);
        if (output->interface)
            sl_source_close(output->interface, NULL, 0);
        *output = (struct mos_output){0};
    }
}

void mos_files_close(void)
{
    for (struct file *file = files; file < files + MOS_DEVICES; file++) {
        char message[SL_CAPTURE_MESSAGE];
        say_refused(file->name, file->refused);
        if (sl_writer_close(file->writer, message, sizeof message))
            fprintf(stderr, "libsluice_mos: %s\n", message);
        *file = (struct file){0};
    }
}
