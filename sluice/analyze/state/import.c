/* Imports exported state. The bytes are untrusted: all of them are checked before the first one is used, so that
 * bytes that are refused change nothing. */
#include <string.h>

#include "export.h"
#include "peers.h"

#define MOST_OBJECT ((uint64_t)1 << 32)

struct input {
  const uint8_t *at;
  size_t left;
};

struct part { /* a record with its contents */
  struct record record;
  const uint8_t *bytes, *pointers;
};

static int take(struct input *input, void *to, uint64_t size) {
  if (size > input->left) return 0;
  if (to) memcpy(to, input->at, size);
  input->at += size;
  input->left -= size;
  return 1;
}

static struct pointer pointer_of(const struct part *part, uint64_t number) {
  struct pointer found;
  memcpy(&found, part->pointers + number * sizeof(found), sizeof(found));
  return found;
}

static const char kShort[] = "the bytes end within a record";

static const char *take_part(struct input *input, struct part *part) {
  struct record *record = &part->record;
  if (!take(input, record, sizeof(*record))) return kShort;
  if (record->size > MOST_OBJECT || record->offset > record->size || record->length > record->size - record->offset)
    return "a record is outside its object";
  const uint64_t end = record->offset + record->length;
  if (record->offset % 8 || (end % 8 && end != record->size)) return "a record cuts a pointer";
  part->bytes = input->at;
  if (!take(input, NULL, (record->length + 7) & ~(uint64_t)7)) return kShort;
  part->pointers = input->at;
  if (record->pointers > input->left / sizeof(struct pointer)) return kShort;
  take(input, NULL, record->pointers * sizeof(struct pointer));
  return NULL;
}

/* ---- the objects that the records are about ---- */

/* An object's first record has all of its bytes, so that memory is allocated only for bytes that arrived. */
static const char *announce(const struct record *record) {
  struct peer *peer = sluice_peer(record->id);
  if (!record->size) { /* of one that is not known as well, so that no later record can be of it */
    if (!peer && !(peer = sluice_peer_add(record->id, 0))) return "memory is exhausted";
    peer->freed = 1;
    return NULL;
  }
  if (!peer) {
    if (record->length != record->size) return "the first record of an object has a part of it only";
    return sluice_peer_add(record->id, record->size) ? NULL : "memory is exhausted";
  }
  return peer->freed || peer->size == record->size ? NULL : "an object's size changed";
}

/* Forgets what `announce` noted of records that are refused. */
static void forget(struct input input, uint64_t records) {
  struct part part;
  for (uint64_t i = 0; i < records && !take_part(&input, &part); i++) {
    struct peer *peer = sluice_peer(part.record.id);
    if (!peer) continue;
    peer->freed = 0;
    if (!peer->address) sluice_peer_remove(part.record.id);
  }
}

/* ---- checks ---- */

static const struct row *row_of(uint64_t id) {
  const uint64_t number = id - FIRST_VARIABLE;
  return id >= FIRST_VARIABLE && number < sluice_state_variables_count ? &sluice_state_variables[number] : NULL;
}

static const char *check_target(const struct pointer *pointer) {
  if (pointer->target == TARGET_KEPT || pointer->target == TARGET_NULL) return NULL;
  if (pointer->target == TARGET_IMAGE)
    return sluice_image_at(pointer->target_offset) ? NULL : "a pointer leads to no variable or function of the program";
  if (pointer->target < FIRST_OBJECT) {
    const struct row *row = row_of(pointer->target);
    if (!row) return "a pointer leads to a variable that there is not";
    return row->memory && pointer->target_offset <= row->size ? NULL : "a pointer leads out of a variable";
  }
  const struct peer *peer = sluice_peer(pointer->target);
  if (!peer) return "a pointer leads to an object that was not exported";
  if (peer->freed) return "a pointer leads to an object that was freed";
  return pointer->target_offset <= peer->size ? NULL : "a pointer leads out of an object";
}

static struct {
  const struct part *part;
  uint64_t next; /* of its pointers */
  const char *wrong;
} places;

/* A variable's type has the places of pointers: each of them must have its target, as the bytes that it has in the other
 * instance are no address here. */
static void check_place(const struct block *block, uint64_t offset, const struct sluice_member *member) {
  (void)block;
  struct pointer pointer;
  if (places.next < places.part->record.pointers && (pointer = pointer_of(places.part, places.next)).offset == offset) {
    places.next++;
    if (pointer.target == TARGET_IMAGE && member->of && !sluice_image_at(pointer.target_offset)->size)
      places.wrong = "a pointer to data leads to a function";
  } else if (member->kind != SLUICE_MAYBE) {
    places.wrong = "a pointer of a variable does not say where it leads";
  }
}

static const char *check_part(const struct part *part) {
  const struct record *record = &part->record;
  const struct row *row = NULL;
  if (record->id < FIRST_OBJECT) {
    if (!(row = row_of(record->id))) return "there is no such variable";
  } else if (record->size && sluice_peer(record->id)->freed) {
    return "a record is of an object that was freed";
  }
  for (uint64_t i = 0; i < record->pointers; i++) {
    const struct pointer pointer = pointer_of(part, i);
    const uint64_t at = pointer.offset - record->offset;
    if (pointer.offset < record->offset || at > record->length || record->length - at < sizeof(void *))
      return "a pointer is outside its record";
    const char *wrong = check_target(&pointer);
    if (wrong) return wrong;
  }
  if (!row || !row->memory) return NULL; /* of a function that does not run here: ignored */
  if (row->size != record->size) return "a variable has another size";
  const struct sluice_type *type = sluice_state_types[record->id - FIRST_VARIABLE].type;
  const struct block block = {row->memory, row->size, record->id, type, NULL, NULL};
  places.part = part;
  places.next = 0;
  places.wrong = NULL;
  sluice_each_pointer(&block, record->offset, record->offset + record->length, check_place);
  if (!places.wrong && places.next < record->pointers) places.wrong = "a variable has no pointer where a record has one";
  return places.wrong;
}

/* ---- taking over checked records ---- */

/* The target here of a pointer of theirs; `local` is its current value. Returns 0 if memory is exhausted. */
static int resolve(const struct pointer *pointer, const void *local, void **value) {
  *value = NULL;
  if (pointer->target == TARGET_KEPT) {
    memcpy(value, &local, sizeof(local));
  } else if (pointer->target == TARGET_IMAGE) {
    *value = &__executable_start + pointer->target_offset;
  } else if (pointer->target >= FIRST_OBJECT) {
    const struct object *object = sluice_peer_make(sluice_peer(pointer->target), local, pointer->target_offset);
    if (!object) return 0;
    *value = (uint8_t *)object->address + pointer->target_offset;
  } else if (pointer->target >= FIRST_VARIABLE) {
    *value = row_of(pointer->target)->memory + pointer->target_offset;
  }
  return 1;
}

static int take_over(const struct part *part) {
  const struct record *record = &part->record;
  uint8_t *memory;
  if (record->id < FIRST_OBJECT) {
    memory = row_of(record->id)->memory;
  } else if (!record->size) {
    const struct peer *peer = sluice_peer(record->id);
    struct object *object = peer ? sluice_peer_object(peer) : NULL;
    if (object) sluice_object_free(object);
    sluice_peer_remove(record->id);
    return 1;
  } else {
    const struct object *object = sluice_peer_make(sluice_peer(record->id), NULL, 0);
    if (!object) return 0;
    memory = (uint8_t *)object->address;
  }
  if (!memory || !record->length) return 1;
  /* whole, before it replaces ours: other threads of the program never see a pointer of the other instance */
  uint8_t *whole = sluice_real_malloc(record->length);
  if (!whole) return 0;
  memcpy(whole, part->bytes, record->length);
  int done = 1;
  for (uint64_t i = 0; i < record->pointers && done; i++) {
    const struct pointer pointer = pointer_of(part, i);
    void *local, *value;
    memcpy(&local, memory + pointer.offset, sizeof(local));
    done = resolve(&pointer, local, &value);
    memcpy(whole + (pointer.offset - record->offset), &value, sizeof(value));
  }
  if (done) memcpy(memory + record->offset, whole, record->length);
  sluice_real_free(whole);
  return done;
}

const char *sluice_state_import(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  struct header header;
  struct part part;
  const char *wrong = NULL;
  if (!take(&input, &header, sizeof(header)) || header.magic != EXPORT_MAGIC) return "is no exported state";
  if (header.layout != sluice_layout()) return "was exported by another program";
  sluice_peers_of(header.instance);
  if (!&sluice_state_type_count) return "cannot be taken over: the program has no code of `sluice analyze serialise`";
  const struct input records = input;
  /* the objects first, because pointers refer to later ones */
  for (uint64_t i = 0; i < header.records && !wrong; i++)
    if (!(wrong = take_part(&input, &part)) && part.record.id >= FIRST_OBJECT) wrong = announce(&part.record);
  if (!wrong && input.left) wrong = "bytes follow the last record";
  input = records;
  for (uint64_t i = 0; i < header.records && !wrong; i++)
    if (!(wrong = take_part(&input, &part))) wrong = check_part(&part);
  if (wrong) {
    forget(records, header.records);
    return wrong;
  }
  input = records;
  for (uint64_t i = 0; i < header.records; i++) {
    take_part(&input, &part);
    if (!take_over(&part)) return "memory is exhausted, and a part was taken over";
  }
  return NULL;
}
