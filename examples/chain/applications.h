/* What dpi.c and ids.c agree on. */
enum { APPLICATION_UNKNOWN, APPLICATION_HTTP };
