"""The platform: C that compiled programs are linked with. A file includes only those above it.

value.h dictionary.h      values of a program: strings, integers, their hash; dictionaries
text.h headers.h parts.h  protocols in text: words and numbers; header fields; parts of unknown number
counters.h                the counters, with their reasons
buffer.h                  buffers of fixed size, from a pool that is allocated at start
service.h                 the parts of a compiled program, and its channels and instances
tally.h backend.h         counters of backends for metrics; their state, shared by workers
ring.h ring.c             consistent hashing as libmemcached does it
io.h                      the connections of channels, for compiled code and instances
look.h message.h send.h   operations of compiled code on channels: look at, receive, release; forward, copy
instance.h instance.c     the turn of an instance: its rules, their waiting, its end
events.h epoll.c uring.c  events of connections: one interface, a file for each back end
worker.h                  a worker, and the services within it
socket.c splice.c         connections: connect, read, write, close; bodies that pass in the kernel
tls.h tls.c               TLS of connections; tls_context.c: certificates, memory; tls_parts.h: shared by both
tls_probe.c               TLS of health checks
tls_none.c                the same where a program is compiled without OpenSSL
folder.h folder.c         a folder in the place of a backend; folder_head.c, http_date.h: the heads of its responses
proxy_header.h prelude.h  headers of the PROXY protocol; data before a client's messages; ends.h: its addresses
log.h log.c               the access log; log_format.c: its lines; log_file.h: its file and thread
h2.h h2.c h2_session.c    HTTP/2 of clients; h2_request.c, h2_response.c: to HTTP/1.1 and back; h2_none.c: without it
cache_rules.h cache_rules.c  what RFC 9111 permits a shared cache
cache_store.h cache_store.c  the memory of the HTTP cache
cache.h cache.c           the cache between channels and their backends; cache_parts.h: shared by the files of these
cache_wait.c              requests for the same that wait for one of them
cache_answer.c            look-up, and answers from the cache; cache_record.c: responses that are stored while they pass
pool.c                    idle connections to backends
lane.c overdue.c steal.c  a service within a worker: its instances; time limits; instances handed to an idle worker
worker.c                  the loop of a worker
health.h health.c         health checks of backends
metrics.h metrics.c       counters for Prometheus
options.h options.c       the options of services
main.c                    threads, signals, the report
"""
