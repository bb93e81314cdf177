/* With `sluice mos --ipv6`: its packets, too. */
SLUICE_ON(ipv6, arrived) {
    struct mos_context *context = SLUICE_WORKER_OF(event->box)->context;
    if (mos_packet_begin(context, sl_packet_frame(event)))
        mos_ip_packet(context, event->unit);
}
