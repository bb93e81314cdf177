/* Things that begin in one order and end in another, given out in the order of their beginning: the rows of a flow log.
 *
 * One that ended waits for all that began earlier. So that a single one that never ends does not hold back the others
 * for ever, `most` bounds how many are kept, those that have not ended included: beyond it the earliest of those that
 * wait goes out of its turn, and whatever it overtook is counted as late when it comes. Nothing is ever lost by it.
 * The caller owns the things; what is here allocates only the heap of those that wait. */
#ifndef SL_REORDER_QUEUE_H
#define SL_REORDER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* What each thing carries. */
struct sl_turn {
    struct sl_turn *previous, *next;   /* among those that have not ended, by number */
    uint64_t number;                   /* the order of beginning; every thing has its own */
};

struct sl_in_order {
    struct sl_turn *first, *last;   /* that have not ended */
    struct sl_turn **waiting;       /* that have: a heap, the lowest number on top */
    uint64_t waiting_count, room;
    uint64_t kept;                  /* both together */
    uint64_t most;                  /* of them; the owner sets it */
    uint64_t given;                 /* the highest number given out; 0 for none */
    uint64_t late;                  /* given out behind one with a higher number */
};

/* A thing begins. Numbers come in ascending order as a rule; an exception costs time only. */
static inline void sl_in_order_begin(struct sl_in_order *order, struct sl_turn *turn, uint64_t number) {
    struct sl_turn *before = order->last;
    while (before && before->number > number)
        before = before->previous;
    *turn = (struct sl_turn){before, before ? before->next : order->first, number};
    *(turn->next ? &turn->next->previous : &order->last) = turn;
    *(before ? &before->next : &order->first) = turn;
    order->kept++;
}

static inline void sl_in_order_count(struct sl_in_order *order, uint64_t number) {
    order->kept--;
    if (number < order->given)
        order->late++;
    else
        order->given = number;
}

/* A thing ends, and waits for its turn. False when there is no memory to wait: then it is the caller's at once. */
static inline bool sl_in_order_end(struct sl_in_order *order, struct sl_turn *turn) {
    *(turn->next ? &turn->next->previous : &order->last) = turn->previous;
    *(turn->previous ? &turn->previous->next : &order->first) = turn->next;
    if (order->waiting_count == order->room) {
        uint64_t room = order->room ? 2 * order->room : 64;
        struct sl_turn **waiting = realloc(order->waiting, (size_t)room * sizeof *waiting);
        if (!waiting) {
            sl_in_order_count(order, turn->number);
            return false;
        }
        order->waiting = waiting;
        order->room = room;
    }
    uint64_t at = order->waiting_count++;
    for (; at && order->waiting[(at - 1) / 2]->number > turn->number; at = (at - 1) / 2)
        order->waiting[at] = order->waiting[(at - 1) / 2];
    order->waiting[at] = turn;
    return true;
}

/* The next thing to be given out, which is the caller's then; NULL while all that wait must. */
static inline struct sl_turn *sl_in_order_next(struct sl_in_order *order) {
    if (!order->waiting_count)
        return NULL;
    struct sl_turn *top = order->waiting[0];
    if (order->first && order->first->number < top->number && order->kept <= order->most)
        return NULL;
    struct sl_turn *moved = order->waiting[--order->waiting_count];
    uint64_t at = 0;
    for (uint64_t child; (child = 2 * at + 1) < order->waiting_count; at = child) {
        if (child + 1 < order->waiting_count && order->waiting[child + 1]->number < order->waiting[child]->number)
            child++;
        if (moved->number <= order->waiting[child]->number)
            break;
        order->waiting[at] = order->waiting[child];
    }
    order->waiting[at] = moved;   /* when it was the last, behind the end */
    sl_in_order_count(order, top->number);
    return top;
}

/* Gives the heap back; the things are the caller's. */
static inline void sl_in_order_close(struct sl_in_order *order) {
    free(order->waiting);
    *order = (struct sl_in_order){0};
}

#endif
