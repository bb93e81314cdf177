/* Imports exports into which an attacker changed bytes: the process has to live, under the sanitizers, and what is refused
 * must change nothing. `attack EXPORTS ROUNDS SEED` reads the exports that `attack EXPORTS` wrote.
 *
 * An attacker knows the format. So half of the changes put words where the format has them that are near its bounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "program.h"

#define PACKETS 24
#define MOST 65536

static uint8_t bytes[PACKETS][MOST];
static size_t sizes[PACKETS];
static uint64_t state;

static uint64_t draw(uint64_t below) { /* xorshift64 (Marsaglia, 2003) */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

static int write_exports(const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return 2;
  for (unsigned packet = 0; packet < PACKETS; packet++) {
    struct sluice_export found;
    program_process(packet);
    if (sluice_state_export(packet % 2 ? SLUICE_DIFFERENCE : SLUICE_ALL, &found) != 0) return 3;
    const uint64_t size = found.size, sum = program_sum();
    fwrite(&size, 8, 1, file);
    fwrite(&sum, 8, 1, file);
    fwrite(found.bytes, 1, size, file);
  }
  return fclose(file) ? 2 : 0;
}

static uint64_t interesting(size_t size) {
  static const uint64_t words[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 18, 22, 23, 24, 31, 40, 255, 1u << 31, UINT32_MAX,
                                   FIRST_OBJECT, FIRST_OBJECT + 1, FIRST_OBJECT + 5, FIRST_OBJECT + 400,
                                   (uint64_t)1 << 33, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
  const uint64_t which = draw(sizeof(words) / sizeof(*words) + 1);
  return which < sizeof(words) / sizeof(*words) ? words[which] : draw(size + 1);
}

static size_t change(uint8_t *at, size_t size, unsigned packet) {
  for (uint64_t times = 1 + draw(4); times > 0 && size > 16; times--) {
    const uint64_t word = interesting(size), what = draw(8);
    const size_t aligned = draw(size / 8) * 8, length = (1 + draw(16)) * 8;
    if (what < 4 && aligned + 8 <= size) {
      memcpy(at + aligned, &word, 8);
    } else if (what == 4) {
      at[draw(size)] ^= (uint8_t)(1u << draw(8));
    } else if (what == 5) {
      size = draw(size);
    } else if (what == 6 && aligned + length <= size && size + length <= MOST) { /* again, and the header knows */
      memmove(at + aligned + length, at + aligned, size - aligned);
      size += length;
    } else if (aligned + length <= size && sizes[packet] >= length) { /* a part of another export */
      memcpy(at + aligned, bytes[packet] + draw(sizes[packet] - length + 1) / 8 * 8, length);
    }
  }
  return size;
}

static int refuse(const uint8_t *at, size_t size, uint64_t *refused) {
  uint8_t before[PROGRAM_BYTES], after[PROGRAM_BYTES];
  const size_t watched = program_bytes(before);
  uint8_t *exact = malloc(size ? size : 1); /* so that a read after the end is found */
  if (!exact) return 0;
  memcpy(exact, at, size);
  const char *wrong = sluice_state_import(exact, size);
  free(exact);
  *refused += wrong != NULL;
  program_bytes(after);
  return wrong && memcmp(before, after, watched) != 0;
}

/* Another instance has objects of the same identities: they become objects of their own. */
static const char *from_another(unsigned packet, uint64_t sum) {
  const void *before = program_object();
  struct header header;
  memcpy(&header, bytes[packet], sizeof(header));
  header.instance++;
  memcpy(bytes[packet], &header, sizeof(header));
  const char *wrong = sluice_state_import(bytes[packet], sizes[packet]);
  if (!wrong && program_sum() != sum) wrong = "leads to another state";
  if (!wrong && program_object() == before) wrong = "an object is taken for one of another instance";
  return wrong;
}

int main(int count, char **words) {
  static uint8_t changed[MOST];
  if (count == 2) return write_exports(words[1]);
  if (count != 4) return 2;
  FILE *file = fopen(words[1], "rb");
  if (!file) return 2;
  uint64_t size, sums[PACKETS], refused = 0, rounds = strtoull(words[2], NULL, 10);
  for (unsigned i = 0; i < PACKETS; i++) {
    if (fread(&size, 8, 1, file) != 1 || size > MOST || fread(&sums[i], 8, 1, file) != 1) return 2;
    if (fread(bytes[i], 1, size, file) != size) return 2;
    sizes[i] = size;
  }
  fclose(file);
  for (unsigned i = 0; i < PACKETS; i++) { /* as they are */
    const char *wrong = sluice_state_import(bytes[i], sizes[i]);
    if (wrong || program_sum() != sums[i]) {
      printf("export %u: %s\n", i, wrong ? wrong : "leads to another state");
      return 1;
    }
  }
  const char *mixed = from_another(PACKETS - 2, sums[PACKETS - 2]);
  if (mixed) {
    printf("two instances: %s\n", mixed);
    return 1;
  }
  state = strtoull(words[3], NULL, 10) + 1;
  for (uint64_t round = 0; round < rounds; round++) {
    const unsigned packet = (unsigned)draw(PACKETS);
    memcpy(changed, bytes[packet], sizes[packet]);
    if (refuse(changed, change(changed, sizes[packet], (unsigned)draw(PACKETS)), &refused)) {
      printf("round %llu: refused, and changed something\n", (unsigned long long)round);
      return 1;
    }
  }
  printf("%llu refused\n", (unsigned long long)refused);
  return 0;
}
