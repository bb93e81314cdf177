"""What the parser of a grammar costs: nanoseconds for a message of Memcached's binary protocol, by the size of its
value.

    .venv/bin/python bench/grammars.py [--rounds 5] [--libmemcached FOLDER]

`opcode and key` is the parser of a router, which reads these and the fields on which their places depend; `all
fields` that of a program that names all, without and with a copy of the message, as a parser that owns its bytes
makes it. FOLDER is the source of libmemcached 1.1 (Debian: apt-get source libmemcached), whose hand-written parser
for servers (libmemcachedprotocol) then gets the same messages from memory in the same run. Figures are medians of
the rounds, in each of which all take turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sluice.service.build import RUNTIME  # noqa: E402  after the path
from sluice.service.grammar.lower import parser, structure  # noqa: E402
from sluice.service.grammar.plan import plan  # noqa: E402
from sluice.service.grammar.ready import find_grammars  # noqa: E402

SIZES = (0, 1 << 10, 5 << 10, 20 << 10)
COUNT = 2_000_000
"""Messages of a run."""

MESSAGE = """\
static uint8_t message[32768];

/* A set of a key of 16 bytes: 8 bytes of flags and time, and the value. */
static uint64_t make_message(uint32_t value)
{
    uint32_t total = 8 + 16 + value;

    memset(message, 'v', sizeof message);
    memset(message, 0, 32);
    message[0] = 0x80;
    message[1] = 1;
    message[3] = 16;
    message[4] = 8;
    for (int i = 0; i < 4; i++)
        message[8 + i] = (uint8_t)(total >> (24 - 8 * i));
    return 24 + total;
}

static double now(void)
{
    struct timespec found;

    clock_gettime(CLOCK_MONOTONIC, &found);
    return (double)found.tv_sec * 1e9 + (double)found.tv_nsec;
}
"""

HAVE = ("PTHREAD_H", "ARPA_INET_H", "NETINET_IN_H", "NETDB_H", "IN_PORT_T", "PID_T", "SSIZE_T")
KNOWN = "".join(f"#define HAVE_{name} 1\n" for name in HAVE) + "#include <stdint.h>\n#include <netinet/in.h>\n"
"""What libmemcached's build finds here."""

OURS = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "%(runtime)s/send.h"

%(message)s
%(parser)s
int main(int argc, char **argv)
{
    static uint8_t copy[32768];
    uint64_t length = make_message((uint32_t)atoi(argv[1])), count = strtoull(argv[2], NULL, 10);
    const bool copies = argc > 3;
    struct service_found found = {0};
    struct m_cmd out = {0};
    double begin = now();

    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *data = message;

        if (copies) {
            memcpy(copy, message, length);
            data = copy;
        }
        __asm__ volatile("" : "+r"(data) : : "memory"); /* each message is another one */
        if (m_cmd_parse(data, length, &out, &found) != SERVICE_READY || out.m.total != length)
            abort();
        __asm__ volatile("" : : "r"(&out) : "memory");
    }
    printf("%%.2f\\n", (now() - begin) / (double)count);
    return 0;
}
"""

THEIRS = """\
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include "libmemcachedprotocol/common.h"

%(message)s
static uint64_t length, given, count, seen;

static ssize_t take(const void *cookie, int fd, void *to, size_t room)
{
    size_t left = (size_t)(count * length - given), at = (size_t)(given %% length), size = length - at;

    (void)cookie, (void)fd;
    if (left == 0) {
        errno = EAGAIN;
        return -1;
    }
    size = size < room ? size : room;
    memcpy(to, message + at, size);
    given += size;
    return (ssize_t)size;
}

static ssize_t drop(const void *cookie, int fd, const void *from, size_t size)
{
    (void)cookie, (void)fd, (void)from;
    return (ssize_t)size;
}

static protocol_binary_response_status set(const void *cookie, const void *key, uint16_t keylen, const void *data,
uint32_t datalen,
                                           uint32_t flags, uint32_t exptime, uint64_t cas, uint64_t *result)
{
    (void)cookie, (void)key, (void)keylen, (void)data, (void)datalen, (void)flags, (void)exptime, (void)cas;
    *result = 0;
    seen++;
    return PROTOCOL_BINARY_RESPONSE_SUCCESS;
}

int main(int argc, char **argv)
{
    struct memcached_protocol_st *instance = memcached_protocol_create_instance();
    struct memcached_protocol_client_st *client;
    memcached_binary_protocol_callback_st callbacks = {.interface_version = MEMCACHED_PROTOCOL_HANDLER_V1};
    double begin;

    (void)argc;
    length = make_message((uint32_t)atoi(argv[1]));
    message[1] = 0x11; /* a quiet one has no answer: nothing is written */
    count = strtoull(argv[2], NULL, 10);
    callbacks.interface.v1.set = set;
    memcached_binary_protocol_set_callbacks(instance, &callbacks);
    instance->recv = take; /* its function for this is declared, and not there */
    instance->send = drop;
    client = memcached_protocol_create_client(instance, 0);
    begin = now();
    while (seen < count)
        if (memcached_protocol_client_work(client) == MEMCACHED_PROTOCOL_ERROR_EVENT)
            abort();
    printf("%%.2f\\n", (now() - begin) / (double)count);
    return 0;
}
"""


def build(folder: Path, name: str, text: str, *more: str) -> str:
    """The program of a C source."""
    source, made = folder / f"{name}.c", folder / name
    source.write_text(text)
    subprocess.run(["gcc", "-O3", "-w", "-o", made, source, *more], check=True)
    return str(made)


def ours(folder: Path, name: str, fields: list[str]) -> str:
    unit = plan(find_grammars("memcached_binary")[0])
    lines = "\n".join([*structure("cmd", unit, fields), *parser("cmd", unit, fields)])
    return build(folder, name, OURS % {"runtime": RUNTIME, "message": MESSAGE, "parser": lines})


def theirs(folder: Path, source: Path) -> str:
    parts = source / "src" / "libmemcachedprotocol"
    files = [str(each) for each in sorted(parts.iterdir()) if each.suffix == ".c"]
    files += [str(source / "src" / "libmemcached" / "byteorder.cc"), "-lstdc++"]
    for each in (source / "include").glob("*/configure.h.in"):  # of what their build makes, this is needed
        (folder / each.parent.name).mkdir()
        (folder / each.parent.name / "configure.h").write_text(KNOWN)
    (folder / "mem_config.h").write_text(KNOWN)
    text = THEIRS % {"message": MESSAGE}
    return build(folder, "theirs", text, *files, f"-I{folder}", f"-I{source}/include", f"-I{source}/src")


def nanoseconds(command: list[str], size: int) -> float:
    found = subprocess.run(
        [command[0], str(size), str(COUNT), *command[1:]], capture_output=True, text=True, check=True
    )
    return float(found.stdout)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--libmemcached", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        every = [item.name for item in plan(find_grammars("memcached_binary")[0]).items if item.name]
        key, whole = ours(folder, "key", ["opcode", "key"]), ours(folder, "whole", every)
        programs = {"opcode and key": [key], "all fields": [whole], "all fields, copied": [whole, "copy"]}
        if given.libmemcached:
            programs["libmemcached, all fields"] = [theirs(folder, given.libmemcached)]
        print("| nanoseconds for a value of | " + " | ".join(f"{size:,} bytes" for size in SIZES) + " |")
        print("|---|" + "---|" * len(SIZES))
        found: dict[tuple[str, int], list[float]] = {}
        for _ in range(given.rounds):
            for size in SIZES:
                for name, command in programs.items():
                    found.setdefault((name, size), []).append(nanoseconds(command, size))
        for name in programs:
            print(f"| {name} | " + " | ".join(f"{median(found[name, size]):.1f}" for size in SIZES) + " |")


if __name__ == "__main__":
    main()
