/* Checks the bytes of updated variables (`sluice analyze check --bits`): after each packet, memory that changed has to belong
 * to variables of which all have their byte set. Memory is that of the variables, and all objects reached from them, as
 * an export finds them. Findings go to the file that SLUICE_ORACLE names, as those of ../oracle/run_time.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"

struct copy { /* of a variable, after the packet before */
  const unsigned char *memory;
  uint8_t *bytes;
  uint64_t size;
  int changed, missed; /* and reported */
};

static FILE *output;
static struct copy *copies;
static uint64_t receives, not_watched;

static void report(const char *kind, uint64_t variable, uint64_t offset) {
  fprintf(output, "{\"%s\": \"%s\", \"offset\": %llu, \"packet\": %llu}\n", kind, sluice_state_variables[variable].name,
          (unsigned long long)offset, (unsigned long long)receives);
  fflush(output);
}

static void finish(void) {
  if (!output) return;
  fprintf(output, "{\"packets\": %llu, \"not_watched\": %llu}\n", (unsigned long long)receives,
          (unsigned long long)not_watched);
  fflush(output);
}

/* Memory that belongs to a variable changed at an offset. */
static void judge(uint64_t variable, uint64_t offset) {
  struct copy *copy = &copies[variable];
  int *reported = sluice_state_changed[variable] ? &copy->changed : &copy->missed;
  if (!*reported) report(sluice_state_changed[variable] ? "changed" : "missed", variable, offset);
  *reported = 1;
}

static uint64_t first_difference(const uint8_t *one, const uint8_t *other, uint64_t size) {
  uint64_t at = 0;
  while (at < size && one[at] == other[at]) at++;
  return at;
}

/* Copies memory again. Returns 0 if memory is exhausted, which the summary reports as not watched. */
static int copy_again(uint8_t **to, const uint8_t *from, uint64_t size) {
  if (!*to && !(*to = sluice_real_malloc(size ? size : 1))) {
    not_watched++;
    return 0;
  }
  memcpy(*to, from, size);
  return 1;
}

static void compare_variable(uint64_t number) {
  const struct row *row = &sluice_state_variables[number];
  struct copy *copy = &copies[number];
  if (row->memory != copy->memory || row->size != copy->size) { /* of another call of its function */
    sluice_real_free(copy->bytes);
    copy->bytes = NULL;
    copy->memory = row->memory;
    copy->size = row->size;
  }
  if (!row->memory) return;
  if (copy->bytes) {
    const uint64_t at = first_difference(copy->bytes, row->memory, row->size);
    if (at < row->size) judge(number, at);
  }
  copy_again(&copy->bytes, row->memory, row->size);
}

/* Of an object, whether it changed is found once, as several variables may refer to it. */
static void compare_object(struct object *object, uint64_t variable) {
  if (object->compared != receives) {
    object->compared = receives;
    object->difference = object->size;
    if (object->copy) object->difference = first_difference(object->copy, (uint8_t *)object->address, object->size);
    copy_again(&object->copy, (uint8_t *)object->address, object->size);
  }
  if (object->difference < object->size) judge(variable, object->difference);
}

static void check(void *context, const struct sluice_packet *packet) {
  (void)context;
  (void)packet;
  /* not before the first packet: programs close unknown descriptors */
  if (!output && !(output = fopen(getenv("SLUICE_ORACLE"), "w"))) return;
  receives++;
  for (uint64_t number = 0; number < sluice_state_variables_count; number++) compare_variable(number);
  if (sluice_each_object(compare_object) != 0) not_watched++;
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SLUICE_ORACLE");
  if (!path) return;
  copies = sluice_real_malloc((sluice_state_variables_count + 1) * sizeof(*copies));
  if (!copies) return;
  memset(copies, 0, (sluice_state_variables_count + 1) * sizeof(*copies));
  sluice_state_on_packet(check, NULL);
  atexit(finish);
}
