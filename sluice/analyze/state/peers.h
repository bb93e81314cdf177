/* Objects of the instance that exported, and the corresponding objects here. */
#pragma once

#include "internal.h"

struct peer {
  uint64_t instance; /* that exported: others have objects of the same identities */
  uint64_t id, size, address; /* an address of 0: no object yet */
  uint64_t freed;             /* by the import that is being checked */
};

/* Selects the instance whose objects the other functions are about. */
void sluice_peers_of(uint64_t instance);
struct peer *sluice_peer(uint64_t id);
/* Requires that the id is not known. NULL if memory is exhausted. Pointers to other peers become invalid. */
struct peer *sluice_peer_add(uint64_t id, uint64_t size);
void sluice_peer_remove(uint64_t id);
/* Our object, if there is one and the program has not freed it meanwhile. */
struct object *sluice_peer_object(const struct peer *peer);
/* Our object for theirs: one that it has already; that to which our pointer points, if it has the same size and is used
 * for no other, so that other pointers to it remain valid; or a new one. NULL if memory is exhausted. */
struct object *sluice_peer_make(struct peer *peer, const void *local, uint64_t offset);
