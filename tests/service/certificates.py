"""Certificates for tests of TLS, made by OpenSSL's command, and clients and servers that use TLS."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.engine.compiler import compiler
from tests.service.peers import PATIENCE, accepting


def why_not() -> str:
    """Why there is no TLS here; empty if there is."""
    if shutil.which("openssl") is None:
        return "there is no command openssl"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <openssl/ssl.h>\nint main(void) { return !TLS_server_method(); }\n")
        command = [*compiler(), str(source), "-lssl", "-lcrypto", "-o", str(Path(folder, "try"))]
        done = subprocess.run(command, capture_output=True, timeout=300)
    return "there are no headers of OpenSSL (Debian: libssl-dev)" if done.returncode else ""


needs_tls = pytest.mark.skipif(bool(why_not()), reason=why_not())


def make_certificate(folder: Path, *names: str) -> tuple[str, str]:
    """A self-signed certificate for names, and its key."""
    chain, key = folder / f"{names[0]}.pem", folder / f"{names[0]}.key"
    alternatives = ",".join(f"IP:{each}" if each[0].isdigit() else f"DNS:{each}" for each in names)
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "9",
    ]
    more = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={alternatives}"]
    subprocess.run(
        [*command, *more, "-keyout", str(key), "-out", str(chain)], check=True, capture_output=True, timeout=300
    )
    return str(chain), str(key)


def client(port: int, authority: str, name: str = "localhost") -> ssl.SSLSocket:
    """A connection by TLS to a port of this machine."""
    context = ssl.create_default_context(cafile=authority)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname=name)


@contextlib.contextmanager
def secure_origin(certificate: tuple[str, str], answer: Callable[[ssl.SSLSocket], None]) -> Iterator[int]:
    """A server with TLS that calls `answer` for each connection; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def one(accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):
            accepted.settimeout(PATIENCE)
            with context.wrap_socket(accepted, server_side=True) as secured:
                answer(secured)

    with accepting(one) as port:
        yield port
