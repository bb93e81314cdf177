/* Selects entries of a flow: those that the program compared with its search key while it processed the packet, or
 * those whose members have the values that OpenNF's controller names. */
#include <string.h>

#include "export.h"

static const struct opennf_filter *filters;
static size_t filter_count;

void sluice_entries_select(const struct opennf_filter *given, size_t count) {
  filters = given;
  filter_count = count;
}

/* Whether an entry has the values of members that a flow was requested by. */
static int passes(const struct sluice_type *type, const uint8_t *entry, uint64_t bytes) {
  for (size_t n = 0; n < filter_count; n++) {
    const struct sluice_member *member = NULL;
    for (uint64_t i = 0; i < type->member_count && !member; i++)
      if (strcmp(type->members[i].name, filters[n].member) == 0) member = &type->members[i];
    if (!member || member->offset + filters[n].size > bytes) return 0;
    if (memcmp(entry + member->offset, filters[n].value, filters[n].size) != 0) return 0;
  }
  return 1;
}

static int is_of_flow(uint64_t variable, const struct sluice_type *type, const uint8_t *entry, uint64_t bytes) {
  if (filters) return passes(type, entry, bytes);
  int found = 0;
  for (uint64_t i = 0; i < sluice_state_comparisons_count; i++) {
    const struct name *one = &sluice_state_comparisons[i];
    const struct sought *sought = sluice_sought(i);
    if (one->variable != variable || strcmp(one->name, type->name) != 0 || !sought->count) continue;
    if (one->offset + one->size > bytes) continue;
    int matches = sought->count > SOUGHT_MOST;
    for (uint64_t n = 0; n < sought->count && !matches; n++)
      matches = memcmp(entry + one->offset, sought->values[n], one->size < SOUGHT_BYTES ? one->size : SOUGHT_BYTES) == 0;
    if (!matches) return 0;
    found = 1;
  }
  return found;
}

int sluice_has_entries(uint64_t variable, const struct sluice_type *type) {
  for (uint64_t i = 0; i < sluice_state_comparisons_count; i++)
    if (sluice_state_comparisons[i].variable == variable &&
        (!type || strcmp(sluice_state_comparisons[i].name, type->name) == 0))
      return 1;
  return 0;
}

static void put_entry(const struct block *block, uint64_t variable, const struct sluice_type *type, uint64_t at) {
  /* the last one may end in the member of a union that it uses */
  const uint64_t end = type->size < block->size - at ? at + type->size : block->size;
  if (is_of_flow(variable, type, block->memory + at, end - at))
    sluice_put_range(block, at, end);
  else
    sluice_output.outside_flow += (uint64_t)sluice_put_difference(block, at, end);
}

void sluice_put_entries(const struct block *block, uint64_t variable) {
  const struct sluice_type *type = block->type;
  if (type && type->size && sluice_has_entries(variable, type)) {
    for (uint64_t at = 0; at < block->size; at += type->size) put_entry(block, variable, type, at);
    return;
  }
  uint64_t at = 0;
  for (uint64_t i = 0; block->object && i < block->object->view_count; i++) {
    const struct view *view = &block->object->views[i];
    if (!sluice_view_is_current(view) || view->offset < at || !sluice_has_entries(variable, view->type)) continue;
    sluice_put_difference(block, at, view->offset);
    put_entry(block, variable, view->type, view->offset);
    at = view->offset + view->type->size;
  }
  sluice_put_difference(block, at, block->size);
}
