"""What inline assembly may change, by its text: known instructions change the memory of their operands only."""

from __future__ import annotations

import pytest

from tests.analyze.conftest import Analyses

PROGRAM = """
#include <stdio.h>
static unsigned long counter, flags[4], other;
static unsigned long *volatile escaped = &other;
void unknown(unsigned long *volatile *);

int main(int argc, char **argv) {
  char error[256];
  pcap_t *handle = pcap_open_live(argv[1], 65535, 1, 1000, error);
  unknown(&escaped);
  for (;;) {
    struct pcap_pkthdr header;
    const struct packet *packet = (const struct packet *)pcap_next(handle, &header);
    if (!packet) return 0;
    unsigned long value = packet->ttl;
    unsigned char done;
    %s
    printf("%%lu %%lu %%lu %%lu %%d\\n", counter, flags[1], other, value, done);
  }
}
"""

PAIR = '{ static struct { unsigned long *a, *b; } pair = {&counter, &other}; unsigned long *at; __asm__ volatile("'

CASES = {
    '__asm__ volatile("lock addq %1, %0" : "+m"(counter) : "r"(value) : "memory", "cc");': {"counter"},
    '__asm__ volatile("lock xaddq %0, %1" : "=r"(value), "+m"(counter) : "0"(value) : "memory");': {"counter"},
    '__asm__ volatile("lock; incq %0" : "+m"(counter) :: "memory");': {"counter"},
    '__asm__ volatile("lock btsq %2, %0; setc %1" : "+m"(flags[0]), "=q"(done) : "r"(value) : "cc");': {"flags"},
    '__asm__ volatile("1: lock cmpxchgq %2, %0\\n\\tjnz 1b" : "+m"(counter) : "a"(0L), "r"(value));': {"counter"},
    '__asm__ volatile("movq %1, (%0)" :: "r"(&counter), "r"(value) : "memory");': {"counter"},
    '__asm__ volatile("movq %1, 8(%0)" :: "r"(flags), "r"(value) : "memory");': {"flags"},
    PAIR + 'movq 8(%1), %0" : "=r"(at) : "r"(&pair)); *at = value; }': {"other"},
    '__asm__ volatile("rep; nop");': set[str](),
    '__asm__ volatile("mfence" ::: "memory");': set[str](),
    '__asm__ volatile("lock addl $0,0 (%%rsp)" ::: "memory", "cc");': set[str](),
    '__asm__ volatile("bswap %0" : "+r"(value));': set[str](),
}
UNKNOWN = {
    '__asm__ volatile("call helper" ::: "memory");',
    '__asm__ volatile("incq other" ::: "memory");',
    '__asm__ volatile("rep stosb" : "+D"(value) :: "memory");',
    '__asm__ volatile("movq %0, %%fs:8" :: "r"(value));',
    '__asm__ volatile("incq (%0,%1,8)" :: "r"(value), "r"(value) : "memory");',
    '__asm__ volatile("nop # %0\\n\\tincq (%%rax)" :: "r"(value));',
    '__asm__ volatile("frobnicate %0" :: "r"(value));',
}


@pytest.mark.parametrize("assembly", CASES)
def test_known_instructions_change_their_operands_only(assembly: str, program: Analyses) -> None:
    found = program(PROGRAM % assembly, assume=["unknown"])
    by_name = {one.name: one for one in found.variables}
    assert {name for name in ("counter", "flags", "other") if by_name[name].updates} == CASES[assembly]
    assert found.inline_assembly == []


@pytest.mark.parametrize("assembly", sorted(UNKNOWN))
def test_other_assembly_may_change_all_that_escapes(assembly: str, program: Analyses) -> None:
    found = program(PROGRAM % assembly)
    assert next(one for one in found.variables if one.name == "other").updates
    assert len(found.inline_assembly) == 1
