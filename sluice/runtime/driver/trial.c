#define _GNU_SOURCE
#include "driver/trial.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LARGEST = 1 << 18 };   /* of a packet with its head; larger ones are left out */

uint64_t sl_trial_copy(int to, const struct sl_frame *frames, size_t count)
{
    uint64_t left_out = 0;
    for (size_t i = 0; i < count; i++) {
        struct sl_frame head = frames[i];
        struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)head.at, head.captured}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (sizeof head + head.captured > LARGEST || sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            left_out++;
    }
    return left_out;
}

uint64_t sl_trial_run(const struct sl_drive *drive, const struct sl_workers *workers, int from)
{
    struct sl_frame head;
    uint64_t packets = 0;
    for (;;) {
        ssize_t size = recv(from, &head, sizeof head, MSG_PEEK);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < (ssize_t)sizeof head)
            return packets;
        uint8_t *bytes = malloc(head.captured ? head.captured : 1);   /* of its size: a read beyond its end is found */
        struct iovec parts[] = {{&head, sizeof head}, {bytes, head.captured}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (!bytes || recvmsg(from, &message, 0) < 0) {
            free(bytes);
            return packets;
        }
        head.at = bytes;
        struct sl_box *box = workers ? workers->boxes[workers->worker(&head, workers->count, workers->seed)] : drive->box;
        struct sl_verdict verdict;
        const struct sl_sent *sent;
        drive->process(box, &head, 1, drive->ports || (workers && workers->ports) ? &verdict : NULL);
        sl_box_sent(box, &sent);
        packets++;
        if (drive->tick) {
            drive->tick(box, head.time);
            sl_box_sent(box, &sent);
        }
        free(bytes);
        if (sl_box_failure(box)[0] || sl_box_function_failure(box)[0])
            return packets;
    }
}
