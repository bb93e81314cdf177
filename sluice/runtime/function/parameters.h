/* Parameters of a function, declared by its SLUICE_PARAMETER lines: read from the text that a user gives, or set to values
 * that a program gives by name.
 *
 * The text is NAME=VALUE,NAME=VALUE; for a flag, NAME alone means yes. A comma ends a value only if the name of a
 * parameter follows, so a value, for example a file name, may contain commas. */
#ifndef SL_PARAMETERS_H
#define SL_PARAMETERS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum sl_parameter_kind { SL_TEXT, SL_NUMBER, SL_SECONDS, SL_FLAG };

struct sl_parameter {
    const char *name;
    enum sl_parameter_kind kind;
    size_t offset;   /* in the function's struct, where its type is const char *, uint64_t, double or bool */
    const char *value;   /* the default, as a user would write it */
};

/* The parameter whose name is at `text`, followed by `=`, or, for a flag, by a comma or the end; NULL if there is
 * none. */
static inline const struct sl_parameter *sl_parameter_at(const struct sl_parameter *all, unsigned count, const char *text) {
    size_t length = strcspn(text, "=,");
    for (unsigned i = 0; i < count; i++)
        if (strlen(all[i].name) == length && memcmp(all[i].name, text, length) == 0 &&
            (text[length] == '=' || all[i].kind == SL_FLAG))
            return &all[i];
    return NULL;
}

/* The end of the value that begins at `text`. */
static inline const char *sl_parameter_end(const struct sl_parameter *all, unsigned count, const char *text) {
    const char *comma;
    while ((comma = strchr(text, ',')) && !sl_parameter_at(all, count, comma + 1))
        text = comma + 1;
    return comma ? comma : text + strlen(text);
}

/* A decimal number, or a hexadecimal one after 0x. Unlike strtoull it accepts neither octal numbers nor a second 0x. */
static inline bool sl_parameter_number(const char *text, uint64_t *number) {
    bool hexadecimal = text[0] == '0' && text[1] == 'x';
    const char *digits = hexadecimal ? text + 2 : text;
    size_t length = strspn(digits, hexadecimal ? "0123456789abcdefABCDEF" : "0123456789");
    errno = 0;
    *number = strtoull(digits, NULL, hexadecimal ? 16 : 10);
    return length && !digits[length] && !errno;
}

/* Digits, optionally followed by a point and digits. Unlike strtod it accepts no exponents, names or hexadecimal
 * numbers. */
static inline bool sl_parameter_seconds(const char *text, double *seconds) {
    size_t length = strspn(text, "0123456789");
    const char *fraction = text + length + (text[length] == '.');
    size_t digits = strspn(fraction, "0123456789");
    *seconds = strtod(text, NULL);
    return length && !fraction[digits] && (fraction == text + length || digits);
}

/* Sets the variable of a parameter; false if the value is not one of its kind. */
static inline bool sl_parameter_set(const struct sl_parameter *parameter, void *parameters, const char *value) {
    void *at = (char *)parameters + parameter->offset;
    switch (parameter->kind) {
    case SL_TEXT:
        *(const char **)at = value;
        return true;
    case SL_NUMBER:
        return sl_parameter_number(value, at);
    case SL_SECONDS:
        return sl_parameter_seconds(value, at);
    default:
        *(bool *)at = strcmp(value, "no") != 0;
        return strcmp(value, "yes") == 0 || strcmp(value, "no") == 0;
    }
}

/* Sets all parameters of function `name`: to their defaults, then to what is given. *kept holds the texts that they
 * point to; the caller frees it when the parameters are no longer needed. Returns 0, or -1 after printing what is wrong
 * with the text. */
static inline int sl_parameters_read(const char *name, const struct sl_parameter *all, unsigned count, void *parameters,
                                     const char *given, char **kept) {
    for (unsigned i = 0; i < count; i++)
        sl_parameter_set(&all[i], parameters, all[i].value);
    char *text = *kept = malloc(strlen(given) + 1);
    if (!text)
        return -1;
    strcpy(text, given);
    while (*text) {
        const struct sl_parameter *parameter = sl_parameter_at(all, count, text);
        if (!parameter) {
            fprintf(stderr, "%s: '%s' begins with the name of no parameter\n", name, text);
            return -1;
        }
        char *value = text + strlen(parameter->name);
        char *end = value + (sl_parameter_end(all, count, value) - value);
        bool more = *end == ',';
        *end = 0;
        if (!sl_parameter_set(parameter, parameters, *value ? value + 1 : "yes")) {
            fprintf(stderr, "%s: '%s' is no value for parameter '%s'\n", name, value + 1, parameter->name);
            return -1;
        }
        text = end + more;
    }
    return 0;
}

/* The same from pairs NAME, VALUE, ended by NULL: a value is not read for commas and names. */
static inline int sl_parameters_set(const char *name, const struct sl_parameter *all, unsigned count, void *parameters,
                                    const char *const *pairs, char **kept) {
    size_t bytes = 1;
    for (const char *const *pair = pairs; *pair; pair += 2)
        bytes += strlen(pair[1]) + 1;
    for (unsigned i = 0; i < count; i++)
        sl_parameter_set(&all[i], parameters, all[i].value);
    char *text = *kept = malloc(bytes);
    if (!text)
        return -1;
    for (const char *const *pair = pairs; *pair; pair += 2) {
        unsigned i = 0;
        while (i < count && strcmp(all[i].name, pair[0]) != 0)
            i++;
        strcpy(text, pair[1]);
        if (i == count || !sl_parameter_set(&all[i], parameters, text)) {
            fprintf(stderr, "%s: '%s' is no value for parameter '%s'\n", name, pair[1], pair[0]);
            return -1;
        }
        text += strlen(text) + 1;
    }
    return 0;
}

#endif
