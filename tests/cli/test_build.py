"""sluice build: the C compiles without a warning, runs without Python, and counts what `sluice run` counts."""

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.engine.compiler import ZIG, compiler
from tests.cli.conftest import DATAGRAMS, FIRST, ROOT, Command
from tests.support.budget import in_matrix

CAPTURE = FIRST / "capture.pcap"
READY = ROOT / "sluice" / "functions" / "ready"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)] or [shlex.join(compiler())]
STRICT = "-O1 -Wall -Wextra -Werror"
STANDARD = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
LANGUAGES = [(name, "c", "c11") for name in COMPILERS]
LANGUAGES += [(name, "c++", "c++17") for name in ("g++", "clang++") if shutil.which(name)]


def make(folder: Path, *targets: str, cc: str = "", flags: str = STRICT) -> None:
    tools = [f"CC={cc or shlex.join(compiler())}"]
    if shutil.which("ar") is None:
        tools.append(f"AR={shlex.join((sys.executable, '-m', 'ziglang', 'ar'))}")
    command = ["make", "-C", str(folder), *tools, f"CFLAGS={flags}", *targets]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(item) for item in command], capture_output=True, text=True)


def counted(found: dict[str, object]) -> dict[str, object]:
    """What does not depend on how long it took."""
    return {name: value for name, value in found.items() if name != "seconds"}


@pytest.mark.parametrize("cc", COMPILERS)
@pytest.mark.parametrize("stack", [str(FIRST / "hello.py"), in_matrix("tcp_ip")])
def test_it_compiles_without_a_warning_and_counts_the_same(
    sluice: Command, tmp_path: Path, cc: str, stack: str
) -> None:
    done = sluice("build", stack, "-o", tmp_path)
    assert done.status == 0 and done.err == ""
    make(tmp_path, cc=cc)
    name = Path(stack).stem
    mine = run(tmp_path / f"{name}-run", "--json", CAPTURE)
    assert mine.returncode == 0 and mine.stderr == ""
    wanted = json.loads(sluice("run", stack, "-r", CAPTURE, "--json").out)
    assert counted(json.loads(mine.stdout)) == counted(wanted)
    assert {path.name for path in tmp_path.glob("lib*")} == {f"lib{name}.a", f"lib{name}.so"}


@pytest.fixture(scope="module")
def with_ready_functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stack with the ready functions; flow_log is that of flowlog."""
    from sluice.cli.main import main

    folder = tmp_path_factory.mktemp("ready")
    names = sorted(path.stem for path in READY.glob("*.c") if path.stem != "flow_log")
    assert main(["build", "everything", "--passes", "none", "-f", ",".join(names), "-o", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("cc", COMPILERS)
def test_ready_functions_compile_without_a_warning(with_ready_functions: Path, cc: str) -> None:
    folder = with_ready_functions
    includes = [f"-I{folder / 'runtime' / name}" for name in ("", "function", "native")]
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-include", folder / "everything_symbols.h"]
    done = run(*shlex.split(cc), *flags, *includes, folder / "everything.c")
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_headers_of_functions_are_named_without_a_folder(with_ready_functions: Path) -> None:
    text = (with_ready_functions / "everything.c").read_text()
    assert str(READY) not in text and '# 1 "tls_open.h" 1' in text


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """hello, built with a C function."""
    from sluice.cli.main import main

    folder = tmp_path_factory.mktemp("built")
    function = folder / "count.c"
    function.write_text(
        '#include "sluice.h"\nstruct n { uint64_t n; const char *name; };\nSLUICE_WORKER(struct n)\n'
        "SLUICE_OPEN { SLUICE_WORKER_OF(box)->name = options; return *options == 'x'; }\n"
        "SLUICE_ON(hello, record) { SLUICE_WORKER_OF(event->box)->n += data->celsius; }\n"
        "SLUICE_CLOSE { sl_report(box, SLUICE_WORKER_OF(box)->name, SLUICE_WORKER_OF(box)->n);\n"
        '    if (*SLUICE_WORKER_OF(box)->name == 0) sl_fail(box, "count", "no name"); }\n'
    )
    assert main(["build", str(FIRST / "hello.py"), "-f", f"{function}:sum", "-o", str(folder / "c")]) == 0
    make(folder / "c", flags=STRICT.replace("-O1", "-O0"))
    return folder / "c"


def test_c_functions_are_compiled_in_with_their_options(built: Path) -> None:
    found = json.loads(run(built / "hello-run", "--json", CAPTURE).stdout)
    assert found["reports"] == {"sum": 18 + 21 + 19 + 15 + 17 + 23 + 21}
    found = json.loads(run(built / "hello-run", "--json", "-f", "count:degrees", CAPTURE).stdout)
    assert list(found["reports"]) == ["degrees"]
    refused = run(built / "hello-run", "-f", "count:x", CAPTURE)
    assert refused.returncode == 1 and "a function refuses" in refused.stderr


def test_a_function_that_fails_is_told(built: Path) -> None:
    failed = run(built / "hello-run", "--json", "-f", "count:", CAPTURE)
    assert failed.returncode == 1 and "count: no name" in failed.stderr
    assert json.loads(failed.stdout)["failure"] == "count: no name"
    assert json.loads(run(built / "hello-run", "--json", CAPTURE).stdout)["failure"] is None


def test_the_generated_c_names_no_folder_of_this_machine(built: Path) -> None:
    for path in built.rglob("*"):
        if path.suffix in (".c", ".h", ".md") or path.name == "Makefile":
            assert str(built.parent) not in path.read_text() and str(FIRST) not in path.read_text()


def test_the_program_as_text_and_its_mistakes(built: Path, tmp_path: Path) -> None:
    out = run(built / "hello-run", CAPTURE).stdout
    assert "22 packets" in out and "malformed:version" in out
    missing = run(built / "hello-run", tmp_path / "no.pcap")
    assert missing.returncode == 1 and "No such file" in missing.stderr
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURE.read_bytes()[:-1])
    broken = run(built / "hello-run", "--json", cut)
    assert broken.returncode == 1 and "packet 22" in json.loads(broken.stdout)["fault"]
    for wrong in (["--idle", "0"], ["--memory", "x"], ["-f", "nobody:x"], ["--what"], []):
        assert run(built / "hello-run", *wrong).returncode == 2


def test_options_mean_what_they_mean_in_run(built: Path, sluice: Command) -> None:
    found = json.loads(run(built / "hello-run", "--idle", "1", "--max-instances", "9", "--json", CAPTURE).stdout)
    wanted = json.loads(sluice("run", FIRST / "hello.py", "-r", CAPTURE, "--idle", "1", "--json").out)
    assert found["layers"] == wanted["layers"]
    assert found["layers"]["hello"]["ended:timeout"] > 0
    early = json.loads(run(built / "hello-run", "--prefault", "--max-instances", "9", "--json", CAPTURE).stdout)
    assert early["layers"] == json.loads(run(built / "hello-run", "--json", CAPTURE).stdout)["layers"]
    still = json.loads(run(built / "hello-run", "--no-timeouts", "--idle", "1", "--json", CAPTURE).stdout)
    assert still["layers"]["hello"]["ended:timeout"] == 0


@pytest.mark.parametrize("library", ["libhello.a", "libhello.so"])
def test_a_function_of_the_users_takes_the_place_of_the_weak_one(built: Path, tmp_path: Path, library: str) -> None:
    """embed.c overrides it; a program that does not still links, with the empty one."""
    out = tmp_path / "embed"
    command = [*compiler(), *STRICT.split(), f"-I{built}", f"-I{built}/runtime", built / "embed.c", "-o", out]
    done = run(*command, built / library, f"-Wl,-rpath,{built}", "-ldl", "-lm")
    assert done.returncode == 0, done.stderr
    lines = run(out, CAPTURE).stdout.splitlines()
    records = [line for line in lines if "hello_record: " in line]
    assert records[0] == "packet 1: hello_record: station=7 celsius=18" and len(records) == 7
    assert "hello, packets: 12" in lines
    quiet = tmp_path / "quiet.c"
    text = (built / "embed.c").read_text()
    begin = text.index("/* Takes the place")
    quiet.write_text(text[:begin] + text[text.index("int main") :])
    command[command.index(built / "embed.c")] = quiet
    done = run(*command, built / library, f"-Wl,-rpath,{built}", "-ldl", "-lm")
    assert done.returncode == 0, done.stderr
    assert "hello_record: " not in run(out, CAPTURE).stdout


def refused(folder: Path, source: str, compiler: str, language: str, standard: str) -> str:
    """What a compiler has against a program that embeds a stack, as strictly as it can be asked."""
    command = [
        *shlex.split(compiler),
        "-x",
        language,
        f"-std={standard}",
        *STANDARD,
        f"-I{folder}",
        f"-I{folder}/runtime",
        "-",
    ]
    return subprocess.run(command, input=source.rstrip() + "\n", capture_output=True, text=True).stderr


@pytest.mark.parametrize("compiler, language, standard", LANGUAGES)
def test_a_program_that_embeds_needs_no_extensions(built: Path, compiler: str, language: str, standard: str) -> None:
    if language == "c":
        assert refused(built, (built / "embed.c").read_text(), compiler, language, standard) == ""
    source = """
        #include "hello.h"
        #include "io/capture.h"
        #include "io/writer.h"
        #include "driver/drive.h"
        void hello_record(const struct sl_event_info *event, const struct hello_record *data) {
            (void)event->packet;
            (void)data->celsius;
        }
        int main(void) {
            static struct sl_options options;
            options.memory = 1 << 20;
            options.max_instances = 1000;
            options.timeouts = true;
            struct sl_box *box = hello_open(&options);
            const char *name = hello_counters[0].name;
            return box && name && sl_box_counters(box)[0] == 0 && *sl_box_failure(box) == 0 ? 0 : 1;
        }
    """
    assert refused(built, source, compiler, language, standard) == ""


def test_a_program_in_cpp_links(built: Path, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    source = tmp_path / "main.cpp"
    source.write_text("""
        #include "hello.h"
        #include <cstdio>
        void hello_record(const struct sl_event_info *, const struct hello_record *data) {
            std::printf("%u\\n", data->celsius);
        }
        int main() {
            struct sl_options options = {1, 1 << 20, 1000, true, 0, 0, nullptr, nullptr, nullptr};
            struct sl_box *box = hello_open(&options);
            hello_finish(box);
            std::printf("%s %u\\n", hello_counters[0].name, (unsigned)sl_box_counters(box)[0]);
            hello_close(box);
        }
    """)
    out = tmp_path / "main"
    done = run("g++", source, f"-I{built}", f"-I{built}/runtime", built / "libhello.a", "-ldl", "-lm", "-o", out)
    assert done.returncode == 0, done.stderr
    assert run(out).stdout == "packets 0\n"


@pytest.mark.parametrize("compiler, language, standard", LANGUAGES)
def test_names_that_only_cpp_has_as_words(
    sluice: Command, tmp_path: Path, compiler: str, language: str, standard: str
) -> None:
    """They have _ after them there; a function of such a name is one that C++ cannot define."""
    text = (FIRST / "hello.py").read_text()
    text = text.replace("record.celsius", "record.virtual").replace("class record(layout)", "class new(layout)")
    text = text.replace("record.", "new.").replace("event.new", "event.record").replace("(record)", "(new)")
    head, _, rest = text.partition("class new(layout)")
    (tmp_path / "hello.py").write_text(f"{head}class new(layout){rest.replace('celsius =', 'virtual =', 1)}")
    assert sluice("build", tmp_path / "hello.py", "-o", tmp_path / "c").err == ""
    field = "virtual" if language == "c" else "virtual_"
    head = "void hello_record(const struct sl_event_info *event, const struct hello_new *data)"
    source = f'#include "hello.h"\n{head} {{ (void)event->flow; (void)data->{field}; }}\n'
    assert refused(tmp_path / "c", source, compiler, language, standard) == ""


def test_without_cc_and_ar_make_takes_what_sluice_found(sluice: Command, tmp_path: Path) -> None:
    """A machine whose only compiler and archiver have other names than make's own; the user's choice wins."""
    real = {"mycc": shutil.which(compiler()[0]), "llvm-ar": shutil.which("ar")}
    real |= {name: shutil.which(name) for name in ("make", "sh", "rm", "as", "ld")}
    if compiler() == ZIG or None in real.values():
        pytest.skip("needs a compiler and binutils that can be called by another name")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, path in real.items():
        (tools / name).symlink_to(str(path))
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "AR")}
    environment["PATH"] = str(tools)
    command = [sys.executable, "-m", "sluice", "build", str(FIRST / "hello.py"), "-o", str(tmp_path / "c")]
    more = shlex.join(["mycc", *compiler()[1:]])
    subprocess.run(command, check=True, cwd=ROOT, env={**environment, "CC": more}, capture_output=True)
    made = subprocess.run(["make", "-C", tmp_path / "c", "CFLAGS=-O0"], env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert "mycc" in made.stdout and "llvm-ar rcs" in made.stdout
    assert run(tmp_path / "c" / "hello-run", CAPTURE).returncode == 0
    other = subprocess.run(["make", "-n", "-B", "AR=other", "-C", tmp_path / "c"], env={**environment, "CC": "third"},
                           capture_output=True, text=True).stdout  # fmt: skip
    assert "third -" in other and "other rcs" in other and "mycc" not in other
    here = sluice("build", FIRST / "hello.py", "-o", tmp_path / "here")
    assert here.status == 0
    if shutil.which("cc"):
        assert "origin" not in (tmp_path / "here" / "Makefile").read_text()


def test_embed_c_is_the_users_and_the_rest_is_ours(sluice: Command, tmp_path: Path) -> None:
    sluice("build", FIRST / "hello.py", "-o", tmp_path)
    (tmp_path / "embed.c").write_text("mine")
    written = (tmp_path / "hello.c").read_text()
    digest = hashlib.sha256(b"of an older version").hexdigest()
    (tmp_path / "hello.c").write_text("of an older version")
    with open(tmp_path / ".sluice-files", "a") as list_:
        list_.write(f"{digest} hello.c\n")
    found = json.loads(sluice("build", FIRST / "hello.py", "-o", tmp_path, "--json").out)
    assert (tmp_path / "embed.c").read_text() == "mine" and "embed.c" not in found["files"]
    assert (tmp_path / "hello.c").read_text() == written
    assert all((tmp_path / name).is_file() for name in found["files"]) and found["name"] == "hello"


def test_files_of_the_users_are_never_replaced(sluice: Command, mistake: Command, tmp_path: Path) -> None:
    """Nothing at all is written then; another stack in a folder of ours is welcome."""
    stack = FIRST / "hello.py"
    (tmp_path / "Makefile").write_text("mine")
    (tmp_path / "runtime" / "driver").mkdir(parents=True)
    (tmp_path / "runtime" / "driver" / "drive.c").symlink_to("nowhere")
    told = mistake("build", stack, "-o", tmp_path).err
    assert "Makefile, runtime/driver/drive.c would be replaced, and were not written by Sluice" in told
    assert (tmp_path / "Makefile").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "runtime"]
    for name in (stack, DATAGRAMS, stack):
        assert sluice("build", name, "-o", tmp_path / "c").status == 0
    (tmp_path / "c" / "hello.c").write_text("changed")
    assert "hello.c would be replaced, and was not" in mistake("build", stack, "-o", tmp_path / "c").err
    (tmp_path / "c" / "udp.c").write_text("mine")
    (tmp_path / "udp.py").write_text(stack.read_text().replace('Stack("hello")', 'Stack("udp")'))
    assert "udp.c would be replaced, and was not" in mistake("build", tmp_path / "udp.py", "-o", tmp_path / "c").err


def test_a_folder_whose_list_was_lost_can_be_written_again(sluice: Command, tmp_path: Path) -> None:
    sluice("build", FIRST / "hello.py", "-o", tmp_path)
    (tmp_path / ".sluice-files").unlink()
    assert sluice("build", FIRST / "hello.py", "-o", tmp_path).status == 0


def test_mistakes(mistake: Command, tmp_path: Path) -> None:
    stack = FIRST / "hello.py"
    assert "without Python" in mistake("build", stack, "-f", stack, "-o", tmp_path).err
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'}" in mistake("build", stack, "-o", tmp_path / "file").err
    assert f"{tmp_path / 'file' / 'c'}" in mistake("build", stack, "-o", tmp_path / "file" / "c").err
    (tmp_path / "d" / "hello.c").mkdir(parents=True)
    assert "hello.c" in mistake("build", stack, "-o", tmp_path / "d").err


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("open", "the program has already"),
        ("counters", "the program has already"),
        ("on_end", "the program has already"),
        ("sl_sweep", "the program has already"),
    ],
)
def test_an_event_whose_function_would_take_anothers_place(
    mistake: Command, tmp_path: Path, event: str, why: str
) -> None:
    text = (FIRST / "hello.py").read_text().replace("hello.event.record =", f"hello.event.{event} =")
    (tmp_path / "hello.py").write_text(text)
    line = 1 + [f".event.{event}" in line for line in text.splitlines()].index(True)
    told = mistake("build", tmp_path / "hello.py", "-o", tmp_path / "c").err
    assert f"hello.py:{line}: event '{event}' becomes the function hello_{event}, which is" in told and why in told
    assert "another name" in told


@pytest.mark.parametrize("event", ["read", "double", "main"])
def test_an_event_may_have_the_name_of_anything_else(sluice: Command, tmp_path: Path, event: str) -> None:
    text = (FIRST / "hello.py").read_text().replace("hello.event.record =", f"hello.event.{event} =")
    (tmp_path / "hello.py").write_text(text)
    assert sluice("build", tmp_path / "hello.py", "-o", tmp_path / "c").status == 0
    assert f"void hello_{event}(const struct sl_event_info *event" in (tmp_path / "c" / "hello.h").read_text()
