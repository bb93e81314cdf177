/* Exported state as OpenNF's controller gets and puts it (Gember-Jacobson et al., OpenNF, SIGCOMM 2014, section 4.2): per
 * flow, that is entries of variables with a key, and of all flows, that is the other variables.
 *
 * The instance that puts a flow must have put what the other one exported before, as a standby does: links of an entry
 * refer to entries that it has from there. Flows are not merged into a list that grew apart, and OpenNF's `del` is not
 * offered, because how an entry enters or leaves a list is known to the program's own code only. */
#pragma once

#include "sluice_state.h"

/* Entries whose member has this value; a structure without a member of the name has no entries of the flow. */
struct opennf_filter {
  const char *member; /* "ip" of struct host */
  const void *value;
  uint64_t size;
};

/* The chunk that the controller carries to the other instance. */
struct opennf_chunk {
  uint8_t *bytes; /* to be freed by opennf_free */
  size_t size;
};

/* Return 0, or -1 if memory is exhausted. */
int opennf_get_perflow(const struct opennf_filter *filters, size_t count, struct opennf_chunk *chunk);
int opennf_get_allflows(struct opennf_chunk *chunk);
/* Return NULL, or the error of the chunk. */
const char *opennf_put_perflow(const struct opennf_chunk *chunk);
const char *opennf_put_allflows(const struct opennf_chunk *chunk);
void opennf_free(struct opennf_chunk *chunk);
