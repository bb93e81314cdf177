#define _GNU_SOURCE
#include "driver/crash.h"

#include "core/box.h"

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
static uint32_t crashes;   /* of threads at the same time, only the first is reported */
static __thread const struct sl_worker *busy;
static __thread void *stack;

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

/* Calls only what a handler of a signal may call. What the fault may have spoilt is read last: another fault ends the process
 * without the line. */
static void crashed(int number)
{
    struct line line = {.used = 0};
    const struct sl_worker *w = busy;
    if (w && !__atomic_exchange_n(&crashes, 1, __ATOMIC_RELAXED)) {
        const struct sl_workers *workers = w->workers;
        const struct sl_box *box = w->box;
        put(&line, "sluice: error: worker ");
        put_number(&line, w->number);
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
    raise(number);   /* its action is the default again: a core file */
}

void sl_faults_handle(void (*handler)(int), struct sigaction *actions)
{
    for (unsigned i = 0; i < SL_FAULTS; i++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND | SA_NODEFER)};
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
