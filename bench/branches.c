/* A model of a processor's branch predictor, fed with the instructions of a run: branches LIST ENTRY SKIP < TRACE
 *
 * TRACE is what valgrind's lackey says with --trace-mem=yes of bench/drive.c, LIST the branches of the library that this
 * runs, as lines of an address within the library in hexadecimal and a kind (c: conditional, i: indirect, u: another),
 * ENTRY the address there of the stack's `process`, and SKIP its calls by which the predictor learns before anything is
 * counted. Prints the calls that were counted, and for every branch its address and how often it was executed, taken and
 * not predicted.
 *
 * The model is TAGE (Seznec and Michaud, JILP 8, 2006): of twelve tables with tags, for histories of lengths in geometric
 * order, the one with the longest history that knows a branch predicts it. Indirect ones are predicted in the same way
 * (ITTAGE: Seznec, 2011). What a processor has is a relative of it, of about that size, and no better than a few percent. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TABLES = 12,
    INDEX_BITS = 11,
    TAG_BITS = 11,
    INDIRECT_BITS = 9,
    PLAIN_BITS = 14,
    HISTORY = 1024,        /* more than the longest, a power of two */
    LIBRARY = 1 << 22,     /* bytes of code, at most */
};

static const unsigned lengths[TABLES] = {4, 7, 11, 17, 26, 40, 62, 95, 146, 224, 340, 520};

/* --- history: the last bits, and what they are folded to for each table --- */

static struct {
    uint8_t bits[HISTORY];
    unsigned last;
    uint32_t index[TABLES], tag[TABLES], other_tag[TABLES], indirect[TABLES];
} history;

static void fold(uint32_t *folded, unsigned width, unsigned length, unsigned new, unsigned old)
{
    *folded = (*folded << 1 | new) ^ old << length % width;
    *folded = (*folded ^ *folded >> width) & ((1u << width) - 1);
}

static void remember(unsigned bit)
{
    history.last = (history.last + 1) % HISTORY;
    history.bits[history.last] = (uint8_t)(bit & 1);
    for (unsigned i = 0; i < TABLES; i++) {
        unsigned old = history.bits[(history.last - lengths[i]) % HISTORY];
        fold(&history.index[i], INDEX_BITS, lengths[i], bit & 1, old);
        fold(&history.tag[i], TAG_BITS, lengths[i], bit & 1, old);
        fold(&history.other_tag[i], TAG_BITS - 1, lengths[i], bit & 1, old);
        fold(&history.indirect[i], INDIRECT_BITS, lengths[i], bit & 1, old);
    }
}

static uint32_t place(uint32_t at, unsigned table, uint32_t folded, unsigned width)
{
    return (at ^ at >> width ^ at >> (table + 2) ^ folded) & ((1u << width) - 1);
}

/* Never 0, which no branch has. */
static uint32_t tag(uint32_t at, unsigned table)
{
    return 1 + ((at ^ at >> 5 ^ history.tag[table] ^ history.other_tag[table] << 1) & ((1u << TAG_BITS) - 1));
}

static bool chance(void)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 31;
}

/* --- conditional branches --- */

struct counter {
    uint16_t tag;
    int8_t taken;      /* -4 to 3: taken from 0 on */
    uint8_t useful;
};

static struct counter counters[TABLES][1 << INDEX_BITS];
static int8_t plain[1 << PLAIN_BITS];   /* -2 to 1 */

static void count(int8_t *counter, bool up, int least, int most)
{
    if (up ? *counter < most : *counter > least)
        *counter = (int8_t)(*counter + (up ? 1 : -1));
}

/* Is the branch predicted? Learns how it went. */
static bool foresees(uint32_t at, bool taken)
{
    struct counter *longest = NULL, *second = NULL;
    unsigned from = 0;   /* the tables with longer histories */
    for (unsigned i = TABLES; i-- > 0 && !second;) {
        struct counter *here = &counters[i][place(at, i, history.index[i], INDEX_BITS)];
        if (here->tag != tag(at, i))
            continue;
        if (longest) {
            second = here;
        } else {
            longest = here;
            from = i + 1;
        }
    }
    int8_t *without = &plain[(at ^ at >> PLAIN_BITS) & ((1u << PLAIN_BITS) - 1)];
    bool otherwise = second ? second->taken >= 0 : *without >= 0, predicted = otherwise;
    if (longest) {
        static int trust = 8;   /* 0 to 15: from 8 on what is new is not trusted */
        bool says = longest->taken >= 0, is_new = !longest->useful && (longest->taken == 0 || longest->taken == -1);
        predicted = is_new && trust >= 8 ? otherwise : says;
        if (is_new && says != otherwise)
            trust += otherwise == taken ? trust < 15 : -(trust > 0);
        if (says != otherwise) {
            if (says == taken)
                longest->useful += longest->useful < 3;
            else
                longest->useful -= longest->useful > 0;
        }
        if (!longest->useful && second)
            count(&second->taken, taken, -4, 3);
        else if (!longest->useful)
            count(without, taken, -2, 1);
        count(&longest->taken, taken, -4, 3);
    } else {
        count(without, taken, -2, 1);
    }
    if (predicted != taken && from < TABLES) {
        unsigned begun = 0, first = from + (from + 1 < TABLES && chance());
        for (unsigned i = first; i < TABLES && begun < 2; i++) {
            struct counter *free = &counters[i][place(at, i, history.index[i], INDEX_BITS)];
            if (free->useful)
                continue;
            *free = (struct counter){.tag = (uint16_t)tag(at, i), .taken = taken ? 0 : -1};
            begun++;
            i++;
        }
        for (unsigned i = first; i < TABLES && !begun; i++)
            counters[i][place(at, i, history.index[i], INDEX_BITS)].useful--;
    }
    return predicted == taken;
}

/* --- indirect branches --- */

static struct target {
    uint16_t tag;
    uint8_t sure;
    uint32_t to;
} targets[TABLES][1 << INDIRECT_BITS], plain_targets[1 << INDIRECT_BITS];

static bool foresees_target(uint32_t at, uint32_t to)
{
    struct target *found = &plain_targets[place(at, 0, 0, INDIRECT_BITS)], *without = found;
    unsigned from = 0;
    for (unsigned i = TABLES; i-- > 0 && found == without;) {
        struct target *here = &targets[i][place(at, i, history.indirect[i], INDIRECT_BITS)];
        if (here->tag == tag(at, i)) {
            found = here;
            from = i + 1;
        }
    }
    bool predicted = found->to == to;
    if (predicted)
        found->sure += found->sure < 3;
    else if (found->sure)
        found->sure--;
    else
        found->to = to;
    without->to = to;
    for (unsigned i = from + chance(); !predicted && i < TABLES; i++) {
        struct target *here = &targets[i][place(at, i, history.indirect[i], INDIRECT_BITS)];
        if (here->sure)
            continue;
        *here = (struct target){.tag = (uint16_t)tag(at, i), .to = to};
        break;
    }
    return predicted;
}

/* --- the run --- */

static struct branch {
    uint64_t executed, taken, wrong;
    uint32_t size;
    char kind;
} branches[LIBRARY];

static void went(struct branch *branch, uint32_t at, uint32_t to, bool counts)
{
    bool taken = to != at + branch->size, wrong = false;
    switch (branch->kind) {
    case 'c':
        wrong = !foresees(at, taken);
        remember(taken);
        if (taken)
            remember(at >> 1 ^ to >> 2 ^ to >> 5);
        break;
    case 'i':
        wrong = !foresees_target(at, to);
        for (unsigned bit = 2; bit <= 8; bit += 2)
            remember(to >> bit);
        break;
    default:
        remember(at >> 1 ^ to >> 2);
    }
    branch->executed += counts;
    branch->taken += counts && taken;
    branch->wrong += counts && wrong;
}

int main(int argc, char **argv)
{
    FILE *list = argc == 4 ? fopen(argv[1], "r") : NULL;
    if (!list) {
        fputs("usage: branches LIST ENTRY SKIP < TRACE\n", stderr);
        return 2;
    }
    unsigned at;
    for (char kind; fscanf(list, "%x %c", &at, &kind) == 2;)
        if (at < LIBRARY)
            branches[at].kind = kind;
    fclose(list);
    const unsigned long entry = strtoul(argv[2], NULL, 16), skip = strtoul(argv[3], NULL, 10);
    unsigned long begin = 0, calls = 0;   /* where the library lies; how often `process` was called */
    struct branch *branch = NULL;         /* the last instruction, if it is one */
    static char line[256];
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "process ", 8) == 0)
            begin = strtoul(line + 8, NULL, 16) - entry;
        if (line[0] != 'I' || !begin)
            continue;
        char *end;
        unsigned long within = strtoul(line + 1, &end, 16) - begin;
        if (branch)
            went(branch, at, (uint32_t)within, calls > skip);
        calls += within == entry;
        branch = within < LIBRARY && branches[within].kind ? &branches[within] : NULL;
        at = (unsigned)within;
        if (branch)
            branch->size = (uint32_t)strtoul(end + 1, NULL, 10);
    }
    printf("%lu\n", calls > skip ? calls - skip : 0);
    for (at = 0; at < LIBRARY; at++)
        if (branches[at].executed)
            printf("%x %lu %lu %lu\n", at, (unsigned long)branches[at].executed, (unsigned long)branches[at].taken,
                   (unsigned long)branches[at].wrong);
    return 0;
}
