/* Ports of the function nat that are forwarded to inside endpoints. A part of nat.c. */
#ifndef NAT_FORWARD_H
#define NAT_FORWARD_H

struct nat_forwarded { uint64_t external, number; uint32_t inside; };

/* Reads PORT:ADDRESS:PORT. Returns its error, or NULL. */
static const char *nat_forward_read(const struct sl_box *box, char *text, struct nat_forwarded *to) {
    const struct nat *nat = SLUICE_WORKER_OF(box);
    char *address = strchr(text, ':'), *port = address ? strchr(address + 1, ':') : NULL;
    if (!port)
        return "is not PORT:ADDRESS:PORT, as in forward=21:10.0.0.5:21+80:10.0.0.6:8080";
    *address++ = *port++ = 0;
    if (!sl_parameter_number(text, &to->external) || !to->external || to->external > 65535 || !sl_parameter_number(port, &to->number) ||
        !to->number || to->number > 65535)
        return "has a port that is not one from 1 to 65535";
    if (!ip4_read(address, &to->inside, NULL))
        return "has an address that is not one of IPv4";
    if ((to->inside & nat->mask) != nat->inside)
        return "has an address that is not in `inside`: its answers would not be translated; give an inside address, or widen `inside`";
    if (to->external >= SLUICE_PARAMETER_OF(box, first_port) && to->external <= SLUICE_PARAMETER_OF(box, last_port))
        return "has an external port that is given out to others; choose one below first_port or above last_port, or change these";
    return NULL;
}

/* Gives an inside endpoint a permanent external port. Returns the error, or NULL. */
static const char *nat_forward_one(struct sl_box *box, const struct nat_forwarded *to) {
    struct sl_object *object = SLUICE_SHARED_AT(box, endpoint, nat_endpoint_number(NAT_TCP, to->inside, (uint16_t)to->number));
    struct sl_object *back = SLUICE_SHARED_AT(box, inside_of, to->external);
    struct nat_endpoint *endpoint = sl_shared_struct(object);
    struct nat_inside *at = sl_object_bytes_of(back);
    if (!endpoint || !at)
        return "could not be stored: there is no memory, or the store has failed";
    if (endpoint->port && endpoint->port != to->external)
        return "has an inside end with another external port, from which its answers would come; give each end one port";
    if (!endpoint->port)   /* one connection more than there are: it is never released */
        *endpoint = (struct nat_endpoint){(uint32_t)to->external, 1};
    *at = (struct nat_inside){to->inside, (uint16_t)to->number, NAT_TCP};
    if (sl_shared_put(object) != SL_STORE_DONE || sl_shared_put(back) != SL_STORE_DONE)
        return "could not be stored: there is no memory, or the store has failed";
    sl_shared_leave_to_store(object);
    return NULL;
}

/* Gives inside endpoints the ports that `text` names for them, with + between them. Returns false if that is not possible; the
 * reason was printed. */
static bool nat_forward(struct sl_box *box, const char *text) {
    uint8_t given[65536 / 8] = {0};
    while (*text) {
        char one[48];
        struct nat_forwarded to = {0};
        size_t length = strcspn(text, "+");
        const char *wrong = "is not PORT:ADDRESS:PORT, as in forward=21:10.0.0.5:21+80:10.0.0.6:8080";
        if (length < sizeof one) {
            memcpy(one, text, length);
            one[length] = 0;
            wrong = nat_forward_read(box, one, &to);
        }
        if (!wrong && given[to.external / 8] >> to.external % 8 & 1)
            wrong = "has an external port that an earlier one has; give each port once";
        if (!wrong)
            wrong = nat_forward_one(box, &to);
        if (wrong) {
            fprintf(stderr, "nat: forward: %.*s %s\n", (int)sl_min(length, 64), text, wrong);
            return false;
        }
        given[to.external / 8] |= (uint8_t)(1u << to.external % 8);
        text += length + (text[length] == '+');
    }
    return true;
}

#endif
