/* Writes the records of an export: bytes of variables and objects, with the targets of their pointers. */
#include <string.h>

#include "export.h"

struct output sluice_output;

static void *room(size_t size) {
  if (sluice_output.size + size > sluice_output.space) {
    size_t space = 2 * sluice_output.space + size + 4096;
    uint8_t *grown = sluice_real_realloc(sluice_output.bytes, space);
    if (!grown) {
      sluice_output.failed = 1;
      return NULL;
    }
    sluice_output.bytes = grown;
    sluice_output.space = space;
  }
  void *place = sluice_output.bytes + sluice_output.size;
  sluice_output.size += size;
  return place;
}

void sluice_put(const void *bytes, size_t size) {
  void *place = room(size);
  if (place) memcpy(place, bytes, size);
}

static void put_pointer(const struct block *block, uint64_t offset, const struct sluice_member *member) {
  char *value = sluice_pointer_at(block, offset);
  struct pointer found = {offset, TARGET_KEPT, 0};
  struct object *object;
  if (!value) {
    if (member->kind == SLUICE_MAYBE) return; /* bytes say the same */
    found.target = TARGET_NULL;
  } else if (member->kind == SLUICE_KEPT || member->kind == SLUICE_BY_HAND) {
    sluice_output.by_hand += member->kind == SLUICE_BY_HAND;
  } else if (value >= &__executable_start && value <= &_end) {
    found.target_offset = (uint64_t)(value - &__executable_start);
    if (sluice_image_at(found.target_offset)) found.target = TARGET_IMAGE;
    else sluice_output.by_hand += member->kind != SLUICE_MAYBE;
  } else if ((object = sluice_object_at(value))) {
    found.target = object->id;
    found.target_offset = (uint64_t)value - object->address;
  } else {
    for (uint64_t i = 0; i < sluice_state_variables_count && found.target == TARGET_KEPT; i++) {
      const struct row *row = &sluice_state_variables[i];
      if (!row->memory || (unsigned char *)value < row->memory || (unsigned char *)value >= row->memory + row->size) continue;
      found.target = FIRST_VARIABLE + i;
      found.target_offset = (uint64_t)((unsigned char *)value - row->memory);
    }
    sluice_output.by_hand += found.target == TARGET_KEPT && member->kind != SLUICE_MAYBE;
  }
  if (found.target != TARGET_KEPT || member->kind != SLUICE_MAYBE) sluice_put(&found, sizeof(found));
}

void sluice_put_range(const struct block *block, uint64_t from, uint64_t to) {
  from &= ~(uint64_t)7; /* whole pointers */
  to = to + 7 < block->size ? (to + 7) & ~(uint64_t)7 : block->size;
  if (block->object && block->object->unaligned) from = 0, to = block->size;
  struct record record = {block->id, block->size, from, to - from, 0};
  const size_t at = sluice_output.size;
  sluice_put(&record, sizeof(record));
  sluice_put(block->memory + from, to - from);
  sluice_put("\0\0\0\0\0\0\0", -(to - from) & 7);
  const size_t first = sluice_output.size;
  sluice_each_pointer(block, from, to, put_pointer);
  if (sluice_output.failed) return;
  record.pointers = (sluice_output.size - first) / sizeof(struct pointer);
  memcpy(sluice_output.bytes + at, &record, sizeof(record));
  if (*block->shadow) memcpy(*block->shadow + from, block->memory + from, to - from);
  sluice_output.records++;
}

int sluice_put_difference(const struct block *block, uint64_t from, uint64_t to) {
  int found = 0;
  for (uint64_t at = from & ~(uint64_t)7; at < to;) {
    uint64_t end = at;
    while (end < to) {
      const uint64_t bytes = block->size - end < 8 ? block->size - end : 8;
      if (memcmp(block->memory + end, *block->shadow + end, bytes) == 0) break;
      end += 8;
    }
    if (end > at) {
      sluice_put_range(block, at, end < to ? end : to);
      found = 1;
    }
    at = end + 8;
  }
  return found;
}
