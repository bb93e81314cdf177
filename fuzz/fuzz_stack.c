// made by: fuzz/make_stack.py
/* Fuzzes the whole generated tcp_ip stack with every event hooked: packets of any link type, length and time, small
 * tables and little memory. After each input the counters must conserve, every instance have ended, and all held
 * memory be back. Run: scripts/fuzz.sh fuzz_stack
 *
 * An input is 4 bytes of settings (instances, memory, timeouts, idle), then packets: link type (1 byte, the highest
 * bit: processed together with the next one), time step (1), captured length (2, little endian), what the wire
 * length has above it (2), and the bytes. */
#include "tcp_ip.c"
#include "expect.h"

static const uint16_t link_types[] = {1, 113, 276, 0, 108, 101, 12, 228};

enum { MOST_COUNTERS = 4096, MOST_TOGETHER = 8 };

/* Of each counter: the counter of its layer's packets when it is an outcome, of its instances when it is an end. */
static int outcome_of[MOST_COUNTERS], end_of[MOST_COUNTERS];

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static int counter(const char *layer, const char *name) {
    for (unsigned i = 0; i < tcp_ip_counter_count; i++)
        if (strcmp(tcp_ip_counters[i].layer, layer) == 0 && strcmp(tcp_ip_counters[i].name, name) == 0)
            return (int)i;
    return -1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    EXPECT(tcp_ip_counter_count <= MOST_COUNTERS);
    for (unsigned i = 0; i < tcp_ip_counter_count; i++) {
        const char *layer = tcp_ip_counters[i].layer, *name = tcp_ip_counters[i].name;
        bool outcome = !strcmp(name, "passed") || !strcmp(name, "ended") || !strcmp(name, "held") ||
                       begins(name, "cut:") || begins(name, "malformed:") || begins(name, "dropped:");
        outcome_of[i] = outcome ? counter(layer, "packets") : -1;
        end_of[i] = begins(name, "ended:") ? counter(layer, "instances") : -1;
    }
    return 0;
}

/* Outcomes and packets, ends and instances: the same sums, counter by counter. */
static void check(const struct sl_box *box) {
    int64_t open[MOST_COUNTERS] = {0};
    for (unsigned i = 0; i < tcp_ip_counter_count; i++) {
        const char *name = tcp_ip_counters[i].name;
        int64_t value = (int64_t)box->counters[i];
        if (outcome_of[i] >= 0)
            open[outcome_of[i]] -= value;
        if (end_of[i] >= 0)
            open[end_of[i]] -= value;
        if (!strcmp(name, "instances") || (!strcmp(name, "packets") && strcmp(tcp_ip_counters[i].layer, "box")))
            open[i] += value;
    }
    for (unsigned i = 0; i < tcp_ip_counter_count; i++)
        EXPECT(open[i] == 0);
    EXPECT(box->pool.used == 0);
    EXPECT(box->depth == 0);
}

/* Each packet lies in memory of its own that is given back once it is processed. */
static void process(struct sl_box *box, struct sl_frame *frames, size_t count) {
    tcp_ip_process(box, frames, count, NULL);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)frames[i].at);
}

int LLVMFuzzerTestOneInput(const uint8_t *at, size_t size) {
    if (size < 4)
        return 0;
    struct sl_options options = {
        .seed = 1,
        .memory = (uint64_t)1 << (10 + at[1] % 12),
        .max_instances = 1 + at[0] % 32,
        .timeouts = at[2] & 1,
        .idle = at[3] / 8.0,
    };
    struct sl_box *box = tcp_ip_open(&options);
    EXPECT(box);
    at += 4, size -= 4;
    struct sl_frame frames[MOST_TOGETHER];
    size_t together = 0;
    uint64_t time = UINT64_C(1700000000000000000), number = 0;
    while (size >= 6) {
        uint8_t kind = at[0], step = at[1];
        uint32_t captured = (uint32_t)sl_load_le16(at + 2), more = (uint32_t)sl_load_le16(at + 4);
        at += 6, size -= 6;
        captured = (uint32_t)sl_min(captured, size);
        uint8_t *bytes = malloc(captured);   /* of 0 bytes: any access is a finding */
        EXPECT(bytes || captured == 0);
        if (captured)
            memcpy(bytes, at, captured);
        at += captured, size -= captured;
        /* mostly a little later; up to hours, some back */
        time = step == 255 ? UINT64_MAX : step >= 224 ? time - ((uint64_t)step << 22) : time + ((uint64_t)1 << step % 48);
        uint16_t link_type = kind & 0x40 ? kind : link_types[kind % (sizeof link_types / sizeof *link_types)];
        frames[together++] = (struct sl_frame){.at = bytes, .captured = captured, .length = captured + more, .time = time,
                                                 .link_type = link_type, .number = ++number};
        if (together == MOST_TOGETHER || !(kind & 0x80)) {
            process(box, frames, together);
            together = 0;
        }
    }
    process(box, frames, together);
    EXPECT(box->counters[counter("box", "packets")] == number);
    tcp_ip_finish(box);
    check(box);
    tcp_ip_close(box);
    return 0;
}
