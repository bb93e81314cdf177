/* Fragments of a message in any order: compares each piece with the message, and counts copied bytes. Reads the length of the message,
 * then offset and length of each fragment; prints whether it is complete, and the bytes that were copied. */
#include <inttypes.h>
#include <string.h>

enum { OFTEN = 1 << 13 };   /* a message of this length is compared after each fragment, a longer one at the end */

static uint64_t copied;

static void *copy(void *to, const void *from, size_t length)
{
    copied += length;
    return memmove(to, from, length);
}

#define memcpy copy
#include "dtls_side.h"

static void check(const struct dtls_message *message, const uint8_t *body)
{
    uint32_t count = 0;
    int64_t end = -1;
    for (const struct dtls_piece *piece = message->first; piece; piece = piece->next, count++) {
        bool fits = piece->offset > end && dtls_piece_end(piece) <= message->length && dtls_piece_end(piece) > piece->offset;
        if (!fits || memcmp(dtls_piece_content(piece), body + piece->offset, dtls_piece_length(piece)) != 0)
            abort();
        end = dtls_piece_end(piece);
    }
    if (count != message->pieces)
        abort();
}

int main(void)
{
    uint32_t length, offset, size, refused = 0;
    uint64_t most;
    if (scanf("%" SCNu32 "%" SCNu64, &length, &most) != 2)
        return 2;
    struct log_budget budget = {0, most};
    struct dtls_message *message = log_allocate(&budget, sizeof *message);
    uint8_t *body = malloc(length);
    for (uint32_t i = 0; i < length; i++)
        body[i] = (uint8_t)(i * 2654435761u >> 24);
    message->length = length;
    while (scanf("%" SCNu32 "%" SCNu32, &offset, &size) == 2) {
        uint8_t *fragment = malloc(size);   /* of its own, whose ends a sanitizer knows */
        memmove(fragment, body + offset, size);
        refused += !dtls_store(message, &budget, offset, fragment, size);
        free(fragment);
        if (length <= OFTEN)
            check(message, body);
    }
    check(message, body);
    printf("%d %" PRIu64 " %" PRIu32 "\n", dtls_message_is_whole(message), copied, refused);
    dtls_message_free(message, &budget);
    free(body);
    return budget.used != 0;
}
