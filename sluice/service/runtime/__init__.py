"""The platform: C that compiled programs are linked with. A file includes only those above it.

value.h              values of a program: strings, integers, their hash
counters.h           what is counted, with its reason
buffer.h             buffers of fixed size, from a pool that is allocated at start
service.h            what a compiled program consists of, and its channels and instances
message.h send.h     what compiled code does with channels: receive; forward, copy, release
instance.c           the turn of an instance: its rules, what they wait for, how it ends
io.h                 the connections of channels: one interface, a file for each back end
socket.c             the back end over epoll: connect, read, write, close
worker.h worker.c    a worker: its pools, its queue of instances, its loop
main.c               options, threads, signals, the report
"""
