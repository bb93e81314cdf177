"""State analysis of middleboxes from Debian's sources, beside the thesis: tables 4.13 and 4.17.

    python bench/analyze.py [--folder DIR] [NAME ...]

Fetches each source package with apt (needs the package index of sources, which it reads into DIR from the machine's own
sources), records its build, analyses the program, and prints both tables. Build dependencies are installed where
apt-get may. What cannot be fetched or built is said, and left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from sluice.analyze.errors import AnalyzeError
from sluice.analyze.record.build import record
from sluice.analyze.report.model import Analysis
from sluice.analyze.run import analyze

OPENVPN = "--disable-lzo --disable-lz4 --disable-dco --disable-plugin-auth-pam"
CONFIGURE = "./configure >configure.log 2>&1 && make"


@dataclass(frozen=True)
class Subject:
    """A program of a source package, and how it is built."""

    package: str
    program: str
    build: str = CONFIGURE
    needs: tuple[str, ...] = ()
    """Packages."""
    known: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Counts of others: all, persistent, top-level, updateable."""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    """Theirs of variables that impact packets and logs (table 4.13)."""
    times: dict[str, str] = field(default_factory=dict[str, str])
    """Theirs of compiling and analysing, and memory (table 4.17)."""
    assume: tuple[str, ...] = ()
    """Options of the analysis, as a user who knows the program gives them: `--assume`."""
    not_receive: tuple[str, ...] = ()
    """`--not-receive`."""


CONTROL = (
    *(
        "socket_do_accept",
        "socket_accept_unix",
        "man_read",
        "sitnl_send",
        "recv_control",
        "control_message_from_parent",
    ),
    *("proxy_connection_io_recv", "recv_line", "socks_handshake", "recv_socks_reply", "socks_username_password_auth"),
    *("packet_id_persist_load", "status_read", "format_extended_socket_error"),
)
"""Functions of OpenVPN that receive from its management interface, the kernel, proxies and files, and no packets."""
PROTOTYPE, THESIS = "prototype", "thesis"
SUBJECTS = (
    Subject("fprobe", "fprobe", needs=("libpcap-dev",), known={PROTOTYPE: (198, 90, 54, 16)}),
    Subject("p0f", "p0f", "./build.sh", ("libpcap-dev",), {PROTOTYPE: (640, 83, 62, 37)}),
    Subject("pen", "pen", needs=("libssl-dev",), known={PROTOTYPE: (649, 117, 111, 91)}),
    Subject(
        *("darkstat", "darkstat", "autoreconf -fi >autoreconf.log 2>&1 && " + CONFIGURE),
        ("libpcap-dev", "zlib1g-dev", "libbsd-dev", "autoconf"),
        {PROTOTYPE: (1143, 126, 99, 60)},
        # its start in the background, a lock among its processes, and the import of a database
        not_receive=("daemonize_start", "lock", "read16", "read32", "read64", "readn"),
    ),
    Subject("httpry", "httpry", "make", ("libpcap-dev",)),
    Subject("tinyproxy", "tinyproxy"),
    Subject("tayga", "tayga"),
    Subject("dnsmasq", "dnsmasq", "make"),
    Subject(
        *("openvpn", "openvpn", f"./configure {OPENVPN} {CONFIGURE[11:]}"),
        ("libssl-dev", "libcap-ng-dev"),
        {PROTOTYPE: (10228, 140, 133, 62), THESIS: (8704, 156, 131, 106)},
        {THESIS: "97/102"},
        {PROTOTYPE: "2.3 s, 349 MB", THESIS: "5.5 h, 7.3 GB"},
        ("dlopen=no plug-in is loaded",),
        CONTROL,
    ),
    Subject(
        *("haproxy", "haproxy", "make TARGET=linux-glibc CPU_CFLAGS=-O0 USE_THREAD=1"),
        known={PROTOTYPE: (37530, 1140, 521, 349), THESIS: (7876, 272, 176, 115)},
        outputs={THESIS: "101/109"},
        times={PROTOTYPE: "114 s, 6.4 GB", THESIS: "6.25 h, 6 GB"},
    ),
    # where a mirror has their sources: Debian 12 has no package of Snort, and mirrors may lack the tarball of PRADS
    Subject(
        *("prads", "prads", "make -C src CFLAGS='-fcommon -fgnu89-inline'"),
        ("libpcap-dev", "libpcre3-dev"),
        {PROTOTYPE: (1328, 77, 47, 29), THESIS: (1529, 61, 29, 10)},
        {THESIS: "-/6"},
        {PROTOTYPE: "0.2 s, 77 MB", THESIS: "0.45 h, 0.3 GB"},
    ),
    Subject(
        *("snort", "snort"),
        needs=("libpcap-dev", "libpcre3-dev", "libdumbnet-dev", "libdaq-dev", "flex", "bison", "zlib1g-dev"),
        known={PROTOTYPE: (14813, 613, 603, 490), THESIS: (18393, 507, 333, 148)},
        outputs={THESIS: "-/148"},
        times={PROTOTYPE: "9.3 s, 1.2 GB", THESIS: "20.5 h, 6 GB"},
    ),
)  # fmt: skip


def named(program: str) -> Subject:
    """The subject of this name."""
    return next(one for one in SUBJECTS if one.program == program)


def source_lists(folder: Path) -> list[str]:
    """Options of apt-get that make it read source packages from where the machine gets its binary ones."""
    lists = folder / "apt" / "sources"
    lists.mkdir(parents=True, exist_ok=True)
    release = re.search(r"^VERSION_CODENAME=(.*)", Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    name = release[1] if release else "stable"
    known = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for number, path in enumerate(path for path in known if path.is_file()):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^deb ", "deb-src ", text, flags=re.MULTILINE)
        text = re.sub(r"^Types:.*", "Types: deb-src", text, flags=re.MULTILINE)
        (lists / f"{number}{path.suffix}").write_text(text, encoding="utf-8")
        # a mirror may lack files of the machine's release that a later one has
        text = re.sub(rf"\b{name}\b", "stable", text)
        (lists / f"{number}stable{path.suffix}").write_text(text, encoding="utf-8")
    for name in ("lists", "cache"):
        (folder / "apt" / name).mkdir(exist_ok=True)
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": lists,
        "Dir::State::lists": folder / "apt" / "lists",
        "Dir::Cache": folder / "apt" / "cache",
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def fetch(package: str, folder: Path, apt: list[str]) -> Path:
    """The unpacked upstream sources of a package. Raises AnalyzeError."""
    place = folder / package
    if not place.is_dir():
        archives = folder / "archives"
        archives.mkdir(exist_ok=True)
        known = subprocess.run(["apt-cache", *apt, "showsrc", package], capture_output=True, text=True).stdout
        versions = re.findall(r"^Version: (\S+)", known, flags=re.MULTILINE)
        found: list[Path] = []
        for version in [package, *(f"{package}={one}" for one in versions)]:  # a mirror may lack the newest
            if found:
                break
            command = ["apt-get", *apt, "source", "-qq", "--download-only", version]
            subprocess.run(command, cwd=archives, capture_output=True)
            # the upstream tarball is enough; Debian's own changes are missing for some packages
            found = sorted(archives.glob(f"{package}_*.orig.tar.*[zZ2]"))
        if not found:
            raise AnalyzeError(f"{package}: apt-get gives no source")
        place.mkdir()
        subprocess.run(["tar", "-xf", found[-1], "-C", place, "--strip-components=1"], check=True)
    return place


def module_of(subject: Subject, folder: Path) -> Path:
    """The module of a program, fetched and recorded if the folder does not have it. Raises AnalyzeError."""
    module = folder / f"{subject.program}.bc"
    if module.exists():
        return module
    apt = source_lists(folder)
    if not (folder / "apt" / "lists" / "partial").exists():
        subprocess.run(["apt-get", *apt, "update", "-qq"], capture_output=True)
    if subject.needs and os.getuid() == 0:
        command = ["apt-get", "install", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends"]
        subprocess.run([*command, *subject.needs], capture_output=True)
    place = fetch(subject.package, folder, apt)
    work = folder / "build" / subject.package
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(place, work, symlinks=True)
    before = os.getcwd()
    os.chdir(work)
    try:
        record(["sh", "-c", f"({subject.build}) >build.log 2>&1"], subject.program, str(module))
    finally:
        os.chdir(before)
    return module


def table(found: dict[str, Analysis | None]) -> str:
    """Tables 4.13 and 4.17, by subject; of others the counts that are known. Nothing: the subject was left out.

    updateable: all that may change after a packet; state: without what is always overwritten before it is read, and
    what changes on exit and reload paths only. packet, log: of the state, what impacts output.
    """
    head = f"{'':<14} {'all':>7} {'persist':>8} {'top':>6} {'update':>7} {'state':>6} {'packet/log':>11} {'keyed':>6}"
    lines = [f"{head} {'seconds':>8} {'MB':>7}"]
    for subject in SUBJECTS:
        if subject.program not in found:
            continue
        one = found[subject.program]
        lines.append(f"{subject.program:<14} {_counts(one) if one else 'left out'}")
        for name, counts in subject.known.items():
            times = subject.times.get(name, "")
            lines.append(
                f"{'  ' + name:<14} {counts[0]:>7} {counts[1]:>8} {counts[2]:>6} {counts[3]:>7}"
                f" {'':>6} {subject.outputs.get(name, ''):>11} {'':>6} {times}".rstrip()
            )
    return "\n".join(lines)


def _counts(one: Analysis) -> str:
    totals = one.totals
    packet, log = ("-" if count is None else count for count in (one.count("packet"), one.count("log")))
    text = f"{totals['variables']:>7} {totals['persistent']:>8} {totals['top_level']:>6}"
    text += f" {totals['updateable']:>7} {len(one.state):>6} {f'{packet}/{log}':>11}"
    text += f" {sum(1 for variable in one.state if variable.key):>6}"
    return text + f" {one.seconds['total']:>8.2f} {one.points_to['peak_bytes'] / 1e6:>7.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all unless given")
    parser.add_argument("--folder", type=Path, default=Path("build/analyze"), help="for sources and modules")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Analysis | None] = {}
    for subject in SUBJECTS:
        if options.names and subject.program not in options.names:
            continue
        print(f"{subject.program} ...", file=sys.stderr)
        found[subject.program] = None
        try:
            module = str(module_of(subject, folder))
            found[subject.program] = analyze(module, not_receive=subject.not_receive, assume=subject.assume)
        except (AnalyzeError, subprocess.CalledProcessError) as error:
            print(f"{subject.program}: left out: {error}", file=sys.stderr)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
