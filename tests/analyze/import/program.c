/* A program's state as instrumentation and `serialise` describe it, without a program: for bytes that are imported. A list,
 * an array of pointers, a structure that contains another, a union, a function, a value. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct entry {
  uint64_t key;
  struct entry *next;
  char *text;
};

struct outer {
  uint32_t count;
  struct entry first;
  void *library;
};

static struct entry *list, *table[4];
static struct outer outer;
static union {
  void *pointer;
  uint64_t number;
} either;
static int (*function)(void);
static uint32_t value[5];

struct row sluice_state_variables[] = {
    {"list", (unsigned char *)&list, sizeof(list)},          {"table", (unsigned char *)table, sizeof(table)},
    {"outer", (unsigned char *)&outer, sizeof(outer)},       {"either", (unsigned char *)&either, sizeof(either)},
    {"function", (unsigned char *)&function, sizeof(function)}, {"value", (unsigned char *)value, sizeof(value)},
    {"main: local", NULL, 0},
};
#define VARIABLES (sizeof(sluice_state_variables) / sizeof(*sluice_state_variables))
const uint64_t sluice_state_variables_count = VARIABLES;
uint8_t sluice_state_changed[(VARIABLES + 7) / 8 * 8];
const struct name sluice_state_fields[] = {{"", 0, 0, 0}}, sluice_state_comparisons[] = {{"", 0, 0, 0}};
const uint64_t sluice_state_fields_count = 0, sluice_state_comparisons_count = 0;

static const struct sluice_type of_entry;
static const struct sluice_member members_of_entry[] = {
    {"key", 0, SLUICE_BYTES, NULL, 8}, {"next", 8, SLUICE_POINTER, &of_entry, 1}, {"text", 16, SLUICE_POINTER, NULL, 1}};
static const struct sluice_type of_entry = {"entry", sizeof(struct entry), members_of_entry, 3, 0, 0};
static const struct sluice_member members_of_outer[] = {{"count", 0, SLUICE_BYTES, NULL, 4},
                                                        {"first", 8, SLUICE_RECORD, &of_entry, 1},
                                                        {"library", 32, SLUICE_KEPT, NULL, 1}};
static const struct sluice_type of_outer = {"outer", sizeof(struct outer), members_of_outer, 3, 0, 0};
static const struct sluice_member to_entry[] = {{"pointer", 0, SLUICE_POINTER, &of_entry, 1}};
static const struct sluice_type pointers_to_entry = {"pointer", 8, to_entry, 1, 0, 0};
static const struct sluice_member maybe[] = {{"", 0, SLUICE_MAYBE, NULL, 1}};
static const struct sluice_type of_either = {"", 8, maybe, 1, 0, 0};
static const struct sluice_member to_function[] = {{"pointer", 0, SLUICE_POINTER, NULL, 1}};
static const struct sluice_type of_function = {"pointer", 8, to_function, 1, 0, 0};
const struct sluice_variable sluice_state_types[] = {
    {"list", &pointers_to_entry, 1}, {"table", &pointers_to_entry, 1}, {"outer", &of_outer, 1},
    {"either", &of_either, 1},       {"function", &of_function, 1},    {"value", NULL, 1},
    {"main: local", NULL, 1},
};
const uint64_t sluice_state_type_count = VARIABLES;
const struct sluice_type *const sluice_state_structures[] = {NULL};

/* Allocation is not redirected here, so that the fuzzer's own memory is none of the program's. */
void *__real_malloc(size_t size) { return malloc(size); }
void *__real_calloc(size_t count, size_t size) { return calloc(count, size); }
void *__real_realloc(void *memory, size_t size) { return realloc(memory, size); }
void __real_free(void *memory) { free(memory); }

static struct entry *entry_new(uint64_t key, struct entry *next) {
  struct object *object = sluice_object_new(sizeof(struct entry)), *text = sluice_object_new(8);
  if (!object || !text) abort();
  struct entry *made = (struct entry *)object->address;
  *made = (struct entry){key, next, (char *)text->address};
  memcpy(made->text, "sluice", 7);
  return made;
}

static int one(void) { return 1; }
const struct place sluice_state_image[] = {{(const char *)&list, sizeof(list)},   {(const char *)table, sizeof(table)},
                                           {(const char *)&outer, sizeof(outer)}, {(const char *)&either, sizeof(either)},
                                           {(const char *)&function, sizeof(function)},
                                           {(const char *)value, sizeof(value)},  {(const char *)one, 0}};
const uint64_t sluice_state_image_count = sizeof(sluice_state_image) / sizeof(*sluice_state_image);

void program_process(unsigned packet) {
  struct entry *made = entry_new(packet, list);
  struct entry *old = table[packet % 4];
  list = table[packet % 4] = made;
  if (packet % 5 == 4 && old && list->next) { /* the second leaves */
    struct entry *leaves = list->next;
    list->next = leaves->next;
    for (size_t i = 0; i < 4; i++)
      if (table[i] == leaves) table[i] = list;
    if (either.pointer == leaves || outer.first.next == leaves) either.pointer = outer.first.next = NULL;
    sluice_object_free(sluice_object_at(leaves->text));
    sluice_object_free(sluice_object_at(leaves));
  }
  outer = (struct outer){packet, {packet, packet % 3 ? list : NULL, NULL}, NULL};
  if (packet % 2)
    either.pointer = &table[1];
  else
    either.number = packet;
  function = one;
  value[packet % 5]++;
}

const void *program_object(void) { return table[2]; }

uint64_t program_sum(void) {
  uint64_t sum = 0, steps = 0;
  for (const struct entry *at = list; at && steps < 1000; at = at->next, steps++) {
    sum = 31 * sum + at->key;
    if (at->text) sum += (unsigned char)at->text[0];
  }
  for (size_t i = 0; i < 4; i++) sum = 31 * sum + (table[i] ? table[i]->key : 0);
  for (size_t i = 0; i < 5; i++) sum = 31 * sum + value[i];
  sum = 31 * sum + outer.count + outer.first.key + (outer.first.next ? outer.first.next->key : 0);
  return 31 * sum + (either.pointer == &table[1] ? 1 : either.number) + (function ? 1 : 0);
}

/* The bytes of all variables, which a refused import may not change. */
size_t program_bytes(uint8_t *to) {
  size_t size = 0;
  for (size_t i = 0; i < VARIABLES; i++) {
    const struct row *row = &sluice_state_variables[i];
    if (row->memory) memcpy(to + size, row->memory, row->size);
    size += row->size;
  }
  return size;
}
