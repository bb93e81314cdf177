"""What tshark calls the fields of TLS handshake messages; it has a tree for each extension."""

from tests.tshark.dissection import Node
from tests.tshark.table import COUNT, Computed, Explained, NotShown, Table, Value
from tests.tshark.tables.quic_frame import TOLD_TWICE

CLIENT_HELLO, SERVER_NAME, ALPN = 1, 0, 16
HANDSHAKE, EXTENSION = "tls.handshake", "tls.handshake.extension"
ONCE = "after a Retry tshark takes the ClientHello for one sent again, which it does not read"
READ_ONCE = [
    *TOLD_TWICE,
    Explained("OISF_suricata-verify__quic-retry-input.pcap", ONCE),
]


def messages(node: Node) -> list[Node]:
    """The message, if it begins here."""
    return [node] if f"{HANDSHAKE}.type" in node.fields else []


def client_hellos(node: Node) -> list[Node]:
    """The message, if it is a ClientHello."""
    return [own for own in messages(node) if own.numbers(f"{HANDSHAKE}.type")[0] == CLIENT_HELLO]


def first(kind: int, name: str) -> Computed:
    """A number in the extension of a kind."""
    return Computed(lambda node: next((own.numbers(name)[0] for own in _extensions(node, kind)), None))


def content(kind: int, name: str) -> Computed:
    """Bytes in the extension of a kind."""
    return Computed(lambda node: next((own.bytes(name)[0] for own in _extensions(node, kind)), None))


def other(name: str) -> Computed:
    """A number of the last extension that is of neither kind."""

    def value(node: Node) -> Value:
        found = [own for own in _extensions(node) if _kind(own) not in (SERVER_NAME, ALPN)]
        return found[-1].numbers(name)[0] if found else None

    return Computed(value)


def _kind(extension: Node) -> int:
    return extension.numbers(f"{EXTENSION}.type")[0]


def _extensions(hello: Node, kind: int | None = None) -> list[Node]:
    found = [node for node in hello.nodes if f"{EXTENSION}.type" in node.fields]
    return [node for node in found if kind is None or _kind(node) == kind]


FRAGMENTED = Explained("wireshark_wireshark__quic-fragmented-handshakes.pcapng", ONCE)

TABLES = [
    Table(
        "tls_handshake",
        HANDSHAKE,
        {
            "type": f"{HANDSHAKE}.type",
            "length": f"{HANDSHAKE}.length",
        },
        messages,
        explained={COUNT: [*READ_ONCE, FRAGMENTED]},
    ),
    Table(
        "tls_client_hello",
        HANDSHAKE,
        {
            "version": f"{HANDSHAKE}.version",
            "random": f"{HANDSHAKE}.random",
            "session_length": f"{HANDSHAKE}.session_id_length",
            "session": f"{HANDSHAKE}.session_id",
            "suites_length": f"{HANDSHAKE}.cipher_suites_length",
            "suites": f"{HANDSHAKE}.ciphersuites",
            "methods_length": f"{HANDSHAKE}.comp_methods_length",
            "methods": f"{HANDSHAKE}.comp_methods",
            "extensions_length": f"{HANDSHAKE}.extensions_length",
            "name_extension": first(SERVER_NAME, f"{EXTENSION}.type"),
            "name_extension_length": first(SERVER_NAME, f"{EXTENSION}.len"),
            "list_length": first(SERVER_NAME, f"{HANDSHAKE}.extensions_server_name_list_len"),
            "name_type": first(SERVER_NAME, f"{HANDSHAKE}.extensions_server_name_type"),
            "name_length": first(SERVER_NAME, f"{HANDSHAKE}.extensions_server_name_len"),
            "name": content(SERVER_NAME, f"{HANDSHAKE}.extensions_server_name"),
            "alpn_extension": first(ALPN, f"{EXTENSION}.type"),
            "alpn_extension_length": first(ALPN, f"{EXTENSION}.len"),
            "alpn_length": first(ALPN, f"{HANDSHAKE}.extensions_alpn_len"),
            "protocols": content(ALPN, f"{HANDSHAKE}.extensions_alpn_list"),
            "extension": other(f"{EXTENSION}.type"),
            "extension_length": other(f"{EXTENSION}.len"),
            "content": NotShown("tshark shows what it makes of it"),
        },
        client_hellos,
        explained={COUNT: [*READ_ONCE, FRAGMENTED]},
    ),
]
