/* The state of a program that `sluice analyze instrument` instrumented: which variables each packet changed, and the
 * contents of the variables as bytes that another instance of the same program imports.
 *
 * All functions may be called from the callback, which runs in the program's own thread, after each packet. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SLUICE_FIELD_BYTES 16

/* A field of the packet by which the program finds the part of a variable that belongs to the packet's flow. */
struct sluice_field {
  const char *name;  /* as the report has it: "packet.source" */
  uint64_t variable; /* whose key it is part of */
  uint64_t size;     /* bytes of `value`; 0 if the program did not load the field from this packet */
  uint8_t value[SLUICE_FIELD_BYTES];
};

/* The effects of a packet. The pointers are valid during the callback. */
struct sluice_packet {
  uint64_t number;               /* packets before; 0 for code before the first packet */
  const uint8_t *changed;        /* for each variable: not 0 if the packet updated it */
  uint64_t variables;            /* how many there are */
  const struct sluice_field *fields; /* the packet's flow key */
  uint64_t field_count;
};

typedef void (*sluice_packet_callback)(void *context, const struct sluice_packet *packet);

/* Registers the function that is called after each packet; NULL removes it. If packets had no consumer before, the first
 * call reports all updates since the program began. */
void sluice_state_on_packet(sluice_packet_callback callback, void *context);
/* The name of a variable (`function: name` for one of a function), or NULL. */
const char *sluice_state_name(uint64_t variable);

/* The content of an export (thesis, 4.6.2). */
enum sluice_model {
  SLUICE_ALL,        /* all variables that may be updated, with all memory reached from them */
  SLUICE_FLOW,       /* of variables with a key, the entries of the last packet's flow, and what links them */
  SLUICE_CHANGED,    /* the same, of the variables that the last packet changed */
  SLUICE_DIFFERENCE, /* only bytes that differ from the last export */
};

struct sluice_export {
  uint8_t *bytes; /* belongs to the library; valid until the next export */
  size_t size;
  uint64_t records;      /* pieces of memory */
  uint64_t outside_flow; /* entries of other flows that changed all the same, and were exported with the rest */
  uint64_t by_hand;      /* pointers whose target was not exported, because nothing is known of it */
};

/* Exports state; needs code that `sluice analyze serialise` wrote. Returns 0, or -1 if memory is exhausted. */
int sluice_state_export(enum sluice_model model, struct sluice_export *result);
/* Imports state that another instance of the same program exported. Returns NULL, or the error in the bytes,
 * which then changed nothing, unless memory was exhausted. Pointers of variables are checked against their types; what
 * objects and unions contain is not: take over only exports of an instance that you trust. */
const char *sluice_state_import(const uint8_t *bytes, size_t size);

/* ---- descriptions in the generated code ---- */

enum sluice_kind {
  SLUICE_BYTES,   /* no pointers */
  SLUICE_POINTER, /* to memory of type `of`, or to bytes if that is NULL */
  SLUICE_RECORD,  /* contained structure */
  SLUICE_KEPT,    /* belongs to a library: the other instance keeps its own */
  SLUICE_MAYBE,   /* a pointer if the bytes are the address of something that is known (unions, memory of no type) */
  SLUICE_BY_HAND, /* not handled: see the comment in the generated code */
};

struct sluice_type;

struct sluice_member {
  const char *name;
  uint64_t offset;
  enum sluice_kind kind;
  const struct sluice_type *of;
  uint64_t count; /* elements, of an array */
};

struct sluice_type {
  const char *name; /* "struct host"; that of a record as comparisons have it, without `struct` */
  uint64_t size;
  const struct sluice_member *members;
  uint64_t member_count;
  int open;  /* ends with an array whose length the allocation decides */
  int guess; /* of memory of which no type is known */
};

struct sluice_variable {
  const char *name;
  const struct sluice_type *type; /* NULL: bytes */
  int is_state;                   /* exported; else constantly overwritten, or changed on exit only */
};

extern const struct sluice_variable sluice_state_types[] __attribute__((weak));
extern const uint64_t sluice_state_type_count __attribute__((weak));
/* Structures that the program allocates; ends with NULL. */
extern const struct sluice_type *const sluice_state_structures[] __attribute__((weak));
