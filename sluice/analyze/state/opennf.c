#include "opennf.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

static int get(const struct opennf_filter *filters, size_t count, int with_entries, struct opennf_chunk *chunk) {
  struct sluice_export found;
  *chunk = (struct opennf_chunk){NULL, 0};
  if (sluice_export_some(filters, count, with_entries, &found) != 0) return -1;
  chunk->bytes = sluice_real_malloc(found.size);
  if (!chunk->bytes) return -1;
  memcpy(chunk->bytes, found.bytes, found.size);
  chunk->size = found.size;
  return 0;
}

int opennf_get_perflow(const struct opennf_filter *filters, size_t count, struct opennf_chunk *chunk) {
  static const struct opennf_filter none;
  return get(filters ? filters : &none, filters ? count : 0, 1, chunk);
}

int opennf_get_allflows(struct opennf_chunk *chunk) { return get(NULL, 0, 0, chunk); }

const char *opennf_put_perflow(const struct opennf_chunk *chunk) {
  return sluice_state_import(chunk->bytes, chunk->size);
}

const char *opennf_put_allflows(const struct opennf_chunk *chunk) {
  return sluice_state_import(chunk->bytes, chunk->size);
}

void opennf_free(struct opennf_chunk *chunk) {
  sluice_real_free(chunk->bytes);
  *chunk = (struct opennf_chunk){NULL, 0};
}
