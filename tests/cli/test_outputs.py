"""Values are passed as values, and outputs are never written through links."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.codegen.c.names import c_string, comment
from sluice.engine.compiler import compiler
from sluice.engine.functions import FunctionError, find_functions
from sluice.hooks.parameter import ParameterError
from tests.cli.conftest import FIRST, ROOT, SMALL, Command
from tests.support.own_cache import own_cache

STACK = ("--stack", str(SMALL))


@pytest.mark.parametrize("name", ["in.pcap,rows=65536", "x,out=other", "a,key=b", "x,holes=1,out=in.pcap", "x\\,y=z"])
def test_the_name_of_an_output_is_a_value(
    sluice: Command, capture: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(capture.parent)
    before = capture.read_bytes()
    Path("other").write_text("mine")
    assert sluice("flows", *STACK, "-r", capture.name, "-o", name, "--rows", 65536, "--holes", 7).status == 0
    assert capture.read_bytes() == before and Path("other").read_text() == "mine"
    assert len(Path(name).read_text().splitlines()) == 2


def test_the_name_of_an_output_decides_on_the_format_of_the_only_log(
    sluice: Command, capture: Path, tmp_path: Path
) -> None:
    for given, format in ((tmp_path / "rows.csv", ()), (tmp_path / "rows", ("--format", "csv"))):
        done = sluice("run", SMALL, "-r", capture, "-f", "flow_log", "-o", given, *format)
        assert done.status == 0 and "flows: 2" in done.out
        lines = given.read_text().splitlines()
        assert lines[0].startswith("schema,layers,") and len(lines) == 3
    several = sluice("run", SMALL, "-r", capture, "-f", "flow_log,sctplog", "-o", tmp_path / "more.csv")
    assert several.status == 2
    assert "give -f flow_log:out=FILE -f sctplog:out=FILE" in several.err and not (tmp_path / "more.csv").exists()


def test_values_are_checked_like_texts() -> None:
    wanted = find_functions(["flow_log"], {"flow_log": {"out": "a,rows=1", "rows": "7"}})
    (values,) = wanted.parameters()
    assert values["out"] == "a,rows=1" and values["rows"] == 7 and values["holes"] == 65536
    with pytest.raises(ParameterError, match="there is no parameter 'ows'"):
        find_functions(["flow_log"], {"flow_log": {"ows": "7"}}).parameters()
    with pytest.raises((ParameterError, FunctionError)):
        find_functions(["flow_log"], {"flow_log": {"rows": "many"}}).parameters()


def test_an_output_that_is_a_link_is_refused(mistake: Command, capture: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(victim)
    assert "is a symbolic link" in mistake("flows", *STACK, "-r", capture, "-o", link).err
    assert "is a symbolic link" in mistake("run", "tcp_ip", "-r", capture, "-f", f"flow_log:out={link}").err
    assert "is a symbolic link" in mistake("show", "tcp_ip", "--svg", link).err
    assert victim.read_text() == "mine"


def test_the_runtime_itself_follows_no_link(tmp_path: Path) -> None:
    """A link that is planted after the command line was checked."""
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    source = tmp_path / "create.c"
    source.write_text(
        '#include "core/create.h"\n'
        "int main(int n, char **a) { FILE *f = sl_create(a[n - 1]);"
        ' return f ? fputs("row", f) < 0 || fclose(f) : 3; }\n'
    )
    subprocess.run(
        [*compiler(), "-D_GNU_SOURCE", f"-I{ROOT}/sluice/runtime", source, "-o", tmp_path / "create"], check=True
    )
    assert subprocess.run([tmp_path / "create", tmp_path / "link"]).returncode == 3
    assert (tmp_path / "victim").read_text() == "mine"
    assert subprocess.run([tmp_path / "create", tmp_path / "new"]).returncode == 0
    assert (tmp_path / "new").read_text() == "row"
    out = tmp_path / "appended"
    for path in ("/dev/stdout", "/dev/fd/1"):  # as it is open, not opened again and cut
        with open(out, "ab") as file:
            assert subprocess.run([tmp_path / "create", path], stdout=file).returncode == 0
    assert out.read_text() == "rowrow"


@pytest.mark.parametrize("planted", ["Makefile", "runtime/core/box.h", "hello.c", ".sluice-files"])
def test_build_writes_through_no_link(sluice: Command, tmp_path: Path, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "c"
    (folder / planted).parent.mkdir(parents=True)
    (folder / planted).symlink_to(victim)
    sluice("build", FIRST / "hello.py", "-o", folder)
    assert victim.read_text() == "mine"


def test_build_enters_no_linked_folder(mistake: Command, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "runtime").symlink_to(tmp_path / "elsewhere")
    mistake("build", FIRST / "hello.py", "-o", tmp_path / "c")
    assert not list((tmp_path / "elsewhere").iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "c")
    assert "symbolic link" in mistake("build", FIRST / "hello.py", "-o", tmp_path / "link").err


def test_a_planted_list_gives_no_file_of_the_users_away(mistake: Command, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("mine")
    (tmp_path / ".sluice-files").write_text("Makefile\n0 Makefile\n")
    assert "Makefile would be replaced" in mistake("build", FIRST / "hello.py", "-o", tmp_path).err
    assert (tmp_path / "Makefile").read_text() == "mine"


def test_a_damaged_library_is_compiled_again(capture: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "SLUICE_CACHE": str(own_cache(tmp_path / "cache"))}
    command = [sys.executable, "-m", "sluice", "run", str(FIRST / "hello.py"), "-r", str(capture)]
    first = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    for path in [*(tmp_path / "cache").glob("*.so"), *(tmp_path / "cache").glob("*.stack")]:
        os.truncate(path, path.stat().st_size // 3)
    again = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]


def test_a_text_of_the_users_ends_neither_a_comment_nor_a_string_of_c() -> None:
    assert comment("a*/b\n#include \\") == "a* /b?#include ?"
    assert c_string('a"\\\n\x01é') == r'"a\"\\\012\001é"'


def test_a_file_whose_name_is_c_compiles(sluice: Command, tmp_path: Path, capture: Path) -> None:
    folder = tmp_path / 'x" \n#error "'
    folder.mkdir()
    stack = folder / 'y" *x.py'
    stack.write_text((FIRST / "hello.py").read_text())
    function = folder / "f.c"
    function.write_text('#include "sluice.h"\nSLUICE_ON(hello, record) { (void)event; (void)data; }\n')
    assert sluice("run", stack, "-r", capture, "-f", function).status == 0
