module sluice/bench/peers/gopacket

go 1.21

require github.com/google/gopacket v1.1.19
