"""TLS handshake messages: RFC 8446, 4. Of the ClientHello, the server's name (SNI) and the protocols (ALPN) are parsed.

Event `hello` has the server's name (RFC 6066, 3), the application protocols in their wire form (RFC 7301), the client
random and the version (0x0303 also for TLS 1.3). Needs a stream. Limits: other messages and extensions are not parsed,
nor is the inner ClientHello of an encrypted one.
"""

from sluice.lang import AnyUntil, Assign, Bit, Callback, Connectionless, Length, UInt, layout

CLIENT_HELLO = 1


class tls_handshake_hdr(layout):
    type = UInt(8)
    length = UInt(24)


class tls_hello_hdr(layout):
    version = UInt(16)
    random = Bit(256)
    session_length = UInt(8)
    session = Bit(session_length << 3)
    suites_length = UInt(16)
    suites = Bit(suites_length << 3)
    methods_length = UInt(8)
    methods = Bit(methods_length << 3)
    extensions_length = UInt(16)


class tls_server_name(layout):
    name_extension = UInt(16, const=0)
    name_extension_length = UInt(16)
    list_length = UInt(16)
    name_type = UInt(8)
    name_length = UInt(16)
    name = Bit(name_length << 3)


class tls_alpn(layout):
    alpn_extension = UInt(16, const=16)
    alpn_extension_length = UInt(16)
    alpn_length = UInt(16)
    protocols = Bit(alpn_length << 3)


class tls_extension(layout):
    extension = UInt(16)
    extension_length = UInt(16)
    content = Bit(extension_length << 3)


class client_hello(layout):
    version = UInt(16)
    random = Bit(256)
    server_name = Bit(2040)
    protocols = Bit(2040)


def tls_handshake_parser() -> Connectionless:
    tls = Connectionless("tls_handshake")
    tls.header = tls_handshake_hdr
    tls.message = Length(tls.header.length + 4, limit=1 << 17, bundled=True)
    return tls


def tls_client_hello_parser() -> Connectionless:
    hello = Connectionless("tls_client_hello")
    hello.header = tls_hello_hdr
    end = hello.cursor + tls_hello_hdr.extensions_length
    hello.header += AnyUntil([tls_server_name, tls_alpn, tls_extension], end=end)
    hello.event.hello = (
        Assign(client_hello.version, hello.header.version)
        + Assign(client_hello.random, hello.header.random)
        + Assign(client_hello.server_name, hello.header.name)
        + Assign(client_hello.protocols, hello.header.protocols)
        + Callback(client_hello)
    )
    return hello
