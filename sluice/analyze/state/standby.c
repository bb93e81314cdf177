/* Exports state after each packet, and takes it over before the first one, by environment variables: a hot standby
 * without a change of the program.
 *
 *   SLUICE_STATE_TO=PLACE      export after each packet; a file, a FIFO, or valkey:HOST:PORT:KEY
 *   SLUICE_STATE_MODEL=MODEL   all, flow, changed (the default), difference
 *   SLUICE_STATE_FROM=PLACE    before the first packet, take over all exports from there
 *   SLUICE_STATE_STOP=N        end without notice after N packets, for rehearsals
 *   SLUICE_STATE_SETTLE=MS     wait before each export, so that other threads finish the packet; without it, an export of a
 *                              program with several threads ends it, as state could change meanwhile
 *   SLUICE_STATE_SUMMARY=FILE  write totals at the end: a line of JSON */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "internal.h"

static struct channel *to;
static enum sluice_model model = SLUICE_CHANGED;
static int settle;
static uint64_t stop, packets, bytes, most, records, outside_flow, by_hand;
static uint64_t *changes; /* packets that changed each variable */

/* Without the functions of atexit, as one of them acquires the lock that is held here. */
static void fail(const char *what, const char *why) {
  fprintf(stderr, "sluice: %s: %s\n", what, why);
  fflush(NULL);
  _exit(70);
}

static void set_model(const char *name) {
  static const char *const names[] = {"all", "flow", "changed", "difference"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (strcmp(name, names[i]) == 0) {
      model = (enum sluice_model)i;
      return;
    }
  fail("SLUICE_STATE_MODEL", "is none of all, flow, changed, difference");
}

/* Whether other threads run, which an export does not stop. Without /proc it cannot be known. */
static int has_threads(void) {
  DIR *folder = opendir("/proc/self/task");
  int threads = 0;
  for (struct dirent *each; folder && (each = readdir(folder));) threads += each->d_name[0] != '.';
  if (folder) closedir(folder);
  return threads > 1;
}

static void take_over(const char *place) {
  struct channel *from = channel_open(place, 0);
  if (!from) fail(place, "cannot be read");
  uint8_t *message;
  size_t size;
  int got;
  while ((got = channel_read(from, &message, &size)) > 0) {
    const char *wrong = sluice_state_import(message, size);
    if (wrong) fail(place, wrong);
  }
  if (got == CHANNEL_WRONG) fail(place, "has no exports that can be read");
  /* the other instance may end while it writes: earlier exports are complete */
  if (got < 0) fprintf(stderr, "sluice: %s: the last export is not complete, and was left out\n", place);
  channel_close(from);
}

static void begin(void) {
  const char *place = getenv("SLUICE_STATE_TO"), *from = getenv("SLUICE_STATE_FROM");
  const char *name = getenv("SLUICE_STATE_MODEL"), *end = getenv("SLUICE_STATE_STOP");
  const char *wait = getenv("SLUICE_STATE_SETTLE");
  if ((place || from) && !&sluice_state_type_count)
    fail("SLUICE_STATE_TO, SLUICE_STATE_FROM", "the program was linked without the code of `sluice analyze serialise`");
  changes = sluice_real_malloc((sluice_state_variables_count + 1) * sizeof(*changes));
  if (!changes) fail("the summary", "memory is exhausted");
  memset(changes, 0, sluice_state_variables_count * sizeof(*changes));
  if (name) set_model(name);
  settle = wait ? atoi(wait) : 0;
  stop = end ? strtoull(end, NULL, 10) : 0;
  if (from) take_over(from);
  if (place && !(to = channel_open(place, 1))) fail(place, "cannot be written");
}

static void summary(void) {
  const char *path = getenv("SLUICE_STATE_SUMMARY");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "{\"packets\": %llu, \"bytes\": %llu, \"most_bytes\": %llu, \"records\": %llu, \"outside_flow\": %llu, ",
          (unsigned long long)packets, (unsigned long long)bytes, (unsigned long long)most,
          (unsigned long long)records, (unsigned long long)outside_flow);
  fprintf(file, "\"by_hand\": %llu, \"changed\": {", (unsigned long long)by_hand);
  const char *comma = "";
  for (uint64_t i = 0; i < sluice_state_variables_count; i++) {
    if (!changes[i]) continue;
    fprintf(file, "%s\"%s\": %llu", comma, sluice_state_variables[i].name, (unsigned long long)changes[i]);
    comma = ", ";
  }
  fprintf(file, "}}\n");
  fclose(file);
}

int sluice_standby_wanted(void) {
  static const char *const names[] = {"SLUICE_STATE_TO", "SLUICE_STATE_FROM", "SLUICE_STATE_STOP", "SLUICE_STATE_SUMMARY"};
  int wanted = 0;
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) wanted |= getenv(names[i]) != NULL;
  return wanted;
}

/* Most packets change few variables: words without a byte that is set are passed over. */
static void count(const struct sluice_packet *packet) {
  for (uint64_t i = 0; i < packet->variables; i += 8) {
    uint64_t word;
    memcpy(&word, packet->changed + i, sizeof(word));
    for (uint64_t n = i; word && n < i + 8 && n < packet->variables; n++) changes[n] += packet->changed[n];
  }
}

void sluice_standby(const struct sluice_packet *packet) {
  static int begun;
  if (!begun) {
    begun = 1;
    begin();
    return;
  }
  if (settle > 0) usleep((unsigned)settle * 1000);
  if (packet->number > packets) packets = packet->number;
  count(packet);
  if (to) {
    if (settle <= 0 && has_threads())
      fail("SLUICE_STATE_TO",
           "the program has several threads, which may change state during an export; "
           "if they rest between packets, set SLUICE_STATE_SETTLE to the milliseconds after which they do");
    struct sluice_export found;
    if (sluice_state_export(model, &found) != 0) fail("the export", "memory is exhausted");
    if (channel_write(to, found.bytes, found.size, packet->number) != 0) fail("SLUICE_STATE_TO", "cannot be written");
    bytes += found.size;
    if (found.size > most && packet->number > 1) most = found.size; /* the first has all state */
    records += found.records;
    outside_flow += found.outside_flow;
    by_hand += found.by_hand;
  }
  if (stop && packet->number == stop) {
    fflush(NULL);
    summary();
    if (to) channel_close(to);
    _exit(0);
  }
}

__attribute__((destructor)) static void end(void) {
  if (changes) summary();
  if (to) channel_close(to);
}
