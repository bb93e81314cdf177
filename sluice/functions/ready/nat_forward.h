/* Ports of the function nat that are forwarded to inside endpoints. A part of nat.c. */
#ifndef NAT_FORWARD_H
#define NAT_FORWARD_H

/* Reads PORT:ADDRESS:PORT; the external port must be none of those that are given out. */
static bool nat_forward_read(const struct sl_box *box, char *text, uint64_t *external, uint32_t *inside, uint64_t *number) {
    char *address = strchr(text, ':'), *port = address ? strchr(address + 1, ':') : NULL;
    if (!port)
        return false;
    *address++ = *port++ = 0;
    return sl_parameter_number(text, external) && ip4_read(address, inside, NULL) && sl_parameter_number(port, number) && *external &&
           *external <= 65535 && *number && *number <= 65535 &&
           (*external < SLUICE_PARAMETER_OF(box, first_port) || *external > SLUICE_PARAMETER_OF(box, last_port));
}

/* Gives inside endpoints the ports that `text` names for them, with + between them. */
static bool nat_forward(struct sl_box *box, const char *text) {
    while (*text) {
        char one[48];
        size_t length = strcspn(text, "+");
        uint64_t external, number;
        uint32_t inside;
        if (length >= sizeof one)
            return false;
        memcpy(one, text, length);
        one[length] = 0;
        text += length + (text[length] == '+');
        if (!nat_forward_read(box, one, &external, &inside, &number))
            return false;
        struct sl_object *object = SLUICE_SHARED_AT(box, endpoint, nat_endpoint_number(NAT_TCP, inside, (uint16_t)number));
        struct sl_object *back = SLUICE_SHARED_AT(box, inside_of, external);
        struct nat_endpoint *endpoint = sl_shared_struct(object);
        struct nat_inside *at = sl_object_bytes_of(back);
        if (!endpoint || !at)
            return false;
        if (!endpoint->port)   /* one connection more than there are: it is never released */
            *endpoint = (struct nat_endpoint){(uint32_t)external, 1};
        *at = (struct nat_inside){inside, (uint16_t)number, NAT_TCP};
        if (sl_shared_put(object) != SL_STORE_DONE || sl_shared_put(back) != SL_STORE_DONE)
            return false;
        sl_shared_leave_to_store(object);
    }
    return true;
}

#endif
