/* Exports variables and the memory reached from them. The generated code has the places and types of pointers;
 * objects.c has the allocated memory. */
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "export.h"

static uint8_t **shadows; /* of variables */
static struct visit { /* of an object, from a variable */
  struct object *object;
  uint64_t variable;
} *queue;
static size_t queue_count, queue_space;
static enum { ONLY_NONE, ONLY_ENTRIES, ONLY_OTHERS } only;
static uint64_t walked_from; /* the variable */
static uint64_t walks, exports, packet_number;

uint64_t sluice_layout(void) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (uint64_t i = 0; i < sluice_state_variables_count; i++)
    for (const char *at = sluice_state_variables[i].name;; at++) {
      hash = (hash ^ (uint8_t)*at) * 1099511628211u;
      if (!*at) break;
    }
  return (hash ^ (uint64_t)(&_end - &__executable_start)) * 1099511628211u;
}

static void follow(const struct block *block, uint64_t offset, const struct sluice_member *member) {
  if (member->kind != SLUICE_POINTER && member->kind != SLUICE_MAYBE) return;
  void *value = sluice_pointer_at(block, offset);
  struct object *object = value ? sluice_object_at(value) : NULL;
  if (!object) return;
  const uint64_t inside = (uint64_t)value - object->address;
  const int typed = sluice_object_set_type(object, member->of, inside);
  const int viewed = sluice_object_add_view(object, member->of, inside);
  if (viewed < 0) {
    sluice_output.failed = 1;
    return;
  }
  if (object->walked == walks && !typed && !viewed) return; /* else its targets were not known before */
  object->walked = walks;
  if (queue_count == queue_space) {
    size_t space = queue_space ? 2 * queue_space : 1024;
    struct visit *grown = sluice_real_realloc(queue, space * sizeof(*grown));
    if (!grown) {
      sluice_output.failed = 1;
      return;
    }
    queue = grown;
    queue_space = space;
  }
  queue[queue_count++] = (struct visit){object, walked_from};
}

static void put_block(const struct block *block, uint64_t variable, enum sluice_model model) {
  if (!block->size) return;
  if (!*block->shadow) { /* the first export of it */
    *block->shadow = sluice_real_malloc(block->size);
    if (!*block->shadow) sluice_output.failed = 1;
    sluice_put_range(block, 0, block->size);
  } else if (model == SLUICE_ALL || (model != SLUICE_DIFFERENCE && !sluice_has_entries(variable, NULL))) {
    sluice_put_range(block, 0, block->size);
  } else if (model == SLUICE_DIFFERENCE) {
    sluice_put_difference(block, 0, block->size);
  } else {
    sluice_put_entries(block, variable);
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
  const struct row *row = &sluice_state_variables[number];
  const struct block own = {row->memory, row->size, FIRST_VARIABLE + number, sluice_state_types[number].type, NULL, NULL};
  walks++;
  walked_from = number;
  size_t at = queue_count;
  sluice_each_pointer(&own, 0, own.size, follow);
  for (; at < queue_count && !sluice_output.failed; at++) {
    const struct block block = block_of(queue[at].object);
    sluice_each_pointer(&block, 0, block.size, follow);
  }
}

int sluice_each_object(void (*action)(struct object *object, uint64_t variable)) {
  sluice_output.failed = 0;
  exports++;
  sluice_contents_begin();
  queue_count = 0;
  for (uint64_t number = 0; number < sluice_state_variables_count; number++)
    if (sluice_state_variables[number].memory) walk(number);
  for (size_t i = 0; i < queue_count; i++) action(queue[i].object, queue[i].variable);
  return sluice_output.failed ? -1 : 0;
}

static int is_exported(uint64_t number, enum sluice_model model) {
  const struct row *row = &sluice_state_variables[number];
  if (!sluice_state_types[number].is_state || !row->memory || !row->size) return 0;
  if (only != ONLY_NONE && sluice_has_entries(number, NULL) != (only == ONLY_ENTRIES)) return 0;
  return model != SLUICE_CHANGED || sluice_state_changed[number];
}

int sluice_export_some(const struct opennf_filter *given, size_t count, int with_entries, struct sluice_export *result) {
  sluice_entries_select(given, count);
  only = with_entries ? ONLY_ENTRIES : ONLY_OTHERS;
  const int failed = sluice_state_export(SLUICE_FLOW, result);
  sluice_entries_select(NULL, 0);
  only = ONLY_NONE;
  return failed;
}

/* Drawn once; a process that was forked exports as its parent did. */
static uint64_t own_instance(void) {
  static uint64_t drawn;
  if (!drawn && getrandom(&drawn, sizeof(drawn), GRND_NONBLOCK) != sizeof(drawn))
    drawn = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
  return drawn;
}

int sluice_state_export(enum sluice_model model, struct sluice_export *result) {
  sluice_output.size = 0;
  sluice_output.records = sluice_output.outside_flow = sluice_output.by_hand = 0;
  sluice_output.failed = 0;
  if (!shadows) {
    const size_t size = (sluice_state_variables_count + 1) * sizeof(*shadows);
    shadows = sluice_real_malloc(size);
    if (!shadows) return -1;
    memset(shadows, 0, size);
    model = SLUICE_ALL; /* to an instance that has nothing */
  }
  exports++;
  sluice_contents_begin();
  struct header header = {EXPORT_MAGIC, sluice_layout(), own_instance(), packet_number++, 0};
  sluice_put(&header, sizeof(header));
  for (uint64_t id; (id = sluice_object_take_freed()) && !sluice_output.failed; sluice_output.records++) {
    const struct record record = {id, 0, 0, 0, 0};
    sluice_put(&record, sizeof(record));
  }
  queue_count = 0;
  if (!&sluice_state_type_count) return -1; /* the types of the variables are missing */
  /* also from variables that did not change: memory reached from them may give the type of that reached from others */
  for (uint64_t number = 0; number < sluice_state_variables_count; number++)
    if (is_exported(number, SLUICE_FLOW)) walk(number);
  for (uint64_t number = 0, at = 0; number < sluice_state_variables_count; number++) {
    if (!is_exported(number, model)) continue;
    while (at < queue_count && queue[at].variable < number) at++;
    const struct block own = block_of_variable(number);
    put_block(&own, number, model);
    for (; at < queue_count && queue[at].variable == number && !sluice_output.failed; at++) {
      const struct block block = block_of(queue[at].object);
      if (queue[at].object->sent != exports) put_block(&block, number, model);
      queue[at].object->sent = exports;
    }
  }
  if (sluice_output.failed) return -1;
  header.records = sluice_output.records;
  memcpy(sluice_output.bytes, &header, sizeof(header));
  *result = (struct sluice_export){sluice_output.bytes, sluice_output.size, sluice_output.records, sluice_output.outside_flow, sluice_output.by_hand};
  return 0;
}
