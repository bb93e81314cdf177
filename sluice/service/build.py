"""A service to an executable file, which is cached by its content."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from sluice.engine.cache import OBJECT, SERVICE
from sluice.engine.compiler import CompilerError, compiler, flags
from sluice.engine.made_once import made_once

RUNTIME = Path(__file__).resolve().parent / "runtime"
SOURCES = (
    "instance.c", "socket.c", "folder.c", "folder_head.c",
    "cache.c", "cache_wait.c", "cache_answer.c", "cache_record.c", "cache_rules.c", "cache_store.c",
    "splice.c", "pool.c", "ring.c", "prelude.c", "proxy_header.c",
    "lane.c", "linger.c", "overdue.c", "steal.c", "worker.c", "epoll.c", "uring.c", "metrics.c", "health.c",
    "log.c", "log_format.c", "log_file.c", "options.c", "main.c",
)  # fmt: skip
WITHOUT_HTTP2 = ("h2_none.c",)
WITH_HTTP2 = (
    "h2.c", "h2_session.c", "h2_request.c", "h2_response.c", "h2_body.c", "h2_uplink.c", "h2_uplink_session.c",
    "h2_probe.c",
)  # fmt: skip
WITHOUT_TLS, WITH_TLS = ("tls_none.c",), ("tls.c", "tls_context.c", "tls_probe.c")

NO_OPENSSL = (
    "TLS needs OpenSSL 3 with its headers; install it (Debian, Ubuntu: apt install libssl-dev; Fedora: openssl-devel; "
    "Alpine: openssl-dev), or serve without TLS"
)

NO_NGHTTP2 = (
    "HTTP/2 needs nghttp2 with its headers; install it (Debian, Ubuntu: apt install libnghttp2-dev; Fedora: "
    "libnghttp2-devel; Alpine: nghttp2-dev), or serve without --http2 and such backends"
)


def build_program(name: str, *sources: str, tls: bool = False, http2: bool = False) -> Path:
    """The executable of compiled processes, which run as services of one process of the system; with OpenSSL, if any of
    them uses TLS, and with nghttp2, if any uses HTTP/2.

    Raises CompilerError, also if one of these is missing, and CacheError where there is no place for it.
    """
    names = [f"service_program_{number}" for number in range(len(sources))]
    texts = {f"{each}.c": f"#define service_program {each}\n{text}" for each, text in zip(names, sources, strict=True)}
    libraries = [*(["-lssl", "-lcrypto"] if tls else []), *(["-lnghttp2"] if http2 else [])]
    return _cached(name, SERVICE, {**texts, "table.c": _table(names)}, [_platform(tls, http2), *libraries])


def _platform(tls: bool, http2: bool) -> Path:
    """The code that all programs share, as an object file."""
    sources = (*SOURCES, *(WITH_TLS if tls else WITHOUT_TLS), *(WITH_HTTP2 if http2 else WITHOUT_HTTP2))
    texts = {f"unit_{each}": f'#include "{each}"\n' for each in sources}
    return _cached("platform" + "-tls" * tls + "-http2" * http2, OBJECT, texts, ["-r", "-nostdlib"])


def _cached(name: str, kind: str, texts: dict[str, str], more: list[str | Path]) -> Path:
    """The compiled form of texts, from the cache if it is there."""
    command = compiler()
    options = [*flags(), "-pthread", f"-I{RUNTIME}"]
    digest = hashlib.sha256()
    for text in (*command, *options, *texts.values(), *(each for each in more if isinstance(each, str))):
        digest.update(text.encode() + b"\0")
    for path in sorted(RUNTIME.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")

    def make(made: Path) -> None:
        for file, text in texts.items():
            Path(made.parent, file).write_text(text, encoding="utf-8")
        files = [str(Path(made.parent, file)) for file in texts]
        line = [*command, *options, *files, *map(str, more), "-o", str(made)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode and "openssl/" in done.stderr and "No such file" in done.stderr:
            raise CompilerError(NO_OPENSSL)
        if done.returncode and "nghttp2/" in done.stderr and "No such file" in done.stderr:
            raise CompilerError(NO_NGHTTP2)
        if done.returncode:
            raise CompilerError(f"the C compiler refused:\n{done.stderr.strip()[:8000]}")

    return made_once(f"{name}-{digest.hexdigest()[:32]}{kind}", make, executable=True)


def _table(names: list[str]) -> str:
    """The C that lists all services."""
    declared = "".join(f"extern const struct service_program {each};\n" for each in names)
    listed = ", ".join(f"&{each}" for each in names)
    return (
        f'#include "service.h"\n{declared}extern const struct service_program *const service_programs[];\n'
        f"const struct service_program *const service_programs[] = {{{listed}}};\n"
        f"extern const unsigned service_program_count;\nconst unsigned service_program_count = {len(names)};\n"
    )
