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
  int changed;         /* at any time */
  int missed;          /* and reported */
};

static struct watched *watched;
static size_t watched_count, watched_space;
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

static void watch(const char *name, void *memory, uint64_t size, uint64_t updateable) {
  if (watched_count == watched_space) {
    size_t space = watched_space ? 2 * watched_space : 1024;
    struct watched *grown = __real_realloc(watched, space * sizeof(*grown));
    if (!grown) {
      lost++;
      return;
    }
    watched = grown;
    watched_space = space;
  }
  watched[watched_count++] = (struct watched){{name, memory, size, updateable}, NULL, 0, 0};
}

static void forget(const void *memory) {
  for (size_t i = watched_count; i-- > 0;)
    if (watched[i].variable.memory == memory) {
      __real_free(watched[i].copy);
      watched[i] = watched[--watched_count];
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

static void compare(struct watched *one) {
  const struct variable *variable = &one->variable;
  if (one->changed && variable->updateable) return; /* all that is to say of it was said */
  if (!one->copy) {
    one->copy = malloc(variable->size ? variable->size : 1);
    if (!one->copy) {
      lost++;
      return;
    }
  } else {
    if (memcmp(one->copy, variable->memory, variable->size) == 0) return;
    size_t offset = 0;
    while (one->copy[offset] == variable->memory[offset]) offset++;
    if (!one->changed && variable->updateable) report("changed", one, offset);
    one->changed = 1;
    if (!variable->updateable && !one->missed) {
      one->missed = 1;
      report("missed", one, offset);
    }
  }
  memcpy(one->copy, variable->memory, variable->size);
}

void sluice_oracle_packet(void) {
  pthread_mutex_lock(&lock);
  start();
  for (size_t i = 0; i < watched_count; i++) compare(&watched[i]);
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
