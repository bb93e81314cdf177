/* A queue for items that begin in one order and end in another: it outputs them in the order of their beginning. It
 * orders the rows of a flow log.
 *
 * An item that has ended waits for all items that began earlier. To keep one that never ends from blocking the others
 * for ever, `most` bounds the number of items, including those that have not ended. Beyond this bound the earliest of
 * the waiting items is output out of order, and each item that it overtook is counted as late when it is output. No
 * item is lost. The caller owns the items; this file allocates only the heap of the waiting ones. */
#ifndef SL_REORDER_QUEUE_H
#define SL_REORDER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A part of every item. */
struct sl_turn {
    struct sl_turn *previous, *next;   /* in the list of items that have not ended, by number */
    uint64_t number;                   /* the order of beginning; unique */
};

struct sl_in_order {
    struct sl_turn *first, *last;   /* items that have not ended */
    struct sl_turn **waiting;       /* items that have: a heap, the lowest number on top */
    uint64_t waiting_count, room;
    uint64_t kept;                  /* number of both together */
    uint64_t most;                  /* the bound for it; the owner sets it */
    uint64_t given;                 /* the highest number output; 0 for none */
    uint64_t late;                  /* items output after one with a higher number */
};

/* Adds an item that begins. Numbers usually come in ascending order; an exception only costs time. */
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

static inline void sl_in_order_unlink(struct sl_in_order *order, struct sl_turn *turn) {
    *(turn->next ? &turn->next->previous : &order->last) = turn->previous;
    *(turn->previous ? &turn->previous->next : &order->first) = turn->next;
}

/* Removes an item that has not ended, and is not output. */
static inline void sl_in_order_remove(struct sl_in_order *order, struct sl_turn *turn) {
    sl_in_order_unlink(order, turn);
    order->kept--;
}

/* Marks an item as ended; from now on it waits. False if there is no memory for this: then the caller outputs it at
 * once. */
static inline bool sl_in_order_end(struct sl_in_order *order, struct sl_turn *turn) {
    sl_in_order_unlink(order, turn);
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

/* The next item to output, which then belongs to the caller; NULL if all waiting items have to wait longer. */
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
    order->waiting[at] = moved;   /* beyond the end if it was the last one */
    sl_in_order_count(order, top->number);
    return top;
}

/* Frees the heap. The items belong to the caller. */
static inline void sl_in_order_close(struct sl_in_order *order) {
    free(order->waiting);
    *order = (struct sl_in_order){0};
}

#endif
