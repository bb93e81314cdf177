/* Targets of pointers into the program's image: its variables, and the beginnings of its functions. */
#include <string.h>

#include "internal.h"

static uint64_t start_of(const struct place *place) { return (uint64_t)(place->address - &__executable_start); }

static void sort(struct place *places, uint64_t count) { /* Shell's sort, as qsort may allocate (Knuth, 5.2.1) */
  for (uint64_t gap = count / 2; gap > 0; gap /= 2)
    for (uint64_t i = gap; i < count; i++) {
      const struct place one = places[i];
      uint64_t at = i;
      for (; at >= gap && places[at - gap].address > one.address; at -= gap) places[at] = places[at - gap];
      places[at] = one;
    }
}

const struct place *sluice_image_at(uint64_t offset) {
  static struct place *sorted;
  const uint64_t count = sluice_state_image_count;
  if (!count) return NULL;
  if (!sorted) {
    sorted = sluice_real_malloc(count * sizeof(*sorted));
    if (!sorted) return NULL; /* nothing is known, and nothing is allowed */
    memcpy(sorted, sluice_state_image, count * sizeof(*sorted));
    sort(sorted, count);
  }
  uint64_t low = 0, high = count;
  while (low < high) { /* the last one that begins there, or before */
    const uint64_t middle = (low + high) / 2;
    if (start_of(&sorted[middle]) <= offset) low = middle + 1;
    else high = middle;
  }
  const struct place *found = low ? &sorted[low - 1] : NULL;
  return found && offset - start_of(found) <= found->size ? found : NULL;
}
