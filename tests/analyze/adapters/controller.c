/* What an OpenNF controller does, within both instances: CHUNKS is the file through which chunks go. With MOVE=N, the
 * instance gives its state halfway and again after N packets, and ends; without, it puts all of it before its first one. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "opennf.h"

static unsigned long move;
static FILE *file;

static void fail(const char *what) {
  fprintf(stderr, "controller: %s\n", what);
  _exit(9);
}

static size_t give(int failed, struct opennf_chunk *chunk) {
  const size_t size = chunk->size;
  if (failed) fail("a get failed");
  if (fwrite(&chunk->size, sizeof(chunk->size), 1, file) != 1 || fwrite(chunk->bytes, 1, chunk->size, file) != chunk->size)
    fail("cannot write");
  opennf_free(chunk);
  return size;
}

static size_t size_of_flow(const struct opennf_filter *filter) {
  struct opennf_chunk chunk;
  if (opennf_get_perflow(filter, 1, &chunk) != 0) fail("a get failed");
  const size_t size = chunk.size;
  opennf_free(&chunk);
  return size;
}

static void get_all(void) {
  struct opennf_chunk chunk;
  const size_t all = give(opennf_get_perflow(NULL, 0, &chunk), &chunk);
  give(opennf_get_allflows(&chunk), &chunk);
  static const char no_flow[12] = "no such flow";
  const struct opennf_filter filter = {"key", no_flow, sizeof(no_flow)};
  if (size_of_flow(&filter) >= all) fail("a flow that there is not has entries");
}

static void put_all(void) {
  struct opennf_chunk chunk;
  for (unsigned number = 0; fread(&chunk.size, sizeof(chunk.size), 1, file) == 1; number++) {
    chunk.bytes = malloc(chunk.size);
    if (!chunk.bytes || fread(chunk.bytes, 1, chunk.size, file) != chunk.size) fail("a chunk is not complete");
    const char *wrong = number % 2 ? opennf_put_allflows(&chunk) : opennf_put_perflow(&chunk);
    if (wrong) fail(wrong);
    opennf_free(&chunk);
  }
}

static void after_packet(void *context, const struct sluice_packet *packet) {
  (void)context;
  if (!move && packet->number == 0) put_all();
  if (!move || (packet->number != move / 2 && packet->number != move)) return;
  get_all();
  if (packet->number == move) {
    fflush(NULL);
    _exit(0);
  }
}

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("CHUNKS"), *number = getenv("MOVE");
  if (!name) return;
  move = number ? strtoul(number, NULL, 10) : 0;
  file = fopen(name, move ? "wb" : "rb");
  if (!file) fail("there is no file");
  sluice_state_on_packet(after_packet, NULL);
}
