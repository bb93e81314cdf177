/* Shared by the files that export state, and in part by those that import it. */
#pragma once

#include "internal.h"

struct block { /* memory of a variable, or an object */
  uint8_t *memory;
  uint64_t size, id;
  const struct sluice_type *type;
  uint8_t **shadow;
  const struct object *object; /* NULL for a variable */
};

/* ---- contents.c: the pointers in memory, and its type ---- */

typedef void (*each_pointer)(const struct block *block, uint64_t offset, const struct sluice_member *member);
/* Calls the action for each pointer that lies within bytes [from, to): in the block's own type, and in its views. */
void sluice_each_pointer(const struct block *block, uint64_t from, uint64_t to, each_pointer action);
/* The value of a pointer of a block. */
void *sluice_pointer_at(const struct block *block, uint64_t offset);
/* Notes the type of an object: that with which the program allocated it, or that of the first pointer to it. Returns
 * whether it became known. */
int sluice_object_set_type(struct object *object, const struct sluice_type *type, uint64_t inside);
/* Notes that a structure lies within an object. Returns 1 if that is new in this export, 0 if not, and -1 if memory is
 * exhausted. */
int sluice_object_add_view(struct object *object, const struct sluice_type *type, uint64_t inside);
/* Begins an export: views that an earlier one saw are no longer current. */
void sluice_contents_begin(void);
int sluice_view_is_current(const struct view *view);

/* ---- records.c: the bytes of an export ---- */

struct output {
  uint8_t *bytes;
  size_t size, space;
  uint64_t records, outside_flow, by_hand;
  int failed; /* memory is exhausted */
};
extern struct output sluice_output;
void sluice_put(const void *bytes, size_t size);
/* A record of bytes [from, to), which then count as exported. */
void sluice_put_range(const struct block *block, uint64_t from, uint64_t to);
/* Records of the parts of [from, to) that differ from the last export. Returns whether there were any. */
int sluice_put_difference(const struct block *block, uint64_t from, uint64_t to);

/* ---- entries.c: the part of a variable that belongs to a flow ---- */

/* Flows by the values of members, instead of the last packet's; NULL for the last packet's. */
void sluice_entries_select(const struct opennf_filter *filters, size_t count);
/* Whether a variable has entries of flows: of this type, if it is not NULL. */
int sluice_has_entries(uint64_t variable, const struct sluice_type *type);
/* Records of the entries of the flow, and of other changes. */
void sluice_put_entries(const struct block *block, uint64_t variable);

/* ---- export.c ---- */

/* Calls the function for each object reached from a variable, with each such variable. Returns -1 if memory is exhausted,
 * and some may be missing. */
int sluice_each_object(void (*action)(struct object *object, uint64_t variable));
