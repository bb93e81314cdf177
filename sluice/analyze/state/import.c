/* Takes over exported state. The bytes come from outside: nothing in them is trusted to lie within an object. */
#include <string.h>

#include "internal.h"

struct peer { /* an object of the other instance, and ours that stands for it */
  uint64_t id, size, address;
};

#define MOST_OBJECT ((uint64_t)1 << 32)

static struct peer *peers; /* open addressing; an id of 0 is free */
static uint64_t peer_count, peer_space;

static struct peer *slot(struct peer *table, uint64_t space, uint64_t id) {
  uint64_t at = (id * 0x9e3779b97f4a7c15u) & (space - 1);
  while (table[at].id && table[at].id != id) at = (at + 1) & (space - 1);
  return &table[at];
}

static struct peer *find(uint64_t id) {
  struct peer *found = peer_space ? slot(peers, peer_space, id) : NULL;
  return found && found->id ? found : NULL;
}

static struct peer *add(uint64_t id, uint64_t size) {
  struct peer *known = find(id);
  if (known) return known;
  if (2 * (peer_count + 1) > peer_space) {
    const uint64_t space = peer_space ? 2 * peer_space : 1024;
    struct peer *grown = sluice_real_malloc(space * sizeof(*grown));
    if (!grown) return NULL;
    memset(grown, 0, space * sizeof(*grown));
    for (uint64_t i = 0; i < peer_space; i++)
      if (peers[i].id) *slot(grown, space, peers[i].id) = peers[i];
    sluice_real_free(peers);
    peers = grown;
    peer_space = space;
  }
  peer_count++;
  struct peer *made = slot(peers, peer_space, id);
  *made = (struct peer){id, size, 0};
  return made;
}

/* Our object, if the program has not freed it meanwhile. */
static struct object *ours(const struct peer *peer) {
  struct object *object = peer->address ? sluice_object_at((void *)peer->address) : NULL;
  return object && object->address == peer->address && object->peer == peer->id ? object : NULL;
}

/* Our object for theirs: one that it has already; that to which our pointer points, if it has the same size and stands
 * for no other, so that what else points to it remains valid; or a new one. */
static struct object *object_for(struct peer *peer, const void *local, uint64_t offset) {
  struct object *object = ours(peer);
  if (object) return object;
  object = local ? sluice_object_at(local) : NULL;
  if (!object || object->peer || object->size != peer->size || (uint64_t)local != object->address + offset)
    object = sluice_object_new(peer->size);
  if (!object) return NULL;
  object->peer = peer->id;
  peer->address = object->address;
  return object;
}

struct input {
  const uint8_t *at;
  size_t left;
};

static int take(struct input *input, void *to, uint64_t size) {
  if (size > input->left) return 0;
  if (to) memcpy(to, input->at, size);
  input->at += size;
  input->left -= size;
  return 1;
}

static const char kShort[] = "the bytes end within a record";

/* Reads a record and gives its bytes and pointers. */
static const char *take_record(struct input *input, struct record *record, const uint8_t **bytes, const uint8_t **pointers) {
  if (!take(input, record, sizeof(*record))) return kShort;
  if (record->size > MOST_OBJECT || record->offset > record->size || record->length > record->size - record->offset)
    return "a record is outside its object";
  const uint64_t padded = (record->length + 7) & ~(uint64_t)7;
  *bytes = input->at;
  if (!take(input, NULL, padded)) return kShort;
  *pointers = input->at;
  if (record->pointers > input->left / sizeof(struct pointer)) return kShort;
  take(input, NULL, record->pointers * sizeof(struct pointer));
  return NULL;
}

/* Where a pointer of theirs points here; `local` is what is there now. */
static const char *resolve(const struct pointer *pointer, const void *local, void **value) {
  if (pointer->target == TARGET_KEPT) {
    memcpy(value, &local, sizeof(local));
  } else if (pointer->target == TARGET_NULL) {
    *value = NULL;
  } else if (pointer->target == TARGET_IMAGE) {
    if (pointer->target_offset > (uint64_t)(&_end - &__executable_start)) return "a pointer leads out of the program";
    *value = &__executable_start + pointer->target_offset;
  } else if (pointer->target < FIRST_OBJECT) {
    const uint64_t number = pointer->target - FIRST_VARIABLE;
    if (pointer->target < FIRST_VARIABLE || number >= sluice_state_variables_count) return "there is no such variable";
    const struct row *row = &sluice_state_variables[number];
    if (!row->memory || pointer->target_offset > row->size) return "a pointer leads out of a variable";
    *value = row->memory + pointer->target_offset;
  } else {
    struct peer *peer = find(pointer->target);
    if (!peer) return "a pointer leads to an object that was not exported";
    if (pointer->target_offset > peer->size) return "a pointer leads out of an object";
    const struct object *object = object_for(peer, local, pointer->target_offset);
    if (!object) return "memory is exhausted";
    *value = (uint8_t *)object->address + pointer->target_offset;
  }
  return NULL;
}

static const char *import_record(const struct record *record, const uint8_t *bytes, const uint8_t *pointers) {
  uint8_t *memory;
  if (record->id >= FIRST_OBJECT) {
    struct peer *peer = find(record->id);
    if (!record->size) { /* freed */
      struct object *object = peer ? ours(peer) : NULL;
      if (object) sluice_object_free(object);
      return NULL;
    }
    if (!peer || peer->size != record->size) return "an object's size changed";
    const struct object *object = object_for(peer, NULL, 0);
    if (!object) return "memory is exhausted";
    memory = (uint8_t *)object->address;
  } else {
    const uint64_t number = record->id - FIRST_VARIABLE;
    if (record->id < FIRST_VARIABLE || number >= sluice_state_variables_count) return "there is no such variable";
    const struct row *row = &sluice_state_variables[number];
    if (!row->memory) return NULL; /* of a function that does not run here */
    if (row->size != record->size) return "a variable has another size";
    memory = row->memory;
  }
  if (!record->length) return NULL;
  /* whole, before it replaces ours: other threads of the program never see a pointer of the other instance */
  uint8_t *whole = sluice_real_malloc(record->length);
  if (!whole) return "memory is exhausted";
  memcpy(whole, bytes, record->length);
  const char *wrong = NULL;
  for (uint64_t i = 0; i < record->pointers && !wrong; i++) {
    struct pointer pointer;
    memcpy(&pointer, pointers + i * sizeof(pointer), sizeof(pointer));
    const uint64_t at = pointer.offset - record->offset;
    if (pointer.offset < record->offset || at > record->length || record->length - at < sizeof(void *)) {
      wrong = "a pointer is outside its record";
      break;
    }
    void *local, *value;
    memcpy(&local, memory + pointer.offset, sizeof(local));
    wrong = resolve(&pointer, local, &value);
    if (!wrong) memcpy(whole + at, &value, sizeof(value));
  }
  if (!wrong) memcpy(memory + record->offset, whole, record->length);
  sluice_real_free(whole);
  return wrong;
}

const char *sluice_state_import(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  struct header header;
  if (!take(&input, &header, sizeof(header)) || header.magic != EXPORT_MAGIC) return "is no exported state";
  if (header.layout != sluice_layout()) return "was exported by another program";
  const struct input records = input;
  struct record record;
  const uint8_t *contents, *pointers;
  /* the objects first, because pointers lead to later ones */
  for (uint64_t i = 0; i < header.records; i++) {
    const char *wrong = take_record(&input, &record, &contents, &pointers);
    if (wrong) return wrong;
    if (record.id >= FIRST_OBJECT && record.size && !add(record.id, record.size)) return "memory is exhausted";
  }
  if (input.left) return "bytes follow the last record";
  input = records;
  for (uint64_t i = 0; i < header.records; i++) {
    const char *wrong = take_record(&input, &record, &contents, &pointers);
    if (!wrong) wrong = import_record(&record, contents, pointers);
    if (wrong) return wrong;
  }
  return NULL;
}
