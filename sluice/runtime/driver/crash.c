#define _GNU_SOURCE
#include "driver/crash.h"

#include "core/box.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct { int number; const char *text; } faults[SL_FAULTS] = {
    {SIGSEGV, "Segmentation fault"}, {SIGBUS, "Bus error"}, {SIGFPE, "Floating point exception"},
    {SIGILL, "Illegal instruction"}, {SIGABRT, "Aborted"}, {SIGSYS, "Bad system call"},
};

static struct sigaction before[SL_FAULTS];
static bool watches;
static uint32_t crashes;   /* of threads at the same time, only the first is reported, */
static uint32_t reported;  /* and the others let the process live until it is */
static __thread const struct sl_worker *busy;
static __thread void *stack;
static __thread bool has_crashed;

enum { REPORTED_MOST = 1000 };   /* milliseconds that another thread waits for the report */

struct line { char text[512]; size_t used; };

static void put(struct line *line, const char *text)
{
    while (*text && line->used < sizeof line->text - 1)
        line->text[line->used++] = *text++;
}

static void put_number(struct line *line, uint64_t number)
{
    char digits[21];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    put(line, digits + at);
}

/* What the fault may have spoilt is read last. */
static void report(const struct sl_worker *w, int number)
{
    struct line line = {.used = 0};
    const struct sl_workers *workers = w->workers;
    const struct sl_box *box = w->box;
    put(&line, "sluice: error: worker ");
    put_number(&line, workers->thread_count ? w->owner : w->number);   /* of boxes there are more than threads */
    put(&line, " crashed: ");
    for (unsigned i = 0; i < SL_FAULTS; i++)
        put(&line, faults[i].number == number ? faults[i].text : "");
    if (box->calling && box->calling <= workers->function_count) {
        put(&line, " in function ");
        put(&line, workers->function_names[box->calling - 1]);
    }
    put(&line, ", at packet ");
    put_number(&line, box->number);
    const struct sl_event *event = box->calling ? box->called : NULL;
    if (event && event->layer) {
        put(&line, ", on an event of ");
        put(&line, event->layer->name);
        if (event->instance && event->owner) {
            put(&line, " (flow ");
            put_number(&line, sl_event_number(event));
            put(&line, ")");
        }
    }
    put(&line, "; the box ends\n");
    (void)!write(STDERR_FILENO, line.text, line.used);
}

/* Calls only what a handler of a signal may call. Another fault of the same thread ends the process without the line. */
static void crashed(int number)
{
    const bool again = has_crashed;
    has_crashed = true;
    if (!again && !__atomic_exchange_n(&crashes, 1, __ATOMIC_RELAXED)) {
        if (busy)
            report(busy, number);
        __atomic_store_n(&reported, 1, __ATOMIC_RELEASE);
    }
    for (unsigned i = 0; !again && i < REPORTED_MOST && !__atomic_load_n(&reported, __ATOMIC_ACQUIRE); i++)
        (void)poll(NULL, 0, 1);
    sl_fault_ends(number);
}

void sl_fault_ends(int number)
{
    signal(number, SIG_DFL);
    raise(number);   /* a core file */
}

void sl_faults_handle(void (*handler)(int), struct sigaction *actions)
{
    for (unsigned i = 0; i < SL_FAULTS; i++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
        sigaction(faults[i].number, &action, actions ? &actions[i] : NULL);
    }
}

void sl_faults_unblock(void *of_handler)
{
    stack_t other = {.ss_sp = of_handler, .ss_size = SL_FAULT_STACK};
    sigset_t allowed;
    sigemptyset(&allowed);
    for (unsigned i = 0; i < SL_FAULTS; i++)
        sigaddset(&allowed, faults[i].number);
    if (of_handler)
        sigaltstack(&other, NULL);
    pthread_sigmask(SIG_UNBLOCK, &allowed, NULL);
}

void sl_crash_watch(const struct sl_workers *workers)
{
    if (watches || workers->isolation || !workers->function_count)
        return;
    watches = true;
    sl_faults_handle(crashed, before);
}

void sl_crash_unwatch(void)
{
    for (unsigned i = 0; watches && i < SL_FAULTS; i++)
        sigaction(faults[i].number, &before[i], NULL);
    watches = false;
}

void sl_crash_enter(void) { sl_faults_unblock(stack = malloc(SL_FAULT_STACK)); }

void sl_crash_leave(void)
{
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(stack);
    stack = NULL;
}

void sl_crash_busy(const struct sl_worker *worker) { busy = worker; }
