/* Finds the pointers in memory that is exported or imported. The generated code has the types of variables; that of
 * an object is known from its allocation, or from the pointers to it. */
#include <string.h>

#include "export.h"

static uint64_t exports; /* the current one */

void sluice_contents_begin(void) { exports++; }

int sluice_view_is_current(const struct view *view) { return view->seen == exports; }

static void pointers_of(const struct block *block, const struct sluice_type *type, uint64_t at, uint64_t from,
                        uint64_t to, each_pointer action) {
  for (uint64_t i = 0; i < type->member_count; i++) {
    const struct sluice_member *member = &type->members[i];
    if (member->kind == SLUICE_BYTES) continue;
    const uint64_t step = member->kind == SLUICE_RECORD ? member->of->size : sizeof(void *);
    uint64_t first = 0; /* arrays may be large, and the requested part small */
    if (step && from > at + member->offset) first = (from - at - member->offset) / step;
    for (uint64_t n = first; n < member->count; n++) {
      const uint64_t offset = at + member->offset + n * step;
      if (offset >= to) break;
      if (member->kind == SLUICE_RECORD)
        pointers_of(block, member->of, offset, from, to, action);
      else if (offset >= from && offset + step <= to)
        action(block, offset, member);
    }
  }
}

/* Memory after a structure, of which no type is known other than that of views: tables of an allocator, say. */
static void rest_of(const struct block *block, uint64_t start, uint64_t from, uint64_t to, each_pointer action) {
  static const struct sluice_member maybe = {"", 0, SLUICE_MAYBE, NULL, 1};
  uint64_t at = ((from > start ? from : start) + 7) & ~(uint64_t)7, next = 0;
  for (; at + 8 <= to; at += 8) {
    const struct object *object = block->object;
    while (next < object->view_count && object->views[next].offset + object->views[next].type->size <= at) next++;
    if (next < object->view_count && object->views[next].offset <= at && object->views[next].seen == exports) continue;
    action(block, at, &maybe);
  }
}

/* Where the next view of this export begins, or the object ends. */
static uint64_t end_of_views(const struct object *object, uint64_t next, uint64_t size) {
  while (next < object->view_count && object->views[next].seen != exports) next++;
  return next < object->view_count ? object->views[next].offset : size;
}

void sluice_each_pointer(const struct block *block, uint64_t from, uint64_t to, each_pointer action) {
  const struct sluice_type *type = block->type;
  /* what is smaller than its type was allocated up to the member of a union that it uses */
  const int one = type && (type->open || block->size < type->size);
  const uint64_t count = !type || !type->size ? 0 : one ? 1 : block->size / type->size;
  if (to > block->size) to = block->size;
  for (uint64_t n = count ? from / type->size : 0; n < count && n * type->size < to; n++)
    pointers_of(block, type, n * type->size, from, to, action);
  if (block->object && type && count && count * type->size < block->size)
    rest_of(block, count * type->size, from, to, action);
  for (uint64_t i = 0; block->object && i < block->object->view_count; i++) {
    const struct view view = block->object->views[i]; /* an action may add views */
    if (view.offset >= to) break;
    if (view.seen != exports) continue;
    /* without a type of the object, the rest is treated as more of the same: an array after an allocator's header */
    const uint64_t end = type ? view.offset + view.type->size : end_of_views(block->object, i + 1, block->size);
    uint64_t at = view.offset;
    if (from > at) at += (from - at) / view.type->size * view.type->size;
    for (; at < to && at + view.type->size <= end && end <= block->size; at += view.type->size)
      pointers_of(block, view.type, at, from, to, action);
  }
}

void *sluice_pointer_at(const struct block *block, uint64_t offset) {
  void *value;
  memcpy(&value, block->memory + offset, sizeof(value));
  return value;
}

int sluice_object_set_type(struct object *object, const struct sluice_type *type, uint64_t inside) {
  if (object->type && !object->type->guess) return 0;
  const struct sluice_type *before = object->type;
  if (object->structure)
    for (size_t i = 0; sluice_state_structures[i]; i++)
      if (strcmp(sluice_state_structures[i]->name, object->structure) == 0 &&
          sluice_state_structures[i]->size <= object->size) {
        object->type = sluice_state_structures[i];
        return 1;
      }
  if (!type || !type->size || inside != 0) return 0;
  object->type = type;
  return object->type != before;
}

int sluice_object_add_view(struct object *object, const struct sluice_type *type, uint64_t inside) {
  if (!type || !type->size || type->guess || inside + type->size > object->size) return 0;
  const struct sluice_type *own = object->type;
  if (own && own->size && !own->guess) { /* an element of an array, or a member */
    if (own == type && inside % own->size == 0 && !own->open) return 0;
    if (inside < own->size || (!own->open && object->size % own->size == 0)) return 0;
  }
  if (inside % sizeof(void *)) object->unaligned = 1;
  uint64_t low = 0, high = object->view_count;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (object->views[middle].offset < inside)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < object->view_count && object->views[low].offset == inside) {
    struct view *known = &object->views[low];
    const int is_new = known->seen != exports || known->type != type;
    if (known->seen == exports) return 0; /* by its first pointer */
    *known = (struct view){inside, type, exports};
    return is_new;
  }
  if (object->view_count == object->view_space) {
    const uint64_t space = object->view_space ? 2 * object->view_space : 16;
    struct view *grown = sluice_real_realloc(object->views, space * sizeof(*grown));
    if (!grown) return -1;
    object->views = grown;
    object->view_space = space;
  }
  memmove(&object->views[low + 1], &object->views[low], (object->view_count - low) * sizeof(struct view));
  object->views[low] = (struct view){inside, type, exports};
  object->view_count++;
  return 1;
}
