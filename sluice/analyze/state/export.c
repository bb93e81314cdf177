/* Exports variables and the memory that they lead to. The generated code says where pointers are, and of what type;
 * objects.c says which memory there is. */
#include <string.h>

#include "internal.h"

struct block { /* memory of a variable, or an object */
  uint8_t *memory;
  uint64_t size, id;
  const struct sluice_type *type;
  uint8_t **shadow;
  const struct object *object; /* NULL for a variable */
};

static struct {
  uint8_t *bytes;
  size_t size, space;
  uint64_t records, outside_flow, by_hand;
  int failed;
} out;

static uint8_t **shadows; /* of variables */
static struct visit { /* of an object, from a variable */
  struct object *object;
  uint64_t variable;
} *queue;
static size_t queue_count, queue_space;
static const struct opennf_filter *filters; /* of opennf.c */
static size_t filter_count;
static enum { ONLY_NONE, ONLY_ENTRIES, ONLY_OTHERS } only;
static uint64_t walked_from; /* the variable */
static uint64_t walks, exports, packet_number;

static void *room(size_t size) {
  if (out.size + size > out.space) {
    size_t space = 2 * out.space + size + 4096;
    uint8_t *grown = sluice_real_realloc(out.bytes, space);
    if (!grown) {
      out.failed = 1;
      return NULL;
    }
    out.bytes = grown;
    out.space = space;
  }
  void *place = out.bytes + out.size;
  out.size += size;
  return place;
}

static void put(const void *bytes, size_t size) {
  void *place = room(size);
  if (place) memcpy(place, bytes, size);
}

uint64_t sluice_layout(void) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (uint64_t i = 0; i < sluice_state_variables_count; i++)
    for (const char *at = sluice_state_variables[i].name;; at++) {
      hash = (hash ^ (uint8_t)*at) * 1099511628211u;
      if (!*at) break;
    }
  return (hash ^ (uint64_t)(&_end - &__executable_start)) * 1099511628211u;
}

/* ---- pointers of a block ---- */

typedef void (*each_pointer)(const struct block *block, uint64_t offset, const struct sluice_member *member);

static void pointers_of(const struct block *block, const struct sluice_type *type, uint64_t at, uint64_t from,
                        uint64_t to, each_pointer action) {
  for (uint64_t i = 0; i < type->member_count; i++) {
    const struct sluice_member *member = &type->members[i];
    if (member->kind == SLUICE_BYTES) continue;
    const uint64_t step = member->kind == SLUICE_RECORD ? member->of->size : sizeof(void *);
    uint64_t first = 0; /* arrays may be large, and what is asked for small */
    if (step && from > at + member->offset) first = (from - at - member->offset) / step;
    for (uint64_t n = first; n < member->count; n++) {
      const uint64_t offset = at + member->offset + n * step;
      if (offset >= to || offset + step > block->size) break;
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
  for (; at + 8 <= to && at + 8 <= block->size; at += 8) {
    const struct object *object = block->object;
    while (next < object->view_count && object->views[next].offset + object->views[next].type->size <= at) next++;
    if (next < object->view_count && object->views[next].offset <= at && object->views[next].seen == exports) continue;
    action(block, at, &maybe);
  }
}

/* Of bytes [from, to): in the block's own type, and in what lies within it. */
static void each(const struct block *block, uint64_t from, uint64_t to, each_pointer action) {
  const struct sluice_type *type = block->type;
  const uint64_t count = !type || !type->size ? 0 : type->open ? 1 : block->size / type->size;
  for (uint64_t n = count ? from / type->size : 0; n < count && n * type->size < to; n++)
    pointers_of(block, type, n * type->size, from, to, action);
  if (block->object && type && count && count * type->size < block->size)
    rest_of(block, count * type->size, from, to, action);
  for (uint64_t i = 0; block->object && i < block->object->view_count; i++) {
    const struct view view = block->object->views[i]; /* an action may add views */
    if (view.offset >= to) break;
    if (view.seen == exports && view.offset + view.type->size > from && view.offset + view.type->size <= block->size)
      pointers_of(block, view.type, view.offset, from, to, action);
  }
}

static void *pointer_at(const struct block *block, uint64_t offset) {
  void *value;
  memcpy(&value, block->memory + offset, sizeof(value));
  return value;
}

/* The type of an object: that with which the program allocated it, or that of the first pointer to it. Returns whether it
 * became known. */
static int set_type(struct object *object, const struct sluice_type *type, uint64_t inside) {
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

/* Notes that a structure lies within an object. Returns whether that is new in this export. */
static int add_view(struct object *object, const struct sluice_type *type, uint64_t inside) {
  if (!type || !type->size || type->guess || inside + type->size > object->size) return 0;
  const struct sluice_type *own = object->type;
  if (own && own->size && !own->guess) { /* an element of an array, or a member */
    if (own == type && inside % own->size == 0 && !own->open) return 0;
    if (inside < own->size || (!own->open && object->size % own->size == 0)) return 0;
  }
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
    if (!grown) {
      out.failed = 1;
      return 0;
    }
    object->views = grown;
    object->view_space = space;
  }
  memmove(&object->views[low + 1], &object->views[low], (object->view_count - low) * sizeof(struct view));
  object->views[low] = (struct view){inside, type, exports};
  object->view_count++;
  return 1;
}

static void follow(const struct block *block, uint64_t offset, const struct sluice_member *member) {
  if (member->kind != SLUICE_POINTER && member->kind != SLUICE_MAYBE) return;
  void *value = pointer_at(block, offset);
  struct object *object = value ? sluice_object_at(value) : NULL;
  if (!object) return;
  const uint64_t inside = (uint64_t)value - object->address;
  const int typed = set_type(object, member->of, inside), viewed = add_view(object, member->of, inside);
  if (object->walked == walks && !typed && !viewed) return; /* else what it points to was not known before */
  object->walked = walks;
  if (queue_count == queue_space) {
    size_t space = queue_space ? 2 * queue_space : 1024;
    struct visit *grown = sluice_real_realloc(queue, space * sizeof(*grown));
    if (!grown) {
      out.failed = 1;
      return;
    }
    queue = grown;
    queue_space = space;
  }
  queue[queue_count++] = (struct visit){object, walked_from};
}

/* ---- records ---- */

static void put_pointer(const struct block *block, uint64_t offset, const struct sluice_member *member) {
  char *value = pointer_at(block, offset);
  struct pointer found = {offset, TARGET_KEPT, 0};
  struct object *object;
  if (!value) {
    if (member->kind == SLUICE_MAYBE) return; /* bytes say the same */
    found.target = TARGET_NULL;
  } else if (member->kind == SLUICE_KEPT || member->kind == SLUICE_BY_HAND) {
    out.by_hand += member->kind == SLUICE_BY_HAND;
  } else if (value >= &__executable_start && value <= &_end) {
    found.target = TARGET_IMAGE;
    found.target_offset = (uint64_t)(value - &__executable_start);
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
    out.by_hand += found.target == TARGET_KEPT && member->kind != SLUICE_MAYBE;
  }
  if (found.target != TARGET_KEPT || member->kind != SLUICE_MAYBE) put(&found, sizeof(found));
}

static void put_range(const struct block *block, uint64_t from, uint64_t to) {
  from &= ~(uint64_t)7; /* whole pointers */
  to = to + 7 < block->size ? (to + 7) & ~(uint64_t)7 : block->size;
  struct record record = {block->id, block->size, from, to - from, 0};
  const size_t at = out.size;
  put(&record, sizeof(record));
  put(block->memory + from, to - from);
  put("\0\0\0\0\0\0\0", -(to - from) & 7);
  const size_t first = out.size;
  each(block, from, to, put_pointer);
  if (out.failed) return;
  record.pointers = (out.size - first) / sizeof(struct pointer);
  memcpy(out.bytes + at, &record, sizeof(record));
  if (*block->shadow) memcpy(*block->shadow + from, block->memory + from, to - from);
  out.records++;
}

/* The parts of [from, to) that differ from what was exported last. Returns whether there were any. */
static int put_difference(const struct block *block, uint64_t from, uint64_t to) {
  int found = 0;
  for (uint64_t at = from & ~(uint64_t)7; at < to;) {
    uint64_t end = at;
    while (end < to) {
      const uint64_t bytes = block->size - end < 8 ? block->size - end : 8;
      if (memcmp(block->memory + end, *block->shadow + end, bytes) == 0) break;
      end += 8;
    }
    if (end > at) {
      put_range(block, at, end < to ? end : to);
      found = 1;
    }
    at = end + 8;
  }
  return found;
}

/* Whether a flow that was asked for by its members' values has the entry. */
static int passes(const struct sluice_type *type, const uint8_t *entry) {
  for (size_t n = 0; n < filter_count; n++) {
    const struct sluice_member *member = NULL;
    for (uint64_t i = 0; i < type->member_count && !member; i++)
      if (strcmp(type->members[i].name, filters[n].member) == 0) member = &type->members[i];
    if (!member || member->offset + filters[n].size > type->size) return 0;
    if (memcmp(entry + member->offset, filters[n].value, filters[n].size) != 0) return 0;
  }
  return 1;
}

static int is_of_flow(uint64_t variable, const struct sluice_type *type, const uint8_t *entry) {
  if (filters) return passes(type, entry);
  int found = 0;
  for (uint64_t i = 0; i < sluice_state_comparisons_count; i++) {
    const struct name *one = &sluice_state_comparisons[i];
    const struct sought *sought = sluice_sought(i);
    if (one->variable != variable || strcmp(one->name, type->name) != 0 || !sought->count) continue;
    int matches = sought->count > SOUGHT_MOST;
    for (uint64_t n = 0; n < sought->count && !matches; n++)
      matches = memcmp(entry + one->offset, sought->values[n], one->size < SOUGHT_BYTES ? one->size : SOUGHT_BYTES) == 0;
    if (!matches) return 0;
    found = 1;
  }
  return found;
}

static int has_entries(uint64_t variable, const struct sluice_type *type) {
  for (uint64_t i = 0; i < sluice_state_comparisons_count; i++)
    if (sluice_state_comparisons[i].variable == variable &&
        (!type || strcmp(sluice_state_comparisons[i].name, type->name) == 0))
      return 1;
  return 0;
}

static void put_entry(const struct block *block, uint64_t variable, const struct sluice_type *type, uint64_t at) {
  if (is_of_flow(variable, type, block->memory + at))
    put_range(block, at, at + type->size);
  else
    out.outside_flow += (uint64_t)put_difference(block, at, at + type->size);
}

/* What belongs to the flow, and what else changed. */
static void put_entries(const struct block *block, uint64_t variable) {
  const struct sluice_type *type = block->type;
  if (type && type->size && has_entries(variable, type)) {
    for (uint64_t at = 0; at + type->size <= block->size; at += type->size) put_entry(block, variable, type, at);
    return;
  }
  uint64_t at = 0;
  for (uint64_t i = 0; block->object && i < block->object->view_count; i++) {
    const struct view *view = &block->object->views[i];
    if (view->seen != exports || view->offset < at || !has_entries(variable, view->type)) continue;
    put_difference(block, at, view->offset);
    put_entry(block, variable, view->type, view->offset);
    at = view->offset + view->type->size;
  }
  put_difference(block, at, block->size);
}

static void put_block(const struct block *block, uint64_t variable, enum sluice_model model) {
  if (!block->size) return;
  if (!*block->shadow) { /* the first export of it */
    *block->shadow = sluice_real_malloc(block->size);
    if (!*block->shadow) out.failed = 1;
    put_range(block, 0, block->size);
  } else if (model == SLUICE_ALL || (model != SLUICE_DIFFERENCE && !has_entries(variable, NULL))) {
    put_range(block, 0, block->size);
  } else if (model == SLUICE_DIFFERENCE) {
    put_difference(block, 0, block->size);
  } else {
    put_entries(block, variable);
  }
}

static struct block block_of(struct object *object) {
  return (struct block){(uint8_t *)object->address, object->size, object->id, object->type, &object->shadow, object};
}

static struct block block_of_variable(uint64_t number) {
  const struct row *row = &sluice_state_variables[number];
  return (struct block){row->memory, row->size, FIRST_VARIABLE + number, sluice_state_types[number].type,
                        &shadows[number], NULL};
}

/* Finds all memory that a variable leads to. An object is in the queue again if more of its pointers became known. */
static void walk(uint64_t number) {
  const struct block own = block_of_variable(number);
  walks++;
  walked_from = number;
  size_t at = queue_count;
  each(&own, 0, own.size, follow);
  for (; at < queue_count && !out.failed; at++) {
    const struct block block = block_of(queue[at].object);
    each(&block, 0, block.size, follow);
  }
}

static int is_exported(uint64_t number, enum sluice_model model) {
  const struct row *row = &sluice_state_variables[number];
  if (!sluice_state_types[number].is_state || !row->memory || !row->size) return 0;
  if (only != ONLY_NONE && has_entries(number, NULL) != (only == ONLY_ENTRIES)) return 0;
  return model != SLUICE_CHANGED || sluice_state_changed[number];
}

int sluice_export_some(const struct opennf_filter *given, size_t count, int with_entries, struct sluice_export *result) {
  filters = given;
  filter_count = count;
  only = with_entries ? ONLY_ENTRIES : ONLY_OTHERS;
  const int failed = sluice_state_export(SLUICE_FLOW, result);
  filters = NULL;
  only = ONLY_NONE;
  return failed;
}

int sluice_state_export(enum sluice_model model, struct sluice_export *result) {
  out.size = 0;
  out.records = out.outside_flow = out.by_hand = 0;
  out.failed = 0;
  if (!shadows) {
    const size_t size = (sluice_state_variables_count + 1) * sizeof(*shadows);
    shadows = sluice_real_malloc(size);
    if (!shadows) return -1;
    memset(shadows, 0, size);
    model = SLUICE_ALL; /* to an instance that has nothing */
  }
  exports++;
  struct header header = {EXPORT_MAGIC, sluice_layout(), packet_number++, 0};
  put(&header, sizeof(header));
  for (uint64_t id; (id = sluice_object_take_freed()) && !out.failed; out.records++) {
    const struct record record = {id, 0, 0, 0, 0};
    put(&record, sizeof(record));
  }
  queue_count = 0;
  if (!&sluice_state_type_count) return -1; /* nothing says what the variables contain */
  for (uint64_t number = 0; number < sluice_state_variables_count; number++)
    if (is_exported(number, model)) walk(number);
  for (uint64_t number = 0, at = 0; number < sluice_state_variables_count; number++) {
    if (!is_exported(number, model)) continue;
    const struct block own = block_of_variable(number);
    put_block(&own, number, model);
    for (; at < queue_count && queue[at].variable == number && !out.failed; at++) {
      const struct block block = block_of(queue[at].object);
      if (queue[at].object->sent != exports) put_block(&block, number, model);
      queue[at].object->sent = exports;
    }
  }
  if (out.failed) return -1;
  header.records = out.records;
  memcpy(out.bytes, &header, sizeof(header));
  *result = (struct sluice_export){out.bytes, out.size, out.records, out.outside_flow, out.by_hand};
  return 0;
}
