"""ketama() and ketama_weighted(): each key goes to the server to which libmemcached itself sends it."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sluice.engine.compiler import compiler
from sluice.service.build import RUNTIME
from sluice.service.lang.errors import ServiceError
from sluice.service.load import load_file, load_source
from tests.service.peers import Served, faults, memcached, needs_memcached
from tests.service.test_memcached_routes import clients

KETAMA, KETAMA_WEIGHTED = 3, 16
"""MEMCACHED_BEHAVIOR_KETAMA and MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED of libmemcached."""


def libmemcached(behavior: int, servers: Sequence[tuple[str, int]]) -> Callable[[bytes], int]:
    """The number of the server that libmemcached chooses for a key."""
    name = ctypes.util.find_library("memcached")
    if name is None:
        pytest.skip("there is no libmemcached")
    library = ctypes.CDLL(name)
    library.memcached_create.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.memcached_create(None))
    assert library.memcached_behavior_set(handle, behavior, ctypes.c_uint64(1)) == 0
    for host, port in servers:
        assert library.memcached_server_add(handle, host.encode(), ctypes.c_uint16(port)) == 0
    return lambda key: library.memcached_generate_hash(handle, key, ctypes.c_size_t(len(key)))


@needs_memcached
@pytest.mark.parametrize(
    ("name", "behavior"), [("memcached_ketama", KETAMA), ("memcached_ketama_weighted", KETAMA_WEIGHTED)]
)
def test_keys_go_where_libmemcached_sends_them(name: str, behavior: int) -> None:
    with memcached(4) as servers:
        ports = list(servers)
        place = libmemcached(behavior, [("127.0.0.1", port) for port in ports])
        with Served(load_file(name), ports) as served, clients(served.port, *ports) as (client, *own):
            keys = [b"key:%d" % (number * number) for number in range(200)] + [
                b"k" * size for size in (54, 55, 56, 64, 250)
            ]
            for key in keys:
                assert client(b"set %s 0 0 1\r\nx\r\n" % key) == b"STORED\r\n"
            for key in keys:
                found = [number for number, each in enumerate(own) if each(b"get %s\r\n" % key) != b"END\r\n"]
                assert found == [place(key)], key
            got = client(b"get " + b" ".join(keys[:40]) + b"\r\n")
            assert [line.split()[1] for line in got.split(b"\r\n") if line.startswith(b"VALUE")] == keys[:40]
            assert not faults(served.stop())


@needs_memcached
def test_the_binary_protocol_has_the_same_places(tmp_path: Path) -> None:
    with memcached(3) as servers:
        ports = list(servers)
        place = libmemcached(KETAMA, [("127.0.0.1", port) for port in ports])
        with Served(load_file("memcached_binary_ketama"), ports) as served, clients(*ports) as own:
            for number in range(20):
                file = tmp_path / f"key{number}"
                file.write_text("x")
                command = ["memccp", "--binary", f"--servers=127.0.0.1:{served.port}", str(file)]
                subprocess.run(command, check=True, timeout=60)
                key = file.name.encode()
                found = [at for at, each in enumerate(own) if each(b"get %s\r\n" % key) != b"END\r\n"]
                assert found == [place(key)]


def test_points_of_many_servers_are_those_of_libmemcached() -> None:
    """Also of the default port, which names of points leave out, and of ports of one host."""
    servers = [
        ("10.0.0.1", 11211),
        ("10.0.0.2", 11211),
        ("10.0.0.2", 11311),
        *((f"10.1.{n}.7", 5000 + n) for n in range(60)),
    ]
    lines = "".join(f'{{"{host}", {port}}},' for host, port in servers)
    source = """
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include "ring.c"
static const struct { const char *host; int port; } servers[] = { SERVERS };
enum { COUNT = sizeof servers / sizeof servers[0] };
int main(int count, char **keys)
{
    static const struct service_program program = {.port_count = 1, .rings = {1, 1}};
    static struct service_config config = {.program = &program};
    struct service_core core = {.rings = config.rings, .counts = {COUNT}};
    struct service_instance self = {.core = &core};
    config.counts[0] = COUNT;
    config.backends[0] = calloc(COUNT, sizeof *config.backends[0]);
    for (int i = 0; i < COUNT; i++) {
        struct sockaddr_in *to = (struct sockaddr_in *)&config.backends[0][i].storage;
        to->sin_family = AF_INET;
        to->sin_port = htons(servers[i].port);
        inet_pton(AF_INET, servers[i].host, &to->sin_addr);
        config.backends[0][i].length = sizeof *to;
    }
    if (!service_rings_make(&config))
        return 1;
    for (int i = 1; i < count; i++) {
        struct service_text key = {(const uint8_t *)keys[i], (uint32_t)strlen(keys[i])};
        uint32_t words[4];
        service_md5(key.at, key.length, words);
        printf("%lld %lld %08x%08x%08x%08x\\n", (long long)service_ring_choose(&self, 0, SERVICE_KETAMA, key),
               (long long)service_ring_choose(&self, 0, SERVICE_KETAMA_WEIGHTED, key), htonl(words[0]), htonl(words[1]),
               htonl(words[2]), htonl(words[3]));
    }
    service_rings_free(&config);
    free(config.backends[0]);
}
""".replace("SERVERS", lines)
    keys = [f"key{number}" for number in range(1000)] + ["x" * size for size in range(1, 200)]
    plain, weighted = (libmemcached(each, servers) for each in (KETAMA, KETAMA_WEIGHTED))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "points.c")
        file.write_text(source)
        command = [*compiler(), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}", str(file)]
        subprocess.run([*command, "-o", str(Path(folder, "points"))], check=True, timeout=120)
        done = subprocess.run(
            [str(Path(folder, "points")), *keys], capture_output=True, text=True, check=True, timeout=60
        )
    for key, line in zip(keys, done.stdout.splitlines(), strict=True):
        one, other, digest = line.split()
        assert (int(one), int(other)) == (plain(key.encode()), weighted(key.encode())), key
        assert digest == hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ketama(backends[0], req.key)", "'ketama' chooses a channel of an array"),
        ("ketama(backends, 1)", "the key"),
        ("ketama_weighted(req.key, req.key)", "'ketama_weighted' takes a channel"),
        ("ketama(backends)", "'ketama' takes 2 arguments, not 1"),
    ],
)
def test_mistakes(call: str, message: str) -> None:
    program = (
        "type cmd: record\n  key : string\nproc P: (cmd/cmd client, [cmd/cmd] backends)\n  let req = ? client\n"
        f"  req => backends[{call}]\n"
    )
    with pytest.raises(ServiceError, match=message.replace("(", r"\(")):
        load_source(program, ["memcached_binary"])
