"""What descriptions mean, from outside: packets in, events and counters out. Named like the files of sluice/lang."""
