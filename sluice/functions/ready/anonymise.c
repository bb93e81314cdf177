/* Makes captures that can be shared: addresses are replaced, and what could hold some is removed.
 *
 * IP addresses are mapped so that two that have a common prefix of n bits have one of n bits afterwards, and no longer one: the
 * construction of Crypto-PAn (Xu, Fan, Ammar, Moon, "Prefix-Preserving IP Address Anonymization", 2002), with SipHash in place
 * of its cipher. The same key gives the same mapping in every run. Link addresses are replaced by a keyed hash.
 *
 * A packet is written anew up to its transport header; the bytes after it are removed, unless payload=keep. Options of IP and
 * TCP that can hold addresses become no-operations. What is no IP, ARP or known transport has no place in the output: such
 * packets are dropped, and counted. Checksums are those of the new packet; one that was wrong stays wrong. */
#include "sluice.h"

#include "anonymise_packet.h"

SLUICE_INLINE
SLUICE_PARAMETER(key, text, "", "that the mapping follows from: at least 16 characters, which remain secret")
SLUICE_PARAMETER(payload, text, "remove", "what follows the transport header: remove it, zero it, or keep it (it may hold addresses)")
SLUICE_PARAMETER(macs, text, "hash", "link addresses: hash them, or zero them")

SLUICE_COUNTER(anonymise_packets, "packets that were anonymised")
SLUICE_COUNTER(anonymise_arp, "of these those of ARP")
SLUICE_COUNTER(anonymise_dropped, "packets that were dropped, as they have no form that is known not to hold an address")
SLUICE_COUNTER(anonymise_options, "options that were removed")
SLUICE_COUNTER(anonymise_quoted, "packets in ICMP errors, whose headers were anonymised too")
SLUICE_COUNTER(anonymise_payload, "bytes of payload that were removed or zeroed")
SLUICE_COUNTER(anonymise_not_sent, "packets that could not be written, as a packet has room for 256 KiB")

struct anonymise { struct anonymiser with; uint64_t done; };
SLUICE_WORKER(struct anonymise)
