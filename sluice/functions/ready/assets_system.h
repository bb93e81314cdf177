/* Signatures of operating systems: lines of p0f's form (version 2), WINDOW:TTL:DF:SIZE:OPTIONS:QUIRKS:SYSTEM:DETAILS, and the
 * same form of a SYN or SYN/ACK. */
#ifndef ASSETS_SYSTEM_H
#define ASSETS_SYSTEM_H

#include "tcp_segment.h"

enum { ASSETS_OPTIONS = 24, ASSETS_DISTANCE = 40, ASSETS_QUIRKS = 16 };

/* A number that is compared. kind: n the number, * any, % a multiple of it, S of the segment size, T of that and headers. */
struct assets_number { char kind; uint32_t value; };
struct assets_option { char kind; struct assets_number value; };   /* kind: N E S T M W, 0 a timestamp of zero, ? another one */

struct assets_system {
    struct assets_system *next;
    struct assets_number window, size;
    struct assets_option option[ASSETS_OPTIONS];
    uint8_t ttl, fragment, options;
    char quirks[ASSETS_QUIRKS];   /* sorted letters */
    char *name, *details;
};
struct assets_systems { struct assets_system *first, **last; };

/* The form of a segment. */
struct assets_form {
    uint32_t window, size, mss;
    uint8_t ttl, fragment, options;
    struct assets_option option[ASSETS_OPTIONS];
    char quirks[ASSETS_QUIRKS];
};

static inline bool assets_number_read(const char *text, struct assets_number *number) {
    number->kind = *text == '*' || *text == '%' || *text == 'S' || *text == 'T' ? *text : 'n';
    uint64_t value = 0;
    if (number->kind == '*')
        return text[1] == 0;
    bool right = sl_parameter_number(text + (number->kind != 'n'), &value) && value <= UINT32_MAX;
    number->value = (uint32_t)value;
    return right && (value || number->kind == 'n');
}

static inline bool assets_number_is(const struct assets_number *number, uint32_t value, const struct assets_form *form) {
    switch (number->kind) {
    case '*': return true;
    case '%': return value % number->value == 0;
    case 'S': return form->mss && value == number->value * form->mss;
    case 'T': return form->mss && value == number->value * (form->mss + 40);
    default: return value == number->value;
    }
}

/* Reads options, separated by commas; false if one is unknown. The text is changed. */
SL_COLD bool assets_options_read(char *text, struct assets_system *system) {
    char *rest = text;
    if (strcmp(text, ".") == 0)
        return true;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        if (system->options == ASSETS_OPTIONS)
            return false;
        struct assets_option *option = &system->option[system->options++];
        option->kind = strcmp(one, "T0") == 0 ? '0' : *one;
        option->value.kind = '*';
        bool valued = *one == 'M' || *one == 'W' || *one == '?';
        if (!strchr("NESTMW?", *one) || !*one || (!valued && one[1] && option->kind != '0') ||
            (valued && !assets_number_read(one + 1, &option->value)))
            return false;
    }
    return true;
}

static int assets_letter(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

/* Adds the signature of a line; returns its error, or NULL. The line is changed. */
SL_COLD const char *assets_system_add(struct assets_systems *all, char *line) {
    char *field[8], *rest = line;
    unsigned count = 0;
    while (count < 7 && (field[count] = strsep(&rest, ":")) != NULL)
        count++;
    if (count < 7 || !rest)
        return "it is not of the form WINDOW:TTL:DF:SIZE:OPTIONS:QUIRKS:SYSTEM:DETAILS";
    uint64_t ttl = 0;
    struct assets_system *made = calloc(1, sizeof *made);
    if (!made)
        return "no memory";
    bool right = assets_number_read(field[0], &made->window) && sl_parameter_number(field[1], &ttl) && ttl <= 255 &&
                 (*field[2] == '0' || *field[2] == '1') && assets_number_read(field[3], &made->size) && assets_options_read(field[4], made) &&
                 strlen(field[5]) < ASSETS_QUIRKS;
    if (right && strcmp(field[5], ".") != 0)
        memcpy(made->quirks, field[5], strlen(field[5]));
    qsort(made->quirks, strlen(made->quirks), 1, assets_letter);
    made->ttl = (uint8_t)ttl;
    made->fragment = *field[2] == '1';
    made->name = right ? strdup(field[6] + strspn(field[6], "-@*")) : NULL;   /* p0f's marks of generic ones and of programs */
    made->details = right ? strdup(rest) : NULL;
    if (!right || !made->name || !made->details) {
        free(made->name);
        free(made->details);
        free(made);
        return "a field has no value that p0f's form has";
    }
    *all->last = made;
    all->last = &made->next;
    return NULL;
}

SL_COLD void assets_systems_free(struct assets_systems *all) {
    for (struct assets_system *next, *at = all->first; at; at = next) {
        next = at->next;
        free(at->name);
        free(at->details);
        free(at);
    }
    *all = (struct assets_systems){0};
}

static inline void assets_quirk(struct assets_form *form, char letter) {
    size_t used = strlen(form->quirks);
    if (used + 1 < ASSETS_QUIRKS)
        form->quirks[used] = letter;
}

static inline void assets_form_options(const struct tcp_place *place, bool answers, struct assets_form *form) {
    for (uint32_t i = 20; i < place->header && form->options < ASSETS_OPTIONS;) {
        const uint8_t *at = place->at + i;
        uint32_t length = *at < 2 ? 1 : i + 1 < place->header ? at[1] : 0;
        struct assets_option *option = &form->option[form->options++];
        *option = (struct assets_option){'?', {'n', *at}};
        if (!length || (*at > 1 && length < 2) || i + length > place->header) {
            form->options--;
            assets_quirk(form, '!');
            return;
        }
        switch (*at) {
        case 0: option->kind = 'E'; break;
        case 1: option->kind = 'N'; break;
        case 2: option->kind = 'M'; form->mss = option->value.value = length == 4 ? (uint32_t)sl_load_be16(at + 2) : 0; break;
        case 3: option->kind = 'W'; option->value.value = length == 3 ? at[2] : 0; break;
        case 4: option->kind = 'S'; break;
        case 8:
            option->kind = length == 10 && sl_load_be32(at + 2) == 0 ? '0' : 'T';
            if (!answers && length == 10 && sl_load_be32(at + 6))
                assets_quirk(form, 'T');
            break;
        default: break;
        }
        i += length;
        if (*at)
            continue;
        for (bool past = false; i < place->header && !past; i++)
            if (place->at[i] && (past = true))
                assets_quirk(form, 'P');
        return;
    }
}

/* The form of a SYN or SYN/ACK over IPv4. */
static inline void assets_form_of(const struct sl_frame *frame, const struct tcp_place *place, struct assets_form *form) {
    const uint8_t *ip = frame->at + place->ip.ip, *tcp = place->at;
    bool answers = tcp[13] & TCP_ACK;
    *form = (struct assets_form){.window = (uint32_t)sl_load_be16(tcp + 14), .size = place->ip.end - place->ip.ip, .ttl = ip[8],
                                 .fragment = ip[6] >> 6 & 1};
    assets_form_options(place, answers, form);
    if (!sl_load_be16(ip + 4))
        assets_quirk(form, 'Z');
    if ((ip[0] & 15) > 5)
        assets_quirk(form, 'I');
    if (sl_load_be16(tcp + 18))
        assets_quirk(form, 'U');
    if (tcp[12] & 15)
        assets_quirk(form, 'X');
    if (answers || sl_load_be32(tcp + 8))   /* of a SYN/ACK, signatures have it too */
        assets_quirk(form, 'A');
    if (tcp[13] & ~(TCP_SYN | TCP_ACK | 0xc0))
        assets_quirk(form, 'F');
    if (place->ip.end > place->ip.payload + place->header)
        assets_quirk(form, 'D');
    qsort(form->quirks, strlen(form->quirks), 1, assets_letter);
}

/* The first signature of a form, or NULL; `*distance`: hops, as the TTLs differ. */
static inline const struct assets_system *assets_system_of(const struct assets_systems *all, const struct assets_form *form, unsigned *distance) {
    for (const struct assets_system *at = all->first; at; at = at->next) {
        bool same = form->ttl <= at->ttl && at->ttl - form->ttl <= ASSETS_DISTANCE && form->fragment == at->fragment &&
                    form->options == at->options && strcmp(form->quirks, at->quirks) == 0 &&
                    assets_number_is(&at->window, form->window, form) && assets_number_is(&at->size, form->size, form);
        for (unsigned i = 0; same && i < at->options; i++)
            same = at->option[i].kind == form->option[i].kind && assets_number_is(&at->option[i].value, form->option[i].value.value, form);
        if (same) {
            *distance = at->ttl - form->ttl;
            return at;
        }
    }
    return NULL;
}

#endif
