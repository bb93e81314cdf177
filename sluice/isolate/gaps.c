/* Reads the clock without pause on one CPU, and prints the gaps between its readings, in nanoseconds:
 *
 *   gaps CPU MILLISECONDS THRESHOLD
 *
 * An interruption makes a gap as long as its cost, with the parts that no probe in the kernel sees. It reads for
 * some milliseconds, and then lets the other tasks of the CPU run for as long. Prints `ready`, then the median step, then
 * a line with start and length of each gap above the threshold.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { GAPS = 100000, STEPS = 1001, TURN_NS = 5000000 };

static struct {
    uint64_t start, length;
} gaps[GAPS];
static uint64_t steps[STEPS];

static inline uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int n, char **a)
{
    cpu_set_t set;
    size_t found = 0;
    if (n != 4) {
        fprintf(stderr, "usage: gaps CPU MILLISECONDS THRESHOLD\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&set);
    CPU_SET((size_t)atoi(a[1]), &set);
    if (sched_setaffinity(0, sizeof(set), &set)) {
        perror("sched_setaffinity");
        return 1;
    }
    uint64_t threshold = strtoull(a[3], NULL, 10);
    for (int i = 0; i < STEPS; i++) {
        uint64_t begin = now();
        steps[i] = now() - begin;
    }
    qsort(steps, STEPS, sizeof(steps[0]), compare);
    puts("ready");
    fflush(stdout);
    uint64_t end = now() + strtoull(a[2], NULL, 10) * 1000000u;
    for (uint64_t begin = now(); begin < end; begin = now()) {
        uint64_t last = begin;
        while (last < begin + TURN_NS && found < GAPS) {
            uint64_t at = now();
            if (at - last > threshold) {
                gaps[found].start = last;
                gaps[found++].length = at - last;
            }
            last = at;
        }
        nanosleep(&(struct timespec){.tv_nsec = TURN_NS}, NULL);
    }
    printf("%llu\n", (unsigned long long)steps[STEPS / 2]);
    for (size_t i = 0; i < found; i++)
        printf("%llu %llu\n", (unsigned long long)gaps[i].start, (unsigned long long)gaps[i].length);
    return 0;
}
