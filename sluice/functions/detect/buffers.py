"""Searched by options: the payload, or a part of a message of HTTP, TLS or DNS. ids_table.h has the same numbers."""

from __future__ import annotations

PAYLOAD = 0
URI, RAW_URI, HEADER, RAW_HEADER, METHOD, COOKIE, CLIENT_BODY, STAT_CODE, STAT_MSG, HOST, USER_AGENT = range(1, 12)
TLS_SNI, TLS_VERSION, DNS_QUERY = 12, 13, 14
COUNT = 15

HTTP = frozenset(range(URI, USER_AGENT + 1))
TLS = frozenset({TLS_SNI, TLS_VERSION})
DNS = frozenset({DNS_QUERY})

NAMES = (
    "payload", "uri", "raw uri", "header", "raw header", "method", "cookie", "client body", "stat code", "stat msg",
    "host", "user agent", "server name of TLS", "version of TLS", "name of a DNS query",
)  # fmt: skip

MODIFIERS = {
    "http_uri": URI,
    "http_raw_uri": RAW_URI,
    "http_header": HEADER,
    "http_raw_header": RAW_HEADER,
    "http_method": METHOD,
    "http_cookie": COOKIE,
    "http_client_body": CLIENT_BODY,
    "http_stat_code": STAT_CODE,
    "http_stat_msg": STAT_MSG,
    "http_host": HOST,
    "http_user_agent": USER_AGENT,
}
"""Options that follow a content and name its buffer, as in Snort 2."""

STICKY = {
    "http.uri": URI,
    "http.uri.raw": RAW_URI,
    "http.header": HEADER,
    "http.header.raw": RAW_HEADER,
    "http.method": METHOD,
    "http.cookie": COOKIE,
    "http.request_body": CLIENT_BODY,
    "http.stat_code": STAT_CODE,
    "http.stat_msg": STAT_MSG,
    "http.host": HOST,
    "http.user_agent": USER_AGENT,
    "tls.sni": TLS_SNI,
    "tls_sni": TLS_SNI,
    "dns.query": DNS_QUERY,
    "dns_query": DNS_QUERY,
    "pkt_data": PAYLOAD,
}
"""Options after which contents are searched there, as Suricata has them."""

PCRE_FLAGS = {
    "U": URI, "I": RAW_URI, "H": HEADER, "D": RAW_HEADER, "M": METHOD, "C": COOKIE, "K": COOKIE, "P": CLIENT_BODY,
    "S": STAT_CODE, "Y": STAT_MSG,
}  # fmt: skip

REQUEST_ONLY = frozenset({URI, RAW_URI, METHOD, CLIENT_BODY, HOST, USER_AGENT})
RESPONSE_ONLY = frozenset({STAT_CODE, STAT_MSG})
