/* The object here for each object of the instance that exported: a hash table with open addressing. */
#include "peers.h"

#include <string.h>

static struct peer *table; /* an id of 0 is free */
static uint64_t count, space, instance;

void sluice_peers_of(uint64_t given) { instance = given; }

static uint64_t home(uint64_t of, uint64_t id) { return ((id ^ of) * 0x9e3779b97f4a7c15u) >> 32 & (space - 1); }

static struct peer *slot(uint64_t of, uint64_t id) {
  uint64_t at = home(of, id);
  while (table[at].id && (table[at].id != id || table[at].instance != of)) at = (at + 1) & (space - 1);
  return &table[at];
}

struct peer *sluice_peer(uint64_t id) {
  struct peer *found = space ? slot(instance, id) : NULL;
  return found && found->id ? found : NULL;
}

struct peer *sluice_peer_add(uint64_t id, uint64_t size) {
  if (2 * (count + 1) > space) {
    struct peer *before = table;
    const uint64_t spaces = space;
    struct peer *grown = sluice_real_malloc((spaces ? 2 * spaces : 1024) * sizeof(*grown));
    if (!grown) return NULL;
    space = spaces ? 2 * spaces : 1024;
    memset(grown, 0, space * sizeof(*grown));
    table = grown;
    for (uint64_t i = 0; i < spaces; i++)
      if (before[i].id) *slot(before[i].instance, before[i].id) = before[i];
    sluice_real_free(before);
  }
  count++;
  struct peer *made = slot(instance, id);
  *made = (struct peer){instance, id, size, 0, 0};
  return made;
}

void sluice_peer_remove(uint64_t id) {
  struct peer *found = sluice_peer(id);
  if (!found) return;
  /* later entries move up, so that no search ends at the gap (Knuth, 6.4, algorithm R) */
  uint64_t gap = (uint64_t)(found - table), at = gap;
  for (;;) {
    table[gap].id = 0;
    for (;;) {
      at = (at + 1) & (space - 1);
      if (!table[at].id) {
        count--;
        return;
      }
      const uint64_t wanted = home(table[at].instance, table[at].id);
      if (gap <= at ? wanted <= gap || wanted > at : wanted <= gap && wanted > at) break;
    }
    table[gap] = table[at];
    gap = at;
  }
}

struct object *sluice_peer_object(const struct peer *peer) {
  struct object *object = peer->address ? sluice_object_at((void *)peer->address) : NULL;
  return object && object->address == peer->address && object->peer == peer->id ? object : NULL;
}

struct object *sluice_peer_make(struct peer *peer, const void *local, uint64_t offset) {
  struct object *object = sluice_peer_object(peer);
  if (object) return object;
  object = local ? sluice_object_at(local) : NULL;
  if (!object || object->peer || object->size != peer->size || (uint64_t)local != object->address + offset)
    object = sluice_object_new(peer->size);
  if (!object) return NULL;
  object->peer = peer->id;
  peer->address = object->address;
  return object;
}
