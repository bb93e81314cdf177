"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from sluice.cli.common.errors import UsageError
from sluice.engine.functions import FunctionError, counters_of, parameters_of, split_names
from sluice.engine.options import BUNDLE, BUNDLE_MEAN, DEPTH_LEAST, DERIVATIONS, HOLD, WORK
from sluice.engine.workers import WORKERS_MOST
from sluice.ir.graph import LAYERS_MOST
from sluice.passes.pipeline import UnknownPassError, select
from sluice.state.location import FORMS, SAFETY, Location, LocationError, read_location


def add_command(
    commands: Any, name: str, doc: str | None, action: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add the parser of a command. Its help is the docstring of its file, whose first line is `sluice ...: summary.`"""
    text = doc or ""
    brief = text.split("\n", 1)[0].partition(": ")[2].rstrip(".")
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=brief,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # commands with functions replace --help by _Help
    )
    parser.set_defaults(action=action, parser=parser)
    return parser


def add_stack(parser: argparse.ArgumentParser) -> None:
    """Add the argument STACK."""
    parser.add_argument("stack", metavar="STACK", help="a name, or a Python file that describes a stack")


def add_functions(parser: argparse.ArgumentParser, what: str = "a ready function, a C file or a Python file") -> None:
    """Add the option -f. --help after it lists the parameters of the functions that it names."""
    parser.add_argument("-h", "--help", action=_Help, help="show this help, with the parameters of functions before it")
    parser.add_argument(
        "-f",
        action="append",
        default=[],
        metavar="FUNCTION",
        dest="functions",
        help=f"{what}; several with commas, or by several -f",
    )


class _Help(argparse.Action):
    """The action of --help; it also prints the parameters of the functions that precede it."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: object) -> None:
        parser.print_help()
        for name in [one for text in getattr(namespace, "functions", []) for one in split_names(text)]:
            try:
                print(f"\n{function_help(name)}")
            except FunctionError as error:
                parser.error(str(error))
        parser.exit()


def function_help(name: str) -> str:
    """The parameters of a function, which are set after a colon, and its counters, as text."""
    parameters, counters = parameters_of(name), counters_of(name)
    rows = [(item.usage, item.help, item.value if item.kind != "flag" else "") for item in parameters]
    lines = [f"{name}: has no parameters"]
    if parameters:
        lines = [f"parameters of {name}, as in -f {name}:{','.join(item.usage for item in parameters[:2])}"]
    width = max((len(usage) for usage, _, _ in rows), default=0)
    lines += [f"  {usage:<{width}}  {help}{f' (default {value})' if value else ''}" for usage, help, value in rows]
    if counters:
        lines.append(f"what {name} counts")
        width = max(len(counter) for counter, _ in counters)
        lines += [f"  {counter:<{width}}  {help}" for counter, help in counters]
    return "\n".join(lines)


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that compiles a stack."""
    add_description_options(parser)
    parser.add_argument(
        "--passes",
        default="all",
        metavar="all|none|LIST",
        type=passes_of,
        help="optimisation passes, by name, with commas",
    )


def add_description_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that builds a program from a stack."""
    parser.add_argument(
        "--checksums", action="store_true", help="verify checksums; packets with wrong ones are malformed"
    )
    parser.add_argument(
        "--key",
        default=[],
        metavar="NAME,...",
        type=_names,
        help="what else tells flows apart, of all that the layers below offer: vlan, tunnel",
    )
    parser.add_argument(
        "--tunnel-port",
        type=_tunnel_port,
        action="append",
        default=[],
        metavar="NAME=PORT",
        dest="tunnel_ports",
        help="a UDP port on which a tunnel of the stack ends, as in vxlan=48879 (fou: IP without a header)",
    )


def _tunnel_port(text: str) -> tuple[str, int]:
    name, sign, port = text.partition("=")
    if not name or not sign or not port.isascii() or not port.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a tunnel and a port, as in vxlan=48879")
    return name, int(port)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of names with commas, as in vlan,tunnel")
    return names


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that runs a box."""
    add_compile_options(parser)
    add_interpreter_options(parser)
    parser.add_argument(
        "--memory",
        type=_bytes,
        default=1 << 30,
        metavar="BYTES",
        help="that all sequences together may hold (default 1 GiB)",
    )
    parser.add_argument(
        "--hold",
        type=_bytes,
        default=HOLD,
        metavar="BYTES",
        help="that one side of a connection may hold while earlier bytes are missing, within its receiver's window and "
        "--memory (default 16 MiB)",
    )
    parser.add_argument(
        "--work",
        type=_messages,
        default=WORK,
        metavar="N",
        help="messages (chunks of SCTP, frames and packets of QUIC) that are cut from one packet at most; the others "
        f"are lost, and counted (default {WORK})",
    )
    parser.add_argument(
        "--nesting",
        type=number_between("a number of layers", DEPTH_LEAST, LAYERS_MOST),
        default=0,
        metavar="N",
        help="layers (headers, tunnels) that one packet passes at most; the rest of the packet is not parsed, and "
        f"counted as too deep ({DEPTH_LEAST} to {LAYERS_MOST}; default: the stack's depth)",
    )
    parser.add_argument(
        "--records",
        type=number_between("a number of records", 1, LAYERS_MOST),
        default=0,
        metavar="N",
        help="records of a message (DNS, IGMP) that one packet passes besides at most; the others are not parsed, and "
        "the packet is counted as one with too many records (default: as many as the stack says)",
    )
    parser.add_argument(
        "--bundle",
        type=_messages,
        default=BUNDLE,
        metavar="N",
        help="messages that each cost as much as a packet (chunks of SCTP, packets of QUIC in a datagram, frames of an "
        "802.11 aggregate) that are cut from one packet at most, of which one that begins an instance counts three "
        f"times; the others are lost, and counted (default {BUNDLE})",
    )
    parser.add_argument(
        "--bundle-mean",
        type=_messages,
        default=BUNDLE_MEAN,
        metavar="N",
        help="the same for a packet on average, where chunks of SCTP count half; packets with fewer save for others, "
        "what 8,192 have. One that begins an instance counts for eight more, one that has to wait for others for "
        f"three and a half more. Four records of a message count as one (default {BUNDLE_MEAN})",
    )
    parser.add_argument(
        "--derivations",
        type=number_between("a number of derivations", 1, 1 << 20),
        default=DERIVATIONS,
        metavar="N",
        help="derivations of keys, with which packets of QUIC are decrypted, for 64 packets on average at most; other "
        f"packets that need one are dropped, and counted (default {DERIVATIONS})",
    )
    parser.add_argument(
        "--prefault",
        action="store_true",
        help="take all memory that --memory and --max-instances allow at the start, so that no packet waits for it",
    )
    parser.add_argument("--seed", type=_seed, metavar="N", help="of the hashes and of sl_random; random unless given")


def add_store(parser: argparse.ArgumentParser, *names: str) -> None:
    """The store of shared objects: the options --store and --store-safety, or an argument of that name."""
    parser.add_argument(
        *(names or ("--store",)),
        action=_Store,
        default=Location("local"),
        metavar="STORE",
        help=f"where functions store what they declare as shared: {FORMS} (default local)",
    )
    if not names:
        parser.add_argument(
            "--store-safety",
            action=_Store,
            choices=SAFETY,
            help="where an update must be before it counts as stored (default replica in a cluster, else memory)",
        )


class _Store(argparse.Action):
    """Either of the options makes `store` of both, in whichever order they are."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        given: dict[str, str] = {**getattr(namespace, "store_given", {}), self.dest: values}
        namespace.store_given = given
        try:
            if "store" in given:
                namespace.store = read_location(given["store"], given.get("store_safety", ""))
        except LocationError as error:
            raise argparse.ArgumentError(self, str(error)) from error


def check_store(options: argparse.Namespace) -> None:
    """Raises UsageError for --store-safety without a store."""
    if options.store.kind == "local" and "store_safety" in getattr(options, "store_given", {}):
        raise UsageError("--store-safety: is of a store outside the box; give --store, too")


def add_workers(parser: argparse.ArgumentParser, isolates: bool = True) -> None:
    """The option --workers. isolates: also --isolate, for workers that are processes."""
    parser.add_argument(
        "--dispatch",
        choices=("auto", "box", "kernel", "queues"),
        default="box",
        help="who divides the packets of interfaces among workers: a thread of the box (default); the kernel, for "
        "some stacks by connections; queues of cards, from which workers receive by AF_XDP; "
        "auto: the kernel or queues where it is possible, unless --groups is given",
    )
    parser.add_argument(
        "--groups",
        type=number_between("a number of groups", 1, 64),
        metavar="N",
        help="groups of connections of each worker, which move from a busy worker to another one (default: 4 with "
        "interfaces and pipes, 1 with files)",
    )
    if isolates:
        parser.add_argument(
            "--isolate",
            action="store_true",
            help="workers are processes: one in which a function crashes is started again, and the others go on",
        )
    parser.add_argument(
        "--workers",
        type=number_between("a number of workers", 1, WORKERS_MOST),
        default=1,
        metavar="N",
        help="threads that share the connections, and --memory and --max-instances; functions in C only (default 1)",
    )


def add_interpreter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that processes packets, in a box or in the interpreter."""
    parser.add_argument(
        "--idle", type=seconds, metavar="SECONDS", help="time out what was quiet for so long, in packet time"
    )
    parser.add_argument(
        "--fragment-timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long the fragments of a datagram are waited for, in packet time (default 60)",
    )
    parser.add_argument(
        "--max-instances",
        type=_instances,
        default=1 << 22,
        metavar="N",
        help="connections per table (default 4194304); of some layers fewer, as the parser says",
    )
    parser.add_argument(
        "--native",
        type=_native,
        action="append",
        default=[],
        metavar="NAME=TEXT",
        dest="natives",
        help="what a module in C of the stack gets as its option NAME",
    )
    parser.add_argument(
        "--keylog",
        type=lambda path: ("keylog", path),
        action="append",
        metavar="FILE",
        dest="natives",
        help="secrets to open QUIC packets with, in the format of SSLKEYLOGFILE; the same as --native keylog=FILE, and "
        "as the parameter keylog of functions that read TLS",
    )


def _native(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=TEXT")
    return name, value


def count_from_1(what: str) -> Callable[[str], int]:
    """The type of an option whose value is a number of `what`, at least 1."""
    return number_between(f"a number of {what}", 1, 1 << 48)


def number_between(what: str, least: int, most: int) -> Callable[[str], int]:
    """The type of an option whose value is a number in a range; `what` is it, with its article, in errors."""

    def convert(text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not {what} from {least} to {most}")
        return value

    return convert


def byte_count(what: str) -> Callable[[str], int]:
    """The type of an option whose value is a number of bytes of packets: from 64 KiB to 1 GiB."""
    return number_between(f"a number of {what}", 1 << 16, 1 << 30)


_bytes = number_between("a number of bytes", 1 << 16, 1 << 48)
_instances = number_between("a number of instances", 1, 1 << 28)
_messages = number_between("a number of messages", 1, 1 << 20)
_seed = number_between("a seed", 0, (1 << 64) - 1)
repeats = number_between("a number of runs", 1, 10_000)


def seconds(text: str) -> float:
    """The type of an option whose value is a positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of seconds")
    return value


def passes_of(text: str) -> str | list[str]:
    """The value of --passes: "all", "none", or names that exist."""
    if text in ("all", "none"):
        return text
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        check_pass(name)
    return names


def check_pass(name: str) -> None:
    """Raise UsageError if there is no pass of that name."""
    try:
        select([name])
    except UnknownPassError as error:
        raise UsageError(str(error)) from error
