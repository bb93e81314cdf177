/* The event by which `dpi` says what a flow carries. */
#ifndef DPI_EVENT_H
#define DPI_EVENT_H

/* Fields of dpi_application, which is published once for each flow, when nDPI has decided: `protocol` and `master` are
 * nDPI's numbers (0: unknown; `master` is what carries `protocol`, as TLS), `risks` has a bit for each risk by its number,
 * and `risk_names` their names, a newline between them. `application` is empty where it is unknown. */
#define DPI_APPLICATION                                                                                                 \
    { uint16_t protocol; uint16_t master; uint8_t guessed; uint64_t risks; sl_bytes application; sl_bytes category;        \
      sl_bytes hostname; sl_bytes risk_names; }

#endif
