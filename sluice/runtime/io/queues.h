/* The receive queues of interfaces, divided among workers that receive themselves by AF_XDP.
 *
 *     struct sl_queues queues = {.member = 0, .members = 2};
 *     struct sl_source_options options = {.queues = &queues};
 *     ...open the source of the first worker, then, with `member` 1, that of the second one...
 *
 * Worker M gets queues M, M + members, and so on. Which queue a packet comes by, the card decides: by a hash of its addresses and
 * ports (RSS), which is another one for the two directions of a connection unless the key of the hash is symmetric. The
 * source of the first worker sets such a key, and the former one when it is closed. */
#ifndef SL_IO_QUEUES_H
#define SL_IO_QUEUES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_RSS_KEY_MOST = 256, SL_QUEUES_NOTE = 512 };

struct sl_queues {
    uint32_t member, members;
    char note[SL_QUEUES_NOTE];   /* set by sources: whose cards have no symmetric key, and why; empty: none */
};

/* The key of an interface's hash. */
struct sl_rss {
    uint32_t size;   /* bytes; 0: not known */
    uint8_t key[SL_RSS_KEY_MOST];
};

/* Gives an interface a symmetric key: the two bytes 6d 5a again and again, with which addresses and ports may change places (Woo
 * and Park, "Scalable TCP Session Monitoring with Symmetric Receive-Side Scaling", 2012). control: any socket. before: the key
 * that it had, of size 0 if that is the same. Returns 0; or why it cannot. */
const char *sl_rss_make_symmetric(int control, const char *interface, struct sl_rss *before);

/* Sets the key that an interface had. */
void sl_rss_restore(int control, const char *interface, const struct sl_rss *before);

#ifdef __cplusplus
}
#endif

#endif
