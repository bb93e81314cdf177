// made by: fuzz/make_service.py
// The Memcached router over channels in memory: any bytes from a client and from two backends, at any cut. An instance ends
// or fails, gives all buffers back, and sends no byte that it did not receive.
#include "../sluice/service/runtime/instance.c"
#include "../tests/service/trial.c"
#include "service_program.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t counts[] = {1, 2};
    struct trial *trial;
    uint64_t given = 0, sent = 0, length;
    size_t half;

    if (size < 2)
        return 0;
    trial = trial_make(counts, 64 + data[1], 1 + data[0]);
    data += 2;
    size -= 2;
    half = size / 2;
    trial_give(trial, 0, data, (uint32_t)half, true);
    trial_give(trial, 1, data + half, (uint32_t)((size - half) / 2), true);
    trial_give(trial, 2, data + half + (size - half) / 2, (uint32_t)(size - half - (size - half) / 2), true);
    if (trial_run(trial) != SERVICE_DEAD)
        abort(); /* all has come: nothing is to be waited for */
    for (uint32_t channel = 0; channel < 3; channel++) {
        trial_sent(trial, channel, &length);
        sent += length;
        given += trial->ends[channel].given_length;
    }
    if (sent > given || (!trial_fault(trial) && sent != given))
        abort();
    for (uint32_t channel = 0; channel < 3; channel++)
        service_io_close(&trial->instance->channels[channel]);
    if (trial_buffers(trial) != 0)
        abort();
    trial_free(trial);
    return 0;
}
