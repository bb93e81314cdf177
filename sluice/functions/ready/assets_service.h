/* Signatures of services and clients: lines of `service,v/PRODUCT/VERSION/INFO/,EXPRESSION`, the form that PADS introduced and
 * PRADS reads. The expression is one of PCRE; $1 to $9 in the label are its groups. */
#ifndef ASSETS_SERVICE_H
#define ASSETS_SERVICE_H

#include "sluice.h"

#include <errno.h>

#if !__has_include(<pcre2.h>)
#error signatures are matched by PCRE2: install libpcre2-dev (Debian)
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { ASSETS_LINE = 4096, ASSETS_TEXT = 128, ASSETS_STEPS = 100000 };

struct assets_signature { struct assets_signature *next; pcre2_code *code; char *service, *label; };
struct assets_signatures { struct assets_signature *first, **last; pcre2_match_data *groups; pcre2_match_context *bounds; };

/* The fields of a signature; texts end with 0. */
struct assets_product { const char *service; char part[3][ASSETS_TEXT]; };

SL_COLD bool assets_signatures_open(struct assets_signatures *all) {
    all->last = &all->first;
    all->groups = pcre2_match_data_create(10, NULL);
    all->bounds = pcre2_match_context_create(NULL);
    if (!all->groups || !all->bounds)
        return false;
    pcre2_set_match_limit(all->bounds, ASSETS_STEPS);
    pcre2_set_depth_limit(all->bounds, 1000);
    return true;
}

SL_COLD void assets_signatures_free(struct assets_signatures *all) {
    for (struct assets_signature *next, *at = all->first; at; at = next) {
        next = at->next;
        pcre2_code_free(at->code);
        free(at->service);
        free(at->label);
        free(at);
    }
    pcre2_match_data_free(all->groups);
    pcre2_match_context_free(all->bounds);
    *all = (struct assets_signatures){0};
}

/* Adds the signature of a line; returns its error, or NULL. The line is changed. */
SL_COLD const char *assets_signature_add(struct assets_signatures *all, char *line) {
    char *label = strchr(line, ','), *expression = label ? strstr(label + 1, "/,") : NULL;
    int error;
    PCRE2_SIZE place;
    if (!label || !expression || label[1] != 'v' || label[2] != '/')
        return "it is not of the form service,v/PRODUCT/VERSION/INFO/,EXPRESSION";
    *label++ = 0;
    expression[1] = 0;
    struct assets_signature *made = calloc(1, sizeof *made);
    if (!made)
        return "no memory";
    made->code = pcre2_compile((PCRE2_SPTR)(expression + 2), PCRE2_ZERO_TERMINATED, PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &place, NULL);
    made->service = strdup(line);
    made->label = strdup(label + 2);
    *all->last = made;
    all->last = &made->next;
    return !made->code ? "its expression is none of PCRE2" : made->service && made->label ? NULL : "no memory";
}

/* Puts the parts of a label together, with the groups of the match. */
static inline void assets_label(const struct assets_signatures *all, const struct assets_signature *signature, const uint8_t *bytes, int groups,
                                struct assets_product *product) {
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(all->groups);
    unsigned part = 0, used = 0;
    memset(product->part, 0, sizeof product->part);
    product->service = signature->service;
    for (const char *text = signature->label; *text && part < 3; text++) {
        int group = text[0] == '$' && text[1] >= '1' && text[1] <= '9' ? text[1] - '0' : 0;
        if (*text == '/') {
            part++;
            used = 0;
        } else if (group) {
            text++;
            bool set = group < groups && at[2 * group] != PCRE2_UNSET;
            for (PCRE2_SIZE i = set ? at[2 * group] : 0; set && i < at[2 * group + 1] && used + 1 < ASSETS_TEXT; i++)
                product->part[part][used++] = (char)bytes[i];
        } else if (used + 1 < ASSETS_TEXT) {
            product->part[part][used++] = *text;
        }
    }
}

/* The first signature that matches; false: none does. `*bounded` counts those that took too many steps. */
static inline bool assets_product_of(struct assets_signatures *all, const uint8_t *bytes, uint32_t length, struct assets_product *product,
                                     uint64_t *bounded) {
    for (const struct assets_signature *at = all->first; at; at = at->next) {
        if (!at->code)
            continue;
        int groups = pcre2_match(at->code, bytes, length, 0, 0, all->groups, all->bounds);
        *bounded += groups == PCRE2_ERROR_MATCHLIMIT || groups == PCRE2_ERROR_DEPTHLIMIT || groups == PCRE2_ERROR_HEAPLIMIT;
        if (groups < 0)
            continue;
        assets_label(all, at, bytes, groups ? groups : 10, product);
        return true;
    }
    return false;
}

#endif
