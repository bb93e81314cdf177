"""sluice run: what it prints, and how it says that something is wrong."""

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import DATAGRAMS, FIRST, ROOT, SMALL, Command, udp_packet
from tests.support.capture import pcap

STACK = FIRST / "hello.py"
CAPTURE = FIRST / "capture.pcap"


def test_the_summary_has_every_layer_and_what_was_refused(sluice: Command) -> None:
    done = sluice("run", STACK, "-r", FIRST / "capture.pcap")
    assert done.status == 0 and done.err == ""
    rows = {line.split()[0]: line.split() for line in done.out.splitlines()}
    assert rows["udp"][1:4] == ["12", "154", "12"]
    assert "malformed (version) 1" in done.out and "instances ended (eof) 3" in done.out


def test_packets_add_up_by_eye(sluice: Command) -> None:
    """Passed on + ended + held + every reason that is not one of instances; these stand after the others."""
    for stack in (STACK, "tcp_ip"):
        lines = sluice("run", stack, "-r", FIRST / "capture.pcap", "-o", os.devnull).out.splitlines()
        assert lines[1].split("  ")[-1] == "what else" and "ended" in lines[1].split()
        for line in lines[2:]:
            if ":" in line:  # figures of functions
                break
            name, packets, _, passed, ended, held, _, *rest = line.split()
            reasons = re.findall(r"[a-z ]+\([^)]*\) \d+", " ".join(rest).split("instances")[0])
            assert int(packets) == sum(map(int, (passed, ended, held, *(r.split()[-1] for r in reasons)))), name


def test_json_counts_the_same(sluice: Command) -> None:
    found = json.loads(sluice("run", STACK, "-r", FIRST / "capture.pcap", "--json").out)
    assert found["packets"] == 22 and found["fault"] is None and found["stopped"] is False
    assert found["box"]["bytes"] == 2939
    hello = found["layers"]["hello"]
    assert hello["packets"] == 12
    assert hello["malformed:version"] == hello["malformed:header too short"] == 1
    assert hello["ended"] == 10


def test_a_ready_function_reports(sluice: Command, capture: Path) -> None:
    assert json.loads(sluice("run", SMALL, "-r", capture, "-f", "assemble", "--json").out)["reports"] == {
        "deliveries": 0,
        "delivered_bytes": 0,
    }


def test_a_c_function(sluice: Command, capture: Path, tmp_path: Path) -> None:
    function = tmp_path / "count.c"
    function.write_text(
        '#include "sluice.h"\nstruct n { uint64_t n; };\nSLUICE_WORKER(struct n)\n'
        "SLUICE_ON(udp, created) { SLUICE_WORKER_OF(event->box)->n++; }\n"
        'SLUICE_CLOSE { sl_report(box, "seen", SLUICE_WORKER_OF(box)->n); }\n'
    )
    out = sluice("run", DATAGRAMS, "-r", capture, "-f", function, "--json").out
    assert json.loads(out)["reports"] == {"seen": 2}


@pytest.mark.parametrize("figures", [256, 257])
def test_more_figures_than_a_box_keeps_are_an_error(
    sluice: Command, capture: Path, tmp_path: Path, figures: int
) -> None:
    function = tmp_path / "many.c"
    function.write_text(
        '#include "sluice.h"\nstatic char names[257][8];\nSLUICE_ON(udp, created) { (void)event; }\n'
        'SLUICE_PARAMETER(figures, number, 0, "how many")\nSLUICE_CLOSE {\n'
        "    for (int i = 0; i < (int)SLUICE_PARAMETER_OF(box, figures); i++) {\n"
        '        snprintf(names[i], sizeof names[i], "n%d", i);\n        sl_report(box, names[i], 1);\n    }\n}\n'
    )
    done = sluice("run", DATAGRAMS, "-r", capture, "-f", f"{function}:figures={figures}", "--json")
    found = json.loads(done.out)
    assert len(found["reports"]) == 256
    if figures > 256:
        assert done.status == 1 and found["failure"].startswith("n256: ") and "n256: " in done.err
    else:
        assert done.status == 0 and found["failure"] is None


def test_passes_do_not_change_what_is_counted(sluice: Command) -> None:
    runs = [
        json.loads(sluice("run", STACK, "-r", FIRST / "capture.pcap", "--json", "--passes", passes).out)
        for passes in ("all", "none", "constants")
    ]
    assert runs[0]["layers"] == runs[1]["layers"] == runs[2]["layers"]


def test_idle_is_packet_time(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap([udp_packet(53, b"x")] * 3))  # one second apart
    for idle, instances in ((10, 1), (0.5, 3)):
        found = json.loads(sluice("run", "tcp_ip", "-r", path, "--idle", idle, "--json").out)
        assert found["layers"]["udp_over_ipv4"]["instances"] == instances


def test_timeouts_can_be_left_out(sluice: Command, tmp_path: Path) -> None:
    path = tmp_path / "slow.pcap"
    path.write_bytes(pcap([udp_packet(53, b"x")] * 3))
    found = json.loads(sluice("run", "tcp_ip", "-r", path, "--idle", "0.5", "--no-timeouts", "--json").out)
    assert found["layers"]["udp_over_ipv4"]["instances"] == 1


def test_files_are_copied(sluice: Command, mistake: Command, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    words = ("run", "tcp_ip", "-r", ROOT / "examples" / "logs" / "capture.pcap", "--extract", folder)
    rows = [json.loads(line) for line in sluice(*words, "-f", "filelog").out.splitlines() if line.startswith("{")]
    assert rows and {row["extracted"] for row in rows} == {path.name for path in folder.iterdir()}
    assert all((folder / row["extracted"]).stat().st_size == row["length"] for row in rows)
    assert "add -f filelog" in mistake(*words, "-f", "dnslog").err


def test_memory_at_the_start_changes_nothing_else(sluice: Command) -> None:
    words = ("run", "tcp_ip", "-r", CAPTURE, "--memory", "1048576", "--max-instances", "1000", "--seed", "1", "--json")
    assert json.loads(sluice(*words, "--prefault").out)["layers"] == json.loads(sluice(*words).out)["layers"]


def test_a_function_in_c_hears_the_names_of_states(sluice: Command, tmp_path: Path) -> None:
    function = tmp_path / "states.c"
    function.write_text("""
#include "sluice.h"
#include <string.h>
struct seen { uint64_t opened, changed; };
SLUICE_WORKER(struct seen)
SLUICE_ON(tcp, state) {
    struct seen *seen = SLUICE_WORKER_OF(event->box);
    seen->changed += data->before != data->after;
    seen->opened += strcmp(event->owner->state[data->after].name, "ESTABLISHED") == 0;
}
SLUICE_CLOSE {
    sl_report(box, "opened", SLUICE_WORKER_OF(box)->opened);
    sl_report(box, "changed", SLUICE_WORKER_OF(box)->changed);
}
""")
    found = json.loads(sluice("run", SMALL, "-r", CAPTURE, "-f", function, "--json").out)
    assert (found["reports"]["opened"], found["reports"]["changed"]) == (1, 6)


# --- what is wrong is said in a line or a few ---


def test_unknown_stack(mistake: Command, capture: Path) -> None:
    assert "did you mean 'tcp_ip'?" in mistake("run", "tcpip", "-r", capture).err
    assert "no such file" in mistake("run", "no/stack.py", "-r", capture).err


def test_unknown_function(mistake: Command, capture: Path) -> None:
    assert "did you mean 'assemble'?" in mistake("run", "tcp_ip", "-r", capture, "-f", "asemble").err
    assert "no such file" in mistake("run", "tcp_ip", "-r", capture, "-f", "no.c").err


@pytest.mark.parametrize("function", ["assemble:foo", "none:foo", f"{STACK}:foo", "quiet.c:foo"])
def test_options_that_nobody_takes(
    mistake: Command, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiet.c").write_text('#include "sluice.h"\nSLUICE_ON(udp, created) { }\n')
    err = mistake("run", "tcp_ip", "-r", capture, "-f", function).err
    assert f"{function.partition(':')[0]}: options 'foo' after the colon" in err


def test_unknown_pass(misuse: Command, capture: Path) -> None:
    assert "unknown pass 'folding'" in misuse("run", "tcp_ip", "-r", capture, "--passes", "folding").err


@pytest.mark.parametrize("option", ["--max-instances=0", "--idle=-1", "--idle=never", "--seed=x", "--memory=1e400"])
def test_wrong_usage_is_status_2(sluice: Command, capture: Path, option: str) -> None:
    done = sluice("run", "tcp_ip", "-r", capture, option)
    assert done.status == 2 and "Traceback" not in done.err and option.split("=")[0] in done.err


def test_unreadable_files(mistake: Command, tmp_path: Path) -> None:
    assert "No such file" in mistake("run", "tcp_ip", "-r", tmp_path / "no.pcap").err
    assert "the folder has no capture file" in mistake("run", "tcp_ip", "-r", tmp_path).err
    (tmp_path / "text").write_text("this is no capture at all\n")
    assert str(tmp_path / "text") in mistake("run", "tcp_ip", "-r", tmp_path / "text").err
    (tmp_path / "empty").write_bytes(b"")
    assert str(tmp_path / "empty") in mistake("run", "tcp_ip", "-r", tmp_path / "empty").err


def test_pipes_are_refused_at_once_where_a_file_is_read_several_times(mistake: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: to open it would wait
    for path in ("-", tmp_path / "pipe", "/dev/null"):
        assert f"{path}: captures are read from files" in mistake("bench", "tcp_ip", "-r", path).err


def test_a_truncated_capture_tells_where_and_keeps_what_was_before(sluice: Command, capture: Path) -> None:
    whole = capture.read_bytes()
    capture.write_bytes(whole[:-2])
    done = sluice("run", "tcp_ip", "-r", capture, "--json")
    assert done.status == 1
    assert json.loads(done.out)["packets"] == 2
    assert "packet 3" in json.loads(done.out)["fault"]
    assert done.err.startswith("sluice: ") and "the packets before it were processed" in done.err


def test_a_corrupt_capture(sluice: Command, capture: Path) -> None:
    whole = bytearray(capture.read_bytes())
    struct.pack_into("<I", whole, 24 + 8, 0x7FFFFFFF)
    capture.write_bytes(whole)
    done = sluice("run", "tcp_ip", "-r", capture)
    assert done.status == 1 and "corrupt" in done.err and len(done.err.splitlines()) == 1


def test_a_c_function_that_does_not_compile(sluice: Command, capture: Path, tmp_path: Path) -> None:
    function = tmp_path / "broken.c"
    function.write_text('#include "sluice.h"\nSLUICE_ON(udp, created) { nonsense(; }\n')
    done = sluice("run", DATAGRAMS, "-r", capture, "-f", function)
    assert done.status == 1 and f"{function}:2" in done.err and "Traceback" not in done.err


def test_a_c_function_that_listens_to_nothing(mistake: Command, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "deaf.c").write_text("int x;\n")
    assert "SLUICE_ON(layer, event)" in mistake("run", "tcp_ip", "-r", capture, "-f", tmp_path / "deaf.c").err


USER = """
from sluice.functions import on
from sluice.lang import Connectionless, Stack, UInt, layout

class h(layout):
    x = UInt(8)

def p():
    p = Connectionless("p")
    p.header = h
    p.selector = [p.header.x]
    return p

stack = Stack("user")
stack.p = p()

@on("LAYER", "EVENT")
def saw(event):
    BODY
"""


def user(tmp_path: Path, layer: str = "p", event: str = "created", body: str = "pass", before: str = "") -> Path:
    path = tmp_path / "user.py"
    path.write_text(before + USER.replace("LAYER", layer).replace("EVENT", event).replace("BODY", body))
    return path


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("x = = 1\n", "user.py:1: invalid syntax"),
        ("import no_such_module\n", "user.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    return 1 // 0\nf()\n", "user.py:2: ZeroDivisionError"),
        ("from sluice.lang import Bit\nBit()\n", "user.py:2: TypeError"),
    ],
)
def test_a_mistake_in_the_users_python_is_told_by_its_line(
    mistake: Command, capture: Path, tmp_path: Path, before: str, text: str
) -> None:
    err = mistake("run", user(tmp_path, before=before), "-r", capture).err
    assert text in err and before.splitlines()[int(text.split(":")[1]) - 1].strip() in err


def test_a_mistake_in_a_handler_is_told_by_its_line(mistake: Command, capture: Path, tmp_path: Path) -> None:
    path = user(tmp_path, body="event.nothing")
    line = path.read_text().splitlines().index("    event.nothing") + 1
    err = mistake("run", path, "-r", capture, "-f", path).err
    assert f"user.py:{line}: AttributeError: event 'created' of layer 'p' has no 'nothing'" in err


def test_a_handler_that_would_never_be_called_is_a_warning(sluice: Command, capture: Path, tmp_path: Path) -> None:
    path = user(tmp_path, layer="q")
    assert "subscribes to layer 'q'" in sluice("run", path, "-r", capture, "-f", path).err
    path = user(tmp_path, event="create")
    err = sluice("run", path, "-r", capture, "-f", path).err
    assert "subscribes to event 'create' of 'p'" in err and "did you mean 'created'?" in err
    path = user(tmp_path)
    assert sluice("run", path, "-r", capture, "-f", path).err == ""


def test_a_c_function_for_an_event_that_is_not_there_is_told_before_the_c_compiler_sees_it(
    mistake: Command, sluice: Command, capture: Path, tmp_path: Path
) -> None:
    function = tmp_path / "mine.c"
    for wrong, advice in (("udp, creatd", "did you mean 'created'?"), ("upd, record", "did you mean 'udp'?")):
        function.write_text(f'#include "sluice.h"\nSLUICE_ON({wrong}) {{ (void)data; }}\n')
        for command in (["run", STACK, "-r", capture], ["build", STACK, "-o", tmp_path / "c"]):
            err = mistake(*command, "-f", function).err
            assert (
                f"{function} subscribes to" in err
                and advice in err
                and len([line for line in err.splitlines() if "note: " not in line]) == 1
            )
    function.write_text('#include "sluice.h"\nSLUICE_ON(upd, created) { (void)data; }\n')
    done = sluice("run", STACK, "-r", capture, "-f", function)
    assert done.status == 0 and "warning: mine.c subscribes to layer 'upd'" in done.err


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("def saw(event):", "def saw():", "saw is called with the event: write def saw(event)"),
        ("def saw(event):", "def saw(event, more):", "saw is called with the event"),
        ("def saw(event):", "async def saw(event):", "saw would not run when it is called: no async def"),
        ('@on("p", "created")', "@on", "on() missing 1 required positional argument"),
        ('@on("p", "created")', "@on(p, 'created')", "@on takes two texts"),
        ('@on("p", "created")', "@at_end", "saw is called with nothing: write def saw()"),
    ],
)
def test_a_handler_that_cannot_be_called_is_told_by_its_line(
    mistake: Command, capture: Path, tmp_path: Path, before: str, after: str, told: str
) -> None:
    path = user(tmp_path, before="from sluice.functions import at_end\n")
    text = path.read_text()
    path.write_text(text.replace(before, after))
    line = next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith("@on"))
    err = mistake("run", path, "-r", capture, "-f", path).err
    assert f"user.py:{line}: TypeError: {told}" in err


def test_values_that_are_called_like_what_every_event_has(sluice: Command, tmp_path: Path) -> None:
    """A field `name` and a part `time` of the key: told by name, unless the function reads them as it must."""
    text = (STACK).read_text()
    for old, new in (("celsius = UInt(16)\n\n\ndef", "name = UInt(16)\n\n\ndef"), ("record.celsius", "record.name")):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "hello.py"
    path.write_text(text.replace("event.celsius", "event.name"))
    done = sluice("run", path, "-r", FIRST / "capture.pcap", "-f", path)
    assert done.err.splitlines() == [
        "sluice: warning: hello.py: event.name of 'record' is not the value 'name' of yours, but what every event has "
        'under that name; write event.values["name"]'
    ]
    path.write_text(text.replace("event.celsius", "event.values['name']"))
    done = sluice("run", path, "-r", FIRST / "capture.pcap", "-f", path)
    assert done.err == "" and "its highest so far, 18 degrees" in done.out
    path.write_text(text.replace("station = UInt(16)", "time = UInt(16)").replace("header.station", "header.time"))
    path.write_text(path.read_text().replace("record.station", "record.time"))
    err = sluice("run", path, "-r", FIRST / "capture.pcap", "-f", path).err
    assert 'event.values["time"]' in err and 'event.key["time"]' in err


def test_what_an_event_has_is_listed_once(mistake: Command, capture: Path, tmp_path: Path) -> None:
    text = STACK.read_text().replace("event.station", "event.nothing")
    (tmp_path / "hello.py").write_text(text)
    err = mistake("run", tmp_path / "hello.py", "-r", FIRST / "capture.pcap", "-f", tmp_path / "hello.py").err
    assert "has no 'nothing'; it has station, celsius" in err and err.count("station") == 2


def test_a_wrong_description_has_file_line_and_advice(mistake: Command, capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_text(user(tmp_path).read_text().replace("p.header.x", "p.header.y"))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "header.y" in text)
    err = mistake("run", path, "-r", capture).err
    assert f"user.py:{line}: the header of parser 'p' has no field 'y'" in err and "known here: x." in err


def test_files_below_the_current_folder_are_named_from_there(
    mistake: Command, sluice: Command, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = user(tmp_path, body="event.nothing")
    line = path.read_text().splitlines().index("    event.nothing") + 1
    monkeypatch.chdir(tmp_path)
    assert mistake("run", "user.py", "-r", capture, "-f", "user.py").err.startswith(f"sluice: user.py:{line}: Attrib")
    user(tmp_path, before="x = 1\nif x is 1: pass\n")
    assert "sluice: warning: user.py:2: " in sluice("run", "user.py", "-r", capture).err
    user(tmp_path, before="Stack(\n")
    assert mistake("run", path, "-r", capture).err.startswith("sluice: user.py:1: ")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert mistake("run", path, "-r", capture).err.startswith(f"sluice: {path}:1: ")
    monkeypatch.chdir("/")
    assert mistake("run", path, "-r", capture).err.startswith(f"sluice: {path}:1: ")


# --- as a program of its own ---


INTERRUPTIBLE = (
    sys.executable,
    "-c",
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from sluice.cli.main import main; sys.exit(main())",
)
"""The command as a terminal starts it: one in a shell's background would have to ignore the signal."""

INTERRUPT = """
#include "sluice.h"
#include <signal.h>
struct n { uint64_t n; };
SLUICE_WORKER(struct n)
SLUICE_ON(udp, packet) {
    if (SLUICE_WORKER_OF(event->box)->n++ == 0)
        raise(SIGINT);
}
"""


@pytest.mark.parametrize("python", [False, True])
def test_ctrl_c_while_c_code_runs_stops_the_run(tmp_path: Path, python: bool) -> None:
    """A C function sends the signal: Python first hears of it where C code calls back, for progress or with events."""
    (tmp_path / "interrupt.c").write_text(INTERRUPT)
    (tmp_path / "listen.py").write_text(
        "from sluice.functions import at_end, on\n\n\n@on('udp', 'packet')\ndef saw(event):\n    pass\n\n\n"
        "@at_end\ndef report():\n    print('went on to the end')\n"
    )
    path = tmp_path / "large.pcap"
    reported, batched = [udp_packet(53, bytes(60_000))] * 300, [udp_packet(53, b"")] * 40_000
    path.write_bytes(pcap(batched if python else reported))  # more than 8 MiB, or many events
    functions = ["-f", str(tmp_path / "interrupt.c"), *(["-f", str(tmp_path / "listen.py")] if python else [])]
    command = [*INTERRUPTIBLE, "run", str(DATAGRAMS), "-r", str(path), *functions]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "sluice: stopped\n") and " packets, " in done.stdout


def test_ctrl_c_in_a_function_in_python_stops_it_at_once(capture: Path, tmp_path: Path) -> None:
    body = "import signal, time\n    signal.raise_signal(signal.SIGINT)\n    time.sleep(1)\n    print('went on')"
    path = user(tmp_path, layer="udp", event="created", body=body)
    command = [*INTERRUPTIBLE, "run", str(DATAGRAMS), "-r", str(capture), "-f", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (130, "sluice: stopped\n") and " packets, " in done.stdout


def test_as_a_module_and_as_a_script() -> None:
    for command in ([sys.executable, "-m", "sluice"], [sys.executable, "-m", "sluice.cli.main"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0 and done.stdout.startswith("sluice ")
    done = subprocess.run([sys.executable, "-m", "sluice"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and "COMMAND" in done.stderr


def test_a_reader_that_has_enough_is_no_error() -> None:
    show = f"{sys.executable} -m sluice show {DATAGRAMS} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", show], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("stack datagrams") and done.stderr == ""


def test_progress_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap([udp_packet(53, bytes(1400))] * 20_000))  # three times as much as between two reports
    command = [sys.executable, "-m", "sluice", "run", str(STACK), "-r", str(path)]
    quiet = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert quiet.returncode == 0 and quiet.stderr == "" and "20,000 packets" in quiet.stdout
    try:
        master, slave = pty.openpty()
    except OSError as error:
        pytest.skip(f"no terminal to be had: {error.strerror}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, cwd=ROOT) as process:
        os.close(slave)
        shown = b""
        while select.select([master], [], [], 60)[0]:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            shown += piece
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(master)
    assert process.returncode == 0 and b"20,000 packets" in out
    assert b"% " in shown and b" packets" in shown
    assert shown.endswith(b"\r\x1b[K")  # the line is taken back, so that the summary stands alone


@pytest.mark.parametrize("command", ["run", "flows", "show", "explain", "build", "bench", "new"])
def test_every_command_has_help_and_json(sluice: Command, command: str) -> None:
    done = sluice(command, "--help")
    assert done.status == 0
    assert "--json" in done.out and f"usage: sluice {command}" in done.out
    assert any(line.split()[:1] == [command] for line in sluice("--help").out.splitlines())


def test_the_functions_of_the_stacks_own_file_run(sluice: Command) -> None:
    hello, capture = FIRST / "hello.py", FIRST / "capture.pcap"
    done = sluice("run", hello, "-r", capture)
    assert done.out.count("has its highest so far") == 7 and done.err == ""
    assert sluice("run", hello, "-r", capture, "-f", hello).out.count("has its highest so far") == 7
    other = sluice("run", hello, "-r", capture, "-f", "none")
    assert "has its highest" not in other.out and "its functions on events do not run" in other.err
