/* Called by the instrumented program: collects the changes of a packet, and its flow key. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "internal.h"

void sluice_state_packet(void);
void sluice_state_local(uint64_t variable, void *memory, uint64_t size);
void sluice_state_field(uint64_t field, uint64_t value, uint64_t size);
void sluice_state_field_bytes(uint64_t field, const void *bytes, uint64_t size);
void sluice_state_sought(uint64_t comparison, uint64_t value, uint64_t size);
void sluice_state_sought_bytes(uint64_t comparison, const void *bytes, uint64_t size);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sluice_packet_callback callback;
static void *callback_context;
static struct sluice_field *fields;
static struct sought *sought;
static uint64_t *compared, compared_count; /* comparisons with a value of this packet */
static uint64_t packets;
uint8_t sluice_state_watched;

static void clear(void) {
  memset(sluice_state_changed, 0, sluice_state_variables_count);
  for (uint64_t i = 0; i < sluice_state_fields_count; i++) fields[i].size = 0;
  while (compared_count) sought[compared[--compared_count]].count = 0;
}

void sluice_state_on_packet(sluice_packet_callback given, void *context) {
  callback = given;
  callback_context = context;
  if (given) sluice_state_watched = 1;
}

const char *sluice_state_name(uint64_t variable) {
  return variable < sluice_state_variables_count ? sluice_state_variables[variable].name : NULL;
}

const struct sought *sluice_sought(uint64_t comparison) { return sought ? &sought[comparison] : NULL; }

static void last_packet(void) { /* which has no receive call after it */
  if (sluice_state_watched) sluice_state_packet();
}

/* Before main, so that no packet precedes it. */
__attribute__((constructor)) static void start(void) {
  fields = calloc(sluice_state_fields_count + 1, sizeof(*fields));
  sought = calloc(sluice_state_comparisons_count + 1, sizeof(*sought));
  compared = calloc(sluice_state_comparisons_count + 1, sizeof(*compared));
  if (!fields || !sought || !compared) abort(); /* before the program began: nothing is lost */
  for (uint64_t i = 0; i < sluice_state_fields_count; i++) {
    fields[i].name = sluice_state_fields[i].name;
    fields[i].variable = sluice_state_fields[i].variable;
  }
  if (sluice_standby_wanted()) sluice_state_watched = 1;
  atexit(last_packet);
}

void sluice_state_packet(void) {
  const int alone = __libc_single_threaded;
  if (!alone) pthread_mutex_lock(&lock);
  const struct sluice_packet packet = {packets, sluice_state_changed, sluice_state_variables_count, fields,
                                       sluice_state_fields_count};
  if (callback) callback(callback_context, &packet);
  sluice_standby(&packet);
  clear();
  packets++;
  if (!alone) pthread_mutex_unlock(&lock);
}

void sluice_state_local(uint64_t variable, void *memory, uint64_t size) {
  struct row *row = &sluice_state_variables[variable];
  row->memory = memory;
  row->size = size;
}

void sluice_state_field(uint64_t field, uint64_t value, uint64_t size) {
  memcpy(fields[field].value, &value, 8);
  fields[field].size = size;
}

void sluice_state_field_bytes(uint64_t field, const void *bytes, uint64_t size) {
  if (size > SLUICE_FIELD_BYTES) size = SLUICE_FIELD_BYTES;
  memcpy(fields[field].value, bytes, size);
  fields[field].size = size;
}

void sluice_state_sought_bytes(uint64_t comparison, const void *bytes, uint64_t size) {
  struct sought *one = &sought[comparison];
  if (one->count > SOUGHT_MOST) return;
  if (!one->count) compared[compared_count++] = comparison;
  if (size > SOUGHT_BYTES) size = SOUGHT_BYTES;
  for (uint64_t i = 0; i < one->count; i++)
    if (memcmp(one->values[i], bytes, size) == 0) return;
  if (one->count < SOUGHT_MOST) memcpy(one->values[one->count], bytes, size);
  one->count++;
}

/* The common case of a search: each entry is compared with the same number. */
void sluice_state_sought(uint64_t comparison, uint64_t value, uint64_t size) {
  const struct sought *one = &sought[comparison];
  uint64_t last;
  memcpy(&last, one->values[0], sizeof(last));
  if (one->count && last == value) return;
  sluice_state_sought_bytes(comparison, &value, sizeof(value));
  (void)size; /* the comparison's row has it */
}
