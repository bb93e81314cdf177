"""The columns of each log, in the order of its rows. tests/report/test_logs.py compares rows with them."""

from __future__ import annotations

from functools import cache

from sluice.report.schema import Scalar, Schema, columns

FLOWS = """
    schema text, layers text, proto text, src address, sport port, dst address, dport port, first_ts time, last_ts time,
    src_pkts count, dst_pkts count, src_payload count, dst_payload count, src_rexmit count, dst_rexmit count,
    syn text, fin text, rst text, src_stream count, dst_stream count, src_sha256 text, dst_sha256 text,
    src_after_gap count, dst_after_gap count, src_before count, dst_before count, src_outside count, dst_outside count,
    src_cut count, dst_cut count, gaps [{side text, offset count, length count, cause text}], gaps_left_out count,
    state text, end text, icmp_type count, icmp_code count, icmp_id count
"""
FLOW_DETAILS = """
    flow count, community_id text, duration seconds, rtt seconds, rtt_server seconds, rtt_client seconds,
    src_bytes count, src_rexmit_pkts count, src_reordered_pkts count, src_ttl [count],
    dst_bytes count, dst_rexmit_pkts count, dst_reordered_pkts count, dst_ttl [count],
    vlan [count], tunnels [{kind text, id count, src address, dst address}]
"""
BEGINNING = """
    log text, ts time, flow count, community_id text, layers text, src address, sport port, dst address, dport port
"""
CAPTURE = "capture"
"""The column that names the capture of a row, where a run has several."""
LOGS: dict[str, tuple[str, str]] = {
    "flow_log": ("flow", FLOWS),
    "flowlog": ("flow", FLOWS + FLOW_DETAILS),
    "httplog": (
        "http",
        BEGINNING
        + """
        request bool, response bool, method text, host text, path text, user_agent text, referrer text,
        request_version text, request_length count, request_body count, request_missing count, request_chunked bool,
        request_complete bool, request_error text, request_type text, status count, reason text, response_version text,
        response_length count, response_body count, response_missing count, response_chunked bool,
        response_complete bool, response_error text, response_type text, response_encoding text, location text,
        server text, delay seconds, interim [count], upgrade text
        """,
    ),
    "tlslog": (
        "tls",
        BEGINNING
        + """
        transport text, version text, version_offered text, server_name text, alpn_offered [text], cipher text,
        cipher_id text, alpn text, resumed bool, established bool, hello_retry bool, encrypted_client_hello bool,
        ja3 text, ja3s text, ja4 text, ja4s text,
        certificates [{sha256 text, serial text, subject text, issuer text, not_before text, not_after text,
                       names [text]}],
        certificate_count count, client_certificate bool, alerts [{from text, level count, description count}]
        """,
    ),
    "dnslog": (
        "dns",
        BEGINNING
        + """
        proto text, request bool, response bool, delay seconds, retries count, query_bytes count, response_bytes count,
        cut bool, id count, opcode count, query text, qtype text, qclass text,
        more_queries [{query text, qtype text, qclass text}], authoritative bool, truncated bool,
        recursion_desired bool, recursion_available bool, answer_count count,
        answers [{name text, type text, ttl count, data text}],
        authorities [{name text, type text, ttl count, data text}],
        additionals [{name text, type text, ttl count, data text}], rcode text,
        edns {version count, udp_size count, dnssec_ok bool}, answers_left_out bool, malformed text
        """,
    ),
    "icmplog": (
        "icmp",
        BEGINNING
        + """
        version count, type count, code count, name text, id count, sequence count, bytes count, response_bytes count,
        delay seconds, mtu count, gateway address, target address,
        quoted {protocol count, src address, sport port, dst address, dport port}
        """,
    ),
    "dhcplog": (
        "dhcp",
        BEGINNING
        + """
        version count, type text, transaction count, client_mac text, client_address address, your_address address,
        next_server address, relay address, hops count, waited count, requested_address address, server address,
        subnet_mask address, routers [address], name_servers [address], lease_time count, host_name text,
        client_fqdn text, domain text, vendor_class text, message text, parameters [count], duid text,
        addresses [address], malformed bool
        """,
    ),
    "ntplog": (
        "ntp",
        BEGINNING
        + """
        version count, mode text, bytes count, leap count, stratum count, poll number, precision number,
        root_delay seconds, root_dispersion seconds, reference text, reference_time time, origin_time time,
        receive_time time, transmit_time time, extra_bytes count, response bool, opcode count
        """,
    ),
    "sshlog": (
        "ssh",
        BEGINNING
        + """
        client text, server text, hassh text, hassh_algorithms text, hassh_server text, hassh_server_algorithms text,
        kex text, host_key text, client_cipher text, server_cipher text, client_mac text, server_mac text,
        compression text, client_error text, server_error text
        """,
    ),
    "smtplog": (
        "smtp",
        BEGINNING
        + """
        server text, helo text, mail_from text, recipients [text], recipients_left_out count, date text, from text,
        to [text], cc [text], subject text, message_id text, reply_to text, in_reply_to text, user_agent text,
        bytes count, reply_code count, reply text, authenticated bool, tls bool
        """,
    ),
    "ftplog": (
        "ftp",
        BEGINNING
        + """
        user text, command text, argument text, reply_code count, reply text, delay seconds, data_mode text,
        data_address address, data_port port, data_flow count, data_bytes count, data_missing count,
        tls bool, data_tls bool
        """,
    ),
    "filelog": (
        "file",
        BEGINNING
        + """
        source text, name text, type text, magic text, declared_type text, length count, missing count, expected count,
        complete bool, md5 text, sha1 text, sha256 text, extracted text
        """,
    ),
    "gtplog": (
        "gtp",
        BEGINNING
        + """
        kind text, teid count, last_ts time, packets count, bytes count,
        contents [{protocol count, src address, dst address}], contents_left_out count, version count, type text,
        sequence count, cause count, imsi text, msisdn text, apn text, addresses [address],
        ends [{teid count, interface count, address address}], malformed bool
        """,
    ),
    "sctplog": (
        "sctp",
        BEGINNING
        + """
        duration seconds, state text, shutdown bool, aborted_by text, abort_cause count, payload_protocols [count],
        payload_protocols_left_out count
        """
        + "".join(
            f"""
            {side}_tag count, {side}_window count, {side}_out_streams count, {side}_in_streams count,
            {side}_first_tsn count, {side}_pkts count, {side}_chunks count, {side}_data_chunks count,
            {side}_data_bytes count, {side}_messages count, {side}_streams count, {side}_rexmit_bytes count,
            {side}_heartbeats count, {side}_errors count
            """
            for side in ("src", "dst")
        ),
    ),
}
"""By ready function: the name of the log, and its columns."""


@cache
def schema_of(function: str, joined: tuple[str, ...] = (), captures: bool = False) -> Schema | None:
    """The columns of the rows that a ready function writes; None if it writes no log.

    joined: the key parts that `--key` added to the rows of flows. captures: each row names its capture first.
    """
    if function not in LOGS:
        return None
    log, text = LOGS[function]
    found = columns(f"{CAPTURE} text, {text}" if captures else text)
    if log == "flow":
        found |= {name: Scalar("count") for name in joined if name not in found}
    return Schema(log, found)


def function_of(log: str) -> str | None:
    """The ready function that writes a log, by the log's or the function's name; None if there is none."""
    names = {log: function for function, (log, _) in LOGS.items()}
    return log if log in LOGS else names.get(log)
