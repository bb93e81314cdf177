/* Shared by the files of the run-time library. */
#pragma once

#include "opennf.h"
#include "sluice_state.h"

struct row { /* of the table that instrumentation adds */
  const char *name;
  unsigned char *memory; /* NULL while a local variable's function does not run */
  uint64_t size;
};

struct name {
  const char *name;
  uint64_t variable, offset, size;
};

extern struct row sluice_state_variables[];
extern const uint64_t sluice_state_variables_count;
extern uint8_t sluice_state_changed[]; /* whole words of 8 */
extern uint8_t sluice_state_watched;   /* whether the effects of packets have a consumer; else only bytes are set */
extern const struct name sluice_state_fields[], sluice_state_comparisons[];
extern const uint64_t sluice_state_fields_count, sluice_state_comparisons_count;

#define SOUGHT_MOST 8
#define SOUGHT_BYTES 64

/* The values with which entries were compared while the last packet was processed. */
struct sought {
  uint64_t count; /* more than SOUGHT_MOST: any entry may have been found */
  uint8_t values[SOUGHT_MOST][SOUGHT_BYTES];
};
const struct sought *sluice_sought(uint64_t comparison);

/* ---- memory that the program allocated ---- */

/* A structure within an object of another type: the element of an allocator of the program's own. */
struct view {
  uint64_t offset;
  const struct sluice_type *type;
  uint64_t seen; /* the export that saw a pointer to it last */
};

struct object {
  uint64_t address, size, id;
  const struct sluice_type *type; /* NULL: not known, or bytes */
  struct view *views;             /* by offset */
  uint64_t view_count, view_space;
  const char *structure;          /* that the program allocated, or NULL */
  int unaligned;                  /* pointers in it lie at any address, after a header of the program's allocator */
  uint8_t *shadow;                /* the last exported bytes */
  uint64_t peer;                  /* its identity in the instance from which it was imported; 0: none */
  uint64_t walked, sent;          /* the walk, and the export, that saw it last */
  uint8_t *copy;                  /* of bits.c: its bytes after a packet, */
  uint64_t compared, difference;  /* the packet, and the first byte that it changed, or the size */
  struct object *left, *right;
  uint64_t priority;
};

/* The object that contains an address, or NULL. */
struct object *sluice_object_at(const void *address);
/* Allocates memory for the program. */
struct object *sluice_object_new(uint64_t size);
void sluice_object_free(struct object *object);
/* Identities of objects that were freed and had been exported, since the last call of the function; `take` removes one
 * and returns 0 if there is none. */
uint64_t sluice_object_take_freed(void);

/* ---- exports: bytes that are read by import.c and written by records.c ----
 *
 * In the order of the machine's bytes, because both instances run the same program: a header; records, each with its
 * bytes (padded to 8), and with the pointers in these bytes. A record of size 0 means that an object was freed. */
#define EXPORT_MAGIC 0x3230545345534c53u

struct header {
  uint64_t magic, layout;
  uint64_t instance; /* drawn by each process that exports: identities of objects are its own */
  uint64_t packet, records;
};

struct record {
  uint64_t id, size, offset, length, pointers;
};

struct pointer {
  uint64_t offset; /* in the object */
  uint64_t target, target_offset;
};

enum { TARGET_NULL, TARGET_IMAGE, TARGET_KEPT, FIRST_VARIABLE = 16 }; /* targets that are no objects */
#define FIRST_OBJECT ((uint64_t)1 << 32)

/* A number that differs for programs with other variables. */
uint64_t sluice_layout(void);
extern char __executable_start, _end;

/* A function of the program (size 0), or a variable, to which pointers may point. */
struct place {
  const char *address;
  uint64_t size;
};
extern const struct place sluice_state_image[];
extern const uint64_t sluice_state_image_count;
/* The item at an offset from the beginning of the program's image: a variable that contains it, or ends there, or a function
 * that begins there. NULL for all else. */
const struct place *sluice_image_at(uint64_t offset);

void *sluice_real_malloc(size_t size);
void *sluice_real_realloc(void *memory, size_t size);
void sluice_real_free(void *memory);

/* Exports variables that have entries of flows, of these the entries that the filters select; or the other variables. */
int sluice_export_some(const struct opennf_filter *filters, size_t count, int with_entries, struct sluice_export *result);

/* Called at the first packet's receive call, and after each packet. */
void sluice_standby(const struct sluice_packet *packet);
/* Whether by the environment packets are exported, counted or taken over. */
int sluice_standby_wanted(void);
