"""Families of rules of our own set, from tables: each rule with the traffic that fires it, and none of the others."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.functions.detect.boxes import Talk, connection, datagram
from tests.functions.detect.cases import answer, get, post
from tests.functions.detect.traffic import client_hello, dns_query
from tests.support.packets import A4, checksum, eth, ip4, udp

FIRST = 1000
"""The first sid."""

PATHS = """
/.env /.svn/entries /.hg/store /.DS_Store /.htpasswd /server-status /phpinfo.php /phpmyadmin/ /adminer.php
/xmlrpc.php /wp-login.php /wp-config.php /wp-content/debug.log /administrator/index.php
/user/register?element_parents /cgi-bin/test.cgi /cgi-bin/phf /boaform/admin /HNAP1/ /setup.cgi?next_file
/GponForm/diag_Form /manager/html /jmx-console/ /invoker/JMXInvoker /web-console/ /solr/admin/cores
/actuator/env /actuator/heapdump /jolokia/exec /struts2-showcase/ /login.action /console/login
/wls-wsat/Coordinator /_async/AsyncResponse /owa/auth/x.js /ecp/y.js /autodiscover/autodiscover.json
/remote/fgt_lang /dana-na/ /vpns/portal/ /tmui/login.jsp /mgmt/tm/util/bash /+CSCOE+/logon /api/jsonws/invoke
/ws/v1/cluster/apps /_cat/indices /_search?source /api/v1/pods /v2/_catalog /containers/json /v1/agent/self
/latest/meta-data/ /nodes?view= /druid/indexer /_users/org.couchdb /axis2-admin/ /crx/de/
/bin/querybuilder.json /etc/designs/ /sitecore/shell/ /umbraco/ /Telerik.Web.UI.WebResource /elmah.axd
/trace.axd /web.config /_vti_bin/ /_layouts/ /iisstart.htm /scripts/..%255c /msadc/ /global.asa /default.ida
/NULL.printer /winnt/system32 /proc/self/environ /etc/shadow /boot.ini /shell.php?cmd= /c99.php /r57.php
/wso.php /eval-stdin.php /think/app/invokefunction /public/index.php?s= /upload.php?Filename /connectors/jsp/
/fckeditor/ /timthumb.php /revslider/ /wp-file-manager/ /sysinfo.cgi /password_change.cgi /cgi-mod/ /goform/
/currentsetting.htm
""".split()

AGENTS = """
masscan/ zgrab/ nmap-scripting dirbuster gobuster/ wfuzz/ feroxbuster ffuf/ nuclei whatweb/ wpscan arachni/
acunetix nessus openvas w3af.org havij skipfish jaeles fuzz-faster commix/ joomscan python-paramiko
go-http-flood mirai-http zeus-bot
""".split()

TARGETS = """
information_schema xp_cmdshell waitfor+delay benchmark( load_file( into+outfile sleep(5) pg_sleep
group_concat( javascript: onerror= document.cookie php://input php://filter data://text expect://id
file:///dev gopher://x ldap://x class.classLoader %{#context java.lang.Runtime __proto__ {{7*7}}
allow_url_include base64_decode(
""".split()

LINES: dict[int, list[str]] = {
    21: ["SITE CHMOD 777", "CWD ~root", "RNFR ././", "STOR .forward", "RETR passwd", "PASV%n"],
    25: ["EXPN decode", "DEBUG", "WIZ", "MAIL FROM: |prog", "HELO \\x90\\x90", "RCPT TO: decode", "ETRN x", "TURN"],
    110: ["XTND", "APOP AAAA", "TOP 9999", "UIDL -1"],
    143: ["LSUB {9999}", "RENAME {9999}", "DELETE /", "AUTHENTICATE {9999}", "EXAMINE {9999}"],
    513: ["-froot", "::::::root"],
    514: ["echo + + >> .rhosts"],
    1433: ["sp_password", "sp_adduser", "xp_regread"],
    3306: ["mysql.user", "UNHEX("],
    5432: ["COPY (SELECT '') TO PROGRAM"],
    6379: ["SLAVEOF ", "MODULE LOAD", "EVAL "],
    6667: ["PRIVMSG #c :.ddos", "PRIVMSG #c :.scan", "NICK [USA|", "USER bot"],
    11211: ["stats cachedump", "flush_all"],
    27017: ["listDatabases", "dropDatabase"],
    5060: ["INVITE sip:00", "User-Agent: friendly-scanner"],
    9100: ["@PJL FSQUERY", "@PJL RDYMSG"],
    2375: ["POST /exec", "POST /build?remote"],
}

NAMES = """
malware.test botnet-c2.test exfil.tunnel.test dnscat.test iodine.test update-adobe.test paypa1.test wpad.local
isatap.local coinhive.test pool.minexmr.test onion.ws onion.link ngrok.io duckdns.org no-ip.biz bit-squat.test
dga-qwhxkz.test fast-flux.test sinkhole.test typo-gogle.test kill-switch.test burpcollaborator.net interact.sh
oast.fun
""".split()

SERVER_NAMES = """
c2.tls.test beacon.tls.test loader.tls.test stealer.tls.test phish.tls.test miner.tls.test rat.tls.test
drop.tls.test proxy.tls.test relay.tls.test panel.tls.test gate.tls.test stage.tls.test cdn-fake.tls.test
login-fake.tls.test
""".split()

DATAGRAMS: dict[int, list[bytes]] = {
    19: [b"chargen"],
    17: [b"qotd"],
    123: [b"\x17\x00\x02\x2a", b"\x16\x02\x00\x01"],
    161: [b"\x30\x20private", b"\x30\x20cisco\0"],
    389: [b"\x30\x84objectClass"],
    520: [b"\x02\x02\0\0\0\x02\0\0"],
    623: [b"\x06\0\xff\x07\0\0\0\0\0"],
    1434: [b"\x04\x01\x01\x01\x01\x01", b"\x02\x02"],
    3702: [b"<wsd:Probe/>"],
    5683: [b"\x40\x01.well-known/core"],
    11211: [b"\0\x01\0\0\0\x01\0\0stats\r\n", b"\0\x01\0\0\0\x01\0\0gets a"],
    33848: [b"\x00\x00\x00\x00J"],
    27015: [b"\xff\xff\xff\xffTSource"],
}

BODIES = [
    "cmd=whoami",
    "<?php system",
    "<methodCall>",
    "/bin/bash -i",
    "powershell -enc",
    "certutil -urlcache",
    "rO0ABXNy",
]

ICMP_TYPES = [(5, 0), (5, 1), (9, 0), (10, 0), (13, 0), (15, 0), (17, 0), (3, 10), (3, 13), (11, 0), (12, 0), (4, 0)]


@dataclass(frozen=True)
class Case:
    """A rule and the packets that fire it. `port`: that of the client or sender, by which alerts are assigned."""

    sid: int
    rule: str
    frames: list[bytes]


def quoted(text: str | bytes) -> str:
    """A content's text: what is no plain letter as hexadecimal."""
    data = text.encode() if isinstance(text, str) else text
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"|{byte:02x}|" for byte in data)


def port_of(sid: int) -> int:
    return 20_000 + sid


def _stream(sid: int, header: str, options: str, talk: Talk, port: int = 80) -> Case:
    text = f'alert {header} (msg:"OWN {sid}"; {options} classtype:misc-attack; sid:{sid}; rev:1;)\n'
    return Case(sid, text, connection(talk, port=port, client_port=port_of(sid)))


def _web(sid: int) -> Iterator[Case]:
    header = "tcp any any -> any [80,8080]"
    for path in PATHS:
        raw = "%" in path
        where = "http_raw_uri" if raw else "http_uri"
        options = f'flow:to_server,established; content:"{quoted(path)}"; {where}; nocase;'
        yield _stream(sid, header, options, get(path.encode()))
        sid += 1
    for agent in AGENTS:
        options = f'flow:to_server; http.user_agent; content:"{quoted(agent)}"; nocase;'
        yield _stream(sid, "http any any -> any any", options, get(b"/", b"User-Agent: x " + agent.title().encode()))
        sid += 1
    for text in TARGETS:
        wanted = text.replace("+", " ") if "+" in text else text
        options = f'content:"{quoted(wanted)}"; http_uri; nocase; urilen:>6;'
        said = wanted.replace("%", "%25").replace(" ", "%20").replace("#", "%23").encode()
        yield _stream(sid, header, options, get(b"/query?a=" + said))
        sid += 1
    for body in BODIES:
        options = f'content:"POST"; http_method; content:"{quoted(body)}"; http_client_body;'
        yield _stream(sid, header, options, post(b"a&" + body.encode()))
        sid += 1
    for status in (b"401", b"405", b"407", b"418", b"502", b"503", b"511"):
        options = f'flow:to_client; content:"{status.decode()}"; http_stat_code;'
        yield _stream(sid, "tcp any [80,8080] -> any any", options, answer(status + b" x"))
        sid += 1


def _lines(sid: int) -> Iterator[Case]:
    for port, lines in LINES.items():
        for line in lines:
            options = f'flow:to_server,established; content:"{quoted(line)}"; nocase; isdataat:1,relative;'
            yield _stream(sid, f"tcp any any -> any {port}", options, [(">", line.encode() + b"  end\r\n")], port)
            sid += 1
    for size in (1024, 4096, 16384):  # records of a length that the protocol does not have
        options = f'content:"|16 03|"; depth:2; byte_test:2,>,{size},1,relative; byte_test:2,<=,{4 * size},1,relative;'
        said = b"\x16\x03\x01" + struct.pack(">H", 2 * size) + b"x"
        yield _stream(sid, "tcp any any -> any 4433", options, [(">", said)], 4433)
        sid += 1
    for kind in (1, 2, 3, 4):  # a heartbeat that says more than it has (RFC 6520, 4)
        options = f'content:"|18 03 0{kind}|"; depth:3; byte_extract:2,3,size; byte_test:2,>,size,6;'
        said = b"\x18\x03" + bytes([kind]) + b"\0\x03\x01\x40\0"
        yield _stream(sid, "tcp any any -> any 4434", options, [(">", said)], 4434)
        sid += 1


def _names(sid: int) -> Iterator[Case]:
    for name in NAMES:
        text = f'alert dns any any -> any any (msg:"OWN {sid}"; dns.query; content:"{name}"; nocase; sid:{sid};)\n'
        yield Case(sid, text, [datagram(dns_query(b"a." + name.encode()), port_of(sid), 53)])
        sid += 1
    for name in SERVER_NAMES:
        options = f'tls.sni; content:"{name}"; ssl_version:tls1.2,tls1.3;'
        yield _stream(sid, "tls any any -> any 443", options, [(">", client_hello(name.encode()))], 443)
        sid += 1


def _packets(sid: int) -> Iterator[Case]:
    for port, datagrams in DATAGRAMS.items():
        for said in datagrams:
            options = f'content:"{quoted(said)}"; depth:{len(said)}; dsize:<100;'
            text = f'alert udp any any -> any {port} (msg:"OWN {sid}"; {options} sid:{sid};)\n'
            yield Case(sid, text, [datagram(said, port_of(sid), port)])
            sid += 1
    for kind, code in ICMP_TYPES:
        text = f'alert icmp any any -> any any (msg:"OWN {sid}"; itype:{kind}; icode:{code}; sid:{sid};)\n'
        body = struct.pack(">BBHHH", kind, code, 0, 0, 0) + b"quote"
        message = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
        yield Case(sid, text, [eth(ip4(message, 1, A4[:2] + struct.pack(">H", port_of(sid))))])
        sid += 1
    for option, number in (("rr", 7), ("ts", 68), ("lsrr", 131), ("ssrr", 137)):
        text = f'alert ip any any -> any any (msg:"OWN {sid}"; ipopts:{option}; sid:{sid};)\n'
        source = A4[:2] + struct.pack(">H", port_of(sid))
        yield Case(sid, text, [eth(ip4(udp(1, 2, b"x"), 17, source, options=bytes([number, 7, 4]) + bytes(5)))])
        sid += 1


def cases() -> list[Case]:
    """All of them; sids follow each other."""
    found: list[Case] = []
    for family in (_web, _lines, _names, _packets):
        found += family(FIRST + len(found))
    return found
