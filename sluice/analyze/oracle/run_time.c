/* Compares, at each receive call, the bytes of a program's variables and allocated memory with those at the receive call
 * before, and reports bytes that changed although by the analysis their variable is not updateable.
 *
 * The instrumented program (../tool/oracle.cpp) defines the table of variables and calls these functions; it is linked
 * with --wrap=free and --wrap=realloc. Findings go to the file that SLUICE_ORACLE names, a line of JSON for each. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct variable {
  const char *name;
  unsigned char *memory;
  uint64_t size;
  uint64_t updateable;
};

extern const struct variable sluice_oracle_variables[];
extern const uint64_t sluice_oracle_variable_count;

void sluice_oracle_packet(void);
void sluice_oracle_local(const char *name, void *memory, uint64_t size, uint64_t updateable);
void sluice_oracle_forget(void *memory);
void sluice_oracle_allocated(const char *name, void *memory, uint64_t updateable);
void __real_free(void *memory);
void *__real_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
void *__wrap_realloc(void *memory, size_t size);

/* Memory that is observed, with a copy of its content at the receive call before. */
struct watched {
  struct variable variable;
  unsigned char *copy; /* nothing before the first receive call that saw it */
  int missed;          /* and reported */
};

static struct watched *watched;
static size_t watched_count, watched_space;
/* The names of updateable memory of which a change was reported: no more is to say of any that has one of them. */
static const char **settled;
static size_t settled_count, settled_space;
static uint64_t packets, lost;
static FILE *output;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void report(const char *kind, const struct watched *one, size_t offset) {
  if (!output) return;
  fprintf(output, "{\"%s\": \"%s\", \"offset\": %zu, \"packet\": %llu}\n", kind, one->variable.name, offset,
          (unsigned long long)packets);
  fflush(output);
}

static void finish(void) {
  if (!output) return;
  fprintf(output, "{\"packets\": %llu, \"watched\": %zu, \"not_watched\": %llu}\n", (unsigned long long)packets,
          watched_count, (unsigned long long)lost);
  fflush(output);
}

/* Room for one more element of an array. Returns 0 if there is none. */
static int grow(void **array, size_t count, size_t *space, size_t bytes) {
  if (count < *space) return 1;
  size_t wanted = *space ? 2 * *space : 1024;
  void *grown = __real_realloc(*array, wanted * bytes);
  if (!grown) return 0;
  *array = grown;
  *space = wanted;
  return 1;
}

static void settle(const char *name) {
  void *names = settled;
  if (!grow(&names, settled_count, &settled_space, sizeof(*settled))) return; /* then it is watched again */
  settled = names;
  settled[settled_count++] = name;
}

static int is_settled(const char *name) {
  for (size_t i = 0; i < settled_count; i++)
    if (settled[i] == name) return 1;
  return 0;
}

static void watch(const char *name, void *memory, uint64_t size, uint64_t updateable) {
  if (updateable && is_settled(name)) return;
  void *all = watched;
  if (!grow(&all, watched_count, &watched_space, sizeof(*watched))) {
    lost++;
    return;
  }
  watched = all;
  watched[watched_count++] = (struct watched){{name, memory, size, updateable}, NULL, 0};
}

static void drop(size_t i) {
  __real_free(watched[i].copy);
  watched[i] = watched[--watched_count];
}

static void forget(const void *memory) {
  for (size_t i = watched_count; i-- > 0;)
    if (watched[i].variable.memory == memory) {
      drop(i);
      return;
    }
}

static void start(void) {
  static int started;
  if (started) return;
  started = 1;
  const char *path = getenv("SLUICE_ORACLE");
  output = path ? fopen(path, "w") : NULL;
  for (uint64_t i = 0; i < sluice_oracle_variable_count; i++) {
    const struct variable *one = &sluice_oracle_variables[i];
    watch(one->name, one->memory, one->size, one->updateable);
  }
  atexit(finish);
}

/* Returns whether no more is to say of it. */
static int compare(struct watched *one) {
  const struct variable *variable = &one->variable;
  if (variable->updateable && is_settled(variable->name)) return 1;
  if (!one->copy) {
    one->copy = malloc(variable->size ? variable->size : 1);
    if (!one->copy) {
      lost++;
      return 0;
    }
  } else {
    if (memcmp(one->copy, variable->memory, variable->size) == 0) return 0;
    size_t offset = 0;
    while (one->copy[offset] == variable->memory[offset]) offset++;
    if (variable->updateable) {
      report("changed", one, offset);
      settle(variable->name);
      return 1;
    }
    if (!one->missed) {
      one->missed = 1;
      report("missed", one, offset);
    }
  }
  memcpy(one->copy, variable->memory, variable->size);
  return 0;
}

void sluice_oracle_packet(void) {
  pthread_mutex_lock(&lock);
  start();
  for (size_t i = 0; i < watched_count;)
    if (compare(&watched[i]))
      drop(i);
    else
      i++;
  packets++;
  pthread_mutex_unlock(&lock);
}

void sluice_oracle_local(const char *name, void *memory, uint64_t size, uint64_t updateable) {
  pthread_mutex_lock(&lock);
  start();
  watch(name, memory, size, updateable);
  pthread_mutex_unlock(&lock);
}

void sluice_oracle_forget(void *memory) {
  pthread_mutex_lock(&lock);
  forget(memory);
  pthread_mutex_unlock(&lock);
}

void sluice_oracle_allocated(const char *name, void *memory, uint64_t updateable) {
  if (!memory || memory == (void *)-1) return;
  pthread_mutex_lock(&lock);
  start();
  watch(name, memory, malloc_usable_size(memory), updateable);
  pthread_mutex_unlock(&lock);
}

void __wrap_free(void *memory) {
  if (memory) sluice_oracle_forget(memory);
  __real_free(memory);
}

void *__wrap_realloc(void *memory, size_t size) {
  if (memory) sluice_oracle_forget(memory);
  return __real_realloc(memory, size);
}
