/* The numbers of a control connection of FTP whose inside host's announcements are replaced by others of another length: the
 * numbers that the inside host sends, and those that the outside one gets (RFC 3022, 4.4). A part of nat.c. */
#ifndef NAT_NUMBERS_H
#define NAT_NUMBERS_H

#include "core/bytes.h"

enum { NAT_EDITS = 4, NAT_EDIT_TEXT = 40, NAT_EDIT_LENGTH = 120, NAT_ENDPOINTS = 4, NAT_BEGUN = 64, NAT_FAR = 1 << 30 };

/* An announcement that was replaced. All of the text that is there instead belongs to its first byte, as in edit_map.h. */
struct nat_edit {
    uint32_t at;              /* its first number */
    uint8_t length, now;      /* bytes, before and after */
    uint8_t text[NAT_EDIT_TEXT];
};

/* A control connection. The last edits are known, so that a retransmission is edited as its first copy was; bytes before
 * them is not edited again. */
struct nat_control {
    uint32_t line;            /* the number at which the next line of the inside host begins */
    uint32_t shift;           /* the offset added to numbers before the first of the edits here */
    uint32_t forgotten;       /* the number after the last edit that is not known any more, if `forgot` */
    uint8_t known, edits, endpoints, forgot;
    uint8_t begun_length;     /* of the beginning of a line, which went out at the end of a segment */
    uint8_t begun[NAT_BEGUN];
    struct nat_edit edit[NAT_EDITS];
    uint64_t endpoint[NAT_ENDPOINTS];   /* the inside endpoints that were announced last, which keep their ports */
};

/* Is a number after another one (RFC 9293, 3.4)? */
static inline bool nat_after(uint32_t number, uint32_t other) { return (int32_t)(number - other) > 0; }

/* The number that the outside host gets for one of the inside host. */
static inline uint32_t nat_number_out(const struct nat_control *control, uint32_t number) {
    uint32_t shift = control->shift;
    for (unsigned i = 0; i < control->edits; i++) {
        const struct nat_edit *edit = &control->edit[i];
        if (!nat_after(number, edit->at))
            break;
        if (number - edit->at < edit->length)
            return edit->at + shift + edit->now;
        shift += (uint32_t)edit->now - edit->length;
    }
    return number + shift;
}

/* The number of the inside host for one that the outside host acknowledges; a part of an announcement is none of it. */
static inline uint32_t nat_number_in(const struct nat_control *control, uint32_t number) {
    uint32_t shift = control->shift;
    for (unsigned i = 0; i < control->edits; i++) {
        const struct nat_edit *edit = &control->edit[i];
        if (!nat_after(number, edit->at + shift))
            break;
        if (number - (edit->at + shift) < edit->now)
            return edit->at;
        shift += (uint32_t)edit->now - edit->length;
    }
    return number - shift;
}

/* The edit of a number; NULL: there is none. */
static inline const struct nat_edit *nat_edit_of(const struct nat_control *control, uint32_t number) {
    for (unsigned i = 0; i < control->edits; i++)
        if (number - control->edit[i].at < control->edit[i].length)
            return &control->edit[i];
    return NULL;
}

/* Forgets the oldest edit. */
static inline void nat_edit_forget(struct nat_control *control) {
    control->shift += (uint32_t)control->edit[0].now - control->edit[0].length;
    control->forgotten = control->edit[0].at + control->edit[0].length;
    control->forgot = 1;
    memmove(control->edit, control->edit + 1, (NAT_EDITS - 1) * sizeof *control->edit);
    control->edits--;
}

/* Drops edits so far before a number that they would soon compare as after it. */
static inline void nat_edits_pass(struct nat_control *control, uint32_t number) {
    while (control->edits && nat_after(number, control->edit[0].at + NAT_FAR))
        nat_edit_forget(control);
    if (control->forgot && nat_after(number, control->forgotten + NAT_FAR))
        control->forgotten = number - NAT_FAR;
    if (nat_after(number, control->line + NAT_FAR)) {   /* a line without an end */
        control->line = number - NAT_FAR;
        control->begun_length = 0;
    }
}

/* Room for one more edit. False: the oldest one is of the segment that begins at `number`, and needed for it. */
static inline bool nat_edit_room(struct nat_control *control, uint32_t number) {
    if (control->edits < NAT_EDITS)
        return true;
    if (!nat_after(number, control->edit[0].at))
        return false;
    nat_edit_forget(control);
    return true;
}

/* Has a segment bytes that were replaced? */
static inline bool nat_edit_touches(const struct nat_control *control, uint32_t number, uint32_t length) {
    for (unsigned i = 0; i < control->edits; i++) {
        const struct nat_edit *edit = &control->edit[i];
        if (length && (number - edit->at < edit->length || edit->at - number < length))
            return true;
    }
    return false;
}

/* The payload of a segment as it leaves; out: room for it and NAT_EDITS texts. Returns its length. */
static inline uint32_t nat_edit_payload(const struct nat_control *control, uint32_t number, const uint8_t *payload, uint32_t length,
                                        uint8_t *out) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < length;) {
        const struct nat_edit *edit = nat_edit_of(control, number + i);
        if (!edit) {
            out[used++] = payload[i++];
            continue;
        }
        if (number + i == edit->at) {
            memcpy(out + used, edit->text, edit->now);
            used += edit->now;
        }
        i = edit->at + edit->length - number;
    }
    return used;
}

#endif
