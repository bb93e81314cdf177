#define _GNU_SOURCE 1 /* strptime, timegm */
#include "cache_rules.h"

#include "http_date.h"

enum {
    FOREVER = INT32_MAX,     /* seconds: a larger number means this (RFC 9111, section 1.2.2) */
    GUESSED_MOST = 86400,    /* seconds for which a response is fresh with only a Last-Modified */
};

/* Directives of Cache-Control; -1: it has none with a number. */
struct directives {
    int64_t max_age, shared_age, min_fresh, survives, updates;
    bool no_store, no_cache, personal, open, strict, stored, any;
};

/* The next member of a list with commas, some of which may be in quotes. False at the end. */
static bool next_member(struct service_text *list, struct service_text *member)
{
    uint32_t size = 0;
    bool quoted = false;

    if (list->length == 0)
        return false;
    for (; size < list->length && (quoted || list->at[size] != ','); size++) {
        if (quoted && list->at[size] == '\\' && size + 1 < list->length)
            size++;
        else if (list->at[size] == '"')
            quoted = !quoted;
    }
    *member = service_trim((struct service_text){list->at, size});
    size += size < list->length;
    *list = (struct service_text){list->at + size, list->length - size};
    return true;
}

static bool named(struct service_text text, const char *name) { return service_same_word(text, service_literal(name)); }

/* Seconds of a directive or of Age. A malformed number means stale; a number too large means forever. */
static int64_t seconds_of(struct service_text value)
{
    bool bad = false;
    int64_t found;

    if (value.length > 2 && value.at[0] == '"' && value.at[value.length - 1] == '"')
        value = (struct service_text){value.at + 1, value.length - 2};
    for (uint32_t i = 0; i < value.length; i++)
        if (value.at[i] < '0' || value.at[i] > '9')
            return 0;
    if (value.length > 10)
        return FOREVER;
    found = service_decimal(value, &bad);
    return bad ? 0 : found < FOREVER ? found : FOREVER;
}

/* Of two directives with a number the smaller one counts. */
static void set_seconds(int64_t *place, struct service_text value)
{
    int64_t found = seconds_of(value);

    *place = *place < 0 || found < *place ? found : *place;
}

static void read_directive(struct service_text member, struct directives *out)
{
    const uint8_t *equals = member.length ? memchr(member.at, '=', member.length) : NULL;
    uint32_t size = equals ? (uint32_t)(equals - member.at) : member.length;
    struct service_text name = service_trim((struct service_text){member.at, size}), value = {member.at, 0};

    if (equals)
        value = service_trim((struct service_text){equals + 1, member.length - size - 1});
    out->any = out->any || name.length;
    if (named(name, "no-store"))
        out->no_store = true;
    else if (named(name, "no-cache"))
        out->no_cache = true; /* also that of single fields */
    else if (named(name, "private"))
        out->personal = true;
    else if (named(name, "public"))
        out->open = true;
    else if (named(name, "must-revalidate") || named(name, "proxy-revalidate"))
        out->strict = true;
    else if (named(name, "only-if-cached"))
        out->stored = true;
    else if (named(name, "max-age"))
        set_seconds(&out->max_age, value);
    else if (named(name, "s-maxage"))
        set_seconds(&out->shared_age, value);
    else if (named(name, "min-fresh"))
        set_seconds(&out->min_fresh, value);
    else if (named(name, "stale-if-error"))
        set_seconds(&out->survives, value);
    else if (named(name, "stale-while-revalidate"))
        set_seconds(&out->updates, value);
}

static struct directives directives_of(struct service_text headers)
{
    struct directives found = {.max_age = -1, .shared_age = -1, .min_fresh = -1, .survives = -1, .updates = -1};
    struct service_text value, member;

    for (uint32_t at = 0; service_next_header(headers, service_literal("cache-control"), &at, &value);)
        while (next_member(&value, &member))
            read_directive(member, &found);
    return found;
}

static struct service_text field(struct service_text headers, const char *name)
{
    return service_header(headers, service_literal(name));
}

/* Whether there is a field of a name, also one without a value. */
static bool has_field(struct service_text headers, const char *name)
{
    struct service_text value;
    uint32_t at = 0;

    return service_next_header(headers, service_literal(name), &at, &value);
}

/* A URI without its scheme and authority; the authority of one that has it counts instead of Host (RFC 9112, section
 * 3.2.2). */
static void split_uri(struct service_wish *wish)
{
    const uint8_t *slash;
    struct service_text rest;

    if (wish->uri.length < 8 || !named((struct service_text){wish->uri.at, 7}, "http://"))
        return;
    rest = (struct service_text){wish->uri.at + 7, wish->uri.length - 7};
    slash = memchr(rest.at, '/', rest.length);
    if (!slash)
        return;
    wish->host = (struct service_text){rest.at, (uint32_t)(slash - rest.at)};
    wish->uri = (struct service_text){slash, rest.length - wish->host.length};
}

void service_read_wish(struct service_text line, struct service_text headers, struct service_wish *wish)
{
    static const char *const undecided[] = {"range", "authorization", "if-match", "if-unmodified-since", "if-range",
                                            "transfer-encoding", "upgrade", "expect"};
    struct directives said = directives_of(headers);
    struct service_text length = field(headers, "content-length");
    bool get;

    *wish = (struct service_wish){.method = service_word(line, 0), .uri = service_word(line, 1), .headers = headers};
    wish->host = field(headers, "host");
    split_uri(wish);
    get = service_same(wish->method, service_literal("GET"));
    wish->head = service_same(wish->method, service_literal("HEAD"));
    wish->old = service_same(service_word(line, 2), service_literal("HTTP/1.0"));
    wish->unsafe = !get && !wish->head && !service_same(wish->method, service_literal("OPTIONS")) &&
                   !service_same(wish->method, service_literal("TRACE"));
    wish->plain = (get || wish->head) && (length.length == 0 || named(length, "0"));
    for (size_t i = 0; i < sizeof undecided / sizeof undecided[0]; i++)
        wish->plain = wish->plain && !has_field(headers, undecided[i]);
    wish->no_store = said.no_store;
    wish->validated = said.no_cache || (!said.any && service_has(headers, service_literal("pragma"), service_literal("no-cache")));
    wish->stored = said.stored;
    wish->max_age = said.max_age;
    wish->min_fresh = said.min_fresh;
    wish->asks = field(headers, "if-none-match").length || field(headers, "if-modified-since").length;
}

/* Statuses that are stored without an explicit lifetime, and those that need one (RFC 9110, section 15.1). */
static bool understood(uint32_t status, bool explicitly)
{
    static const uint16_t known[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (status == known[i])
            return true;
    return explicitly && (status == 302 || status == 307);
}

/* Copies a text that ends with a zero byte; empty if it does not fit. */
static bool copy(char *to, size_t room, struct service_text text)
{
    to[0] = 0;
    if (text.length >= room)
        return false;
    memcpy(to, text.at, text.length);
    to[text.length] = 0;
    return true;
}

/* All Cache-Control fields as one. False if they are too long. */
static bool copy_control(struct service_text headers, struct service_freshness *out)
{
    struct service_text value;
    uint32_t size = 0;

    for (uint32_t at = 0; service_next_header(headers, service_literal("cache-control"), &at, &value);) {
        if (size + value.length + 2 > sizeof out->control)
            return false;
        if (size && value.length) {
            memcpy(out->control + size, ", ", 2);
            size += 2;
        }
        memcpy(out->control + size, value.at, value.length);
        size += value.length;
    }
    out->control_size = (uint16_t)size;
    return true;
}

/* The lifetime and the age of a response (RFC 9111, sections 4.2.1 to 4.2.3). */
static void set_times(struct service_text headers, const struct directives *said, int64_t now, int64_t delay,
                      struct service_freshness *out)
{
    int64_t date = service_date_of(field(headers, "date")), age = seconds_of(field(headers, "age"));
    struct service_text expires = field(headers, "expires");
    int64_t until = expires.length ? service_date_of(expires) : -1;

    if (said->no_cache || said->strict || said->shared_age >= 0) /* s-maxage is strict, too (RFC 9111, section 5.2.2.10) */
        out->survives = out->updates = -1;
    else {
        out->survives = said->survives;
        out->updates = said->updates;
    }
    if (date < 0) {
        date = now;
        service_date_text((time_t)now, out->date);
    }
    age += delay;
    out->age = now - date > age ? now - date : age;
    if (said->no_cache)
        out->lifetime = 0;
    else if (said->shared_age >= 0)
        out->lifetime = said->shared_age;
    else if (said->max_age >= 0)
        out->lifetime = said->max_age;
    else if (expires.length)
        out->lifetime = until > date ? until - date : 0;
    else if (out->modified >= 0 && date > out->modified)
        out->lifetime = (date - out->modified) / 10 < GUESSED_MOST ? (date - out->modified) / 10 : GUESSED_MOST;
    else
        out->lifetime = 0;
}

bool service_read_freshness(uint32_t status, struct service_text headers, int64_t now, int64_t delay,
                            struct service_freshness *found)
{
    struct directives said = directives_of(headers);
    struct service_text tag = field(headers, "etag"), modified = field(headers, "last-modified");
    struct service_text expires = field(headers, "expires"), date = field(headers, "date");
    bool explicitly = said.max_age >= 0 || said.shared_age >= 0 || expires.length || said.open;

    *found = (struct service_freshness){.status = (uint16_t)status, .modified = -1, .survives = -1, .updates = -1};
    if (said.no_store || said.personal || !understood(status, explicitly) || has_field(headers, "set-cookie") ||
        !copy_control(headers, found) || !copy(found->expires, sizeof found->expires, expires))
        return false;
    if (service_date_of(date) >= 0)
        copy(found->date, sizeof found->date, date);
    if (modified.length && service_date_of(modified) >= 0) {
        copy(found->last_modified, sizeof found->last_modified, modified);
        found->modified = service_date_of(modified);
    }
    if (tag.length > sizeof found->tag)
        return false;
    memcpy(found->tag, tag.at, tag.length);
    found->tag_size = (uint16_t)tag.length;
    set_times(headers, &said, now, delay, found);
    return found->lifetime > found->age || service_has_validator(found);
}

bool service_read_refreshed(struct service_text headers, int64_t now, int64_t delay, struct service_freshness *found)
{
    struct service_freshness before = *found, next;
    bool keeps = service_read_freshness(before.status, headers, now, delay, &next);
    struct directives said;

    if (!next.control_size && before.control_size) { /* the stored field continues */
        memcpy(next.control, before.control, before.control_size);
        next.control_size = before.control_size;
    }
    if (!next.expires[0])
        memcpy(next.expires, before.expires, sizeof next.expires);
    if (!next.tag_size) {
        memcpy(next.tag, before.tag, before.tag_size);
        next.tag_size = before.tag_size;
    }
    if (next.modified < 0) {
        memcpy(next.last_modified, before.last_modified, sizeof next.last_modified);
        next.modified = before.modified;
    }
    said = directives_of(headers);
    if (said.no_store || said.personal || (!keeps && has_field(headers, "set-cookie")))
        return false;
    if (!said.any && !field(headers, "expires").length) /* it has no lifetime: the previous one applies */
        next.lifetime = before.lifetime;
    if (!said.any) {
        next.survives = before.survives;
        next.updates = before.updates;
    }
    *found = next;
    return true;
}

bool service_usable(const struct service_freshness *found, int64_t age, const struct service_wish *wish)
{
    if (wish->validated || age >= found->lifetime || (wish->max_age >= 0 && age > wish->max_age))
        return false;
    return wish->min_fresh < 0 || found->lifetime - age >= wish->min_fresh;
}

/* Whether one that was fresh for `more` seconds longer may be used. A request that limits the age accepts none that is not
 * fresh (section 5.2.1.1). */
static bool usable_stale(const struct service_freshness *found, int64_t age, int64_t more, const struct service_wish *wish)
{
    return more >= 0 && !wish->validated && wish->max_age < 0 && wish->min_fresh < 0 && age - found->lifetime <= more;
}

bool service_usable_after_error(const struct service_freshness *found, int64_t age, const struct service_wish *wish)
{
    return usable_stale(found, age, found->survives, wish);
}

bool service_usable_while_asked(const struct service_freshness *found, int64_t age, const struct service_wish *wish)
{
    return usable_stale(found, age, found->updates, wish);
}

bool service_client_has(const struct service_freshness *found, const struct service_wish *wish)
{
    struct service_text own = {(const uint8_t *)found->tag, found->tag_size}, value, member;
    bool asked = false;
    int64_t since;

    if (found->status != 200)
        return false;
    for (uint32_t at = 0; service_next_header(wish->headers, service_literal("if-none-match"), &at, &value);)
        for (asked = true; next_member(&value, &member);)
            if (named(member, "*") || (own.length && service_same(service_weak_tag(member), service_weak_tag(own))))
                return true;
    if (asked || found->modified < 0)
        return false;
    since = service_date_of(field(wish->headers, "if-modified-since"));
    return since >= 0 && found->modified <= since;
}

bool service_field_dropped(struct service_text name, struct service_text headers)
{
    static const char *const never[] = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade",
                                        "proxy-authenticate", "proxy-authentication-info", "date", "age", "expires",
                                        "cache-control"};

    return service_named(name, never, sizeof never / sizeof never[0]) ||
           service_has(headers, service_literal("connection"), name);
}
