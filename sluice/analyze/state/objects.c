/* Tracks the memory that the program allocates: the linker redirects the program's calls of malloc and the like to this
 * file (--wrap). A treap by address (Seidel and Aragon, 1996), so that a pointer into an object finds it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
void sluice_state_allocated(void *memory, const char *structure);
char *__wrap_strndup(const char *text, size_t most);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *root;
static uint64_t next_id = FIRST_OBJECT;
static uint64_t *freed;
static size_t freed_count, freed_space;

void *sluice_real_malloc(size_t size) { return __real_malloc(size); }
void *sluice_real_realloc(void *memory, size_t size) { return __real_realloc(memory, size); }
void sluice_real_free(void *memory) { __real_free(memory); }

static uint64_t draw(void) { /* xorshift64 (Marsaglia, 2003) */
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void split(struct object *tree, uint64_t address, struct object **below, struct object **above) {
  if (!tree) {
    *below = *above = NULL;
  } else if (tree->address < address) {
    split(tree->right, address, &tree->right, above);
    *below = tree;
  } else {
    split(tree->left, address, below, &tree->left);
    *above = tree;
  }
}

static struct object *join(struct object *below, struct object *above) {
  if (!below) return above;
  if (!above) return below;
  if (below->priority > above->priority) {
    below->right = join(below->right, above);
    return below;
  }
  above->left = join(below, above->left);
  return above;
}

/* Without the code of `serialise`, nothing follows pointers. */
static int is_known(void) { return &sluice_state_type_count != NULL; }

static struct object *add(void *memory, uint64_t size) {
  struct object *object = memory && is_known() ? __real_calloc(1, sizeof(*object)) : NULL;
  if (!object) return NULL; /* then pointers to it count as not known */
  object->address = (uint64_t)memory;
  object->size = size;
  object->priority = draw();
  pthread_mutex_lock(&lock);
  object->id = next_id++;
  struct object *below, *above;
  split(root, object->address, &below, &above);
  root = join(join(below, object), above);
  pthread_mutex_unlock(&lock);
  return object;
}

static void drop(void *memory) {
  if (!is_known()) return;
  pthread_mutex_lock(&lock);
  struct object *below, *found, *above;
  split(root, (uint64_t)memory, &below, &found);
  split(found, (uint64_t)memory + 1, &found, &above);
  root = join(below, above);
  if (found && found->shadow) { /* it was exported, so that its end is exported as well */
    if (freed_count == freed_space) {
      size_t space = freed_space ? 2 * freed_space : 64;
      uint64_t *grown = __real_realloc(freed, space * sizeof(*grown));
      if (grown) {
        freed = grown;
        freed_space = space;
      }
    }
    if (freed_count < freed_space) freed[freed_count++] = found->id;
    __real_free(found->shadow);
  }
  if (found) __real_free(found->views);
  if (found) __real_free(found->copy);
  __real_free(found);
  pthread_mutex_unlock(&lock);
}

struct object *sluice_object_at(const void *address) {
  const uint64_t at = (uint64_t)address;
  pthread_mutex_lock(&lock);
  struct object *tree = root;
  while (tree && (at < tree->address || at >= tree->address + (tree->size ? tree->size : 1)))
    tree = at < tree->address ? tree->left : tree->right;
  pthread_mutex_unlock(&lock);
  return tree;
}

/* The program allocated a structure of this name. */
void sluice_state_allocated(void *memory, const char *structure) {
  struct object *object = memory && is_known() ? sluice_object_at(memory) : NULL;
  if (object) object->structure = structure;
}

struct object *sluice_object_new(uint64_t size) {
  void *memory = __real_calloc(1, size ? size : 1);
  struct object *object = add(memory, size);
  if (!object) __real_free(memory);
  return object;
}

void sluice_object_free(struct object *object) {
  void *memory = (void *)object->address;
  drop(memory);
  __real_free(memory);
}

uint64_t sluice_object_take_freed(void) {
  pthread_mutex_lock(&lock);
  const uint64_t id = freed_count ? freed[--freed_count] : 0;
  pthread_mutex_unlock(&lock);
  return id;
}

void *__wrap_malloc(size_t size) {
  void *memory = __real_malloc(size);
  add(memory, size);
  return memory;
}

void *__wrap_calloc(size_t count, size_t size) {
  void *memory = __real_calloc(count, size);
  add(memory, count * size);
  return memory;
}

void *__wrap_realloc(void *memory, size_t size) {
  void *grown = __real_realloc(memory, size);
  if (memory && (grown || !size)) drop(memory);
  add(grown, size);
  return grown;
}

void __wrap_free(void *memory) {
  if (memory) drop(memory);
  __real_free(memory);
}

char *__wrap_strndup(const char *text, size_t most) {
  const size_t size = strnlen(text, most);
  char *copy = __wrap_malloc(size + 1);
  if (!copy) return NULL;
  memcpy(copy, text, size);
  copy[size] = 0;
  return copy;
}

char *__wrap_strdup(const char *text) { return __wrap_strndup(text, strlen(text)); }
