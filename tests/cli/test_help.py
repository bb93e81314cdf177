"""sluice help, and names that are nearly right."""

from pathlib import Path

from sluice.cli.help import MANUAL
from tests.cli.conftest import ROOT, Command


def test_the_manual_is_that_of_the_repository() -> None:
    """Below the package, so that it is installed with it."""
    assert MANUAL.resolve() == ROOT / "docs"
    text = (ROOT / "pyproject.toml").read_text()
    assert '"sluice.cli" = ["manual/*.md", "manual/protocols/*.md"]' in text


def test_pages_headings_and_commands(sluice: Command) -> None:
    listed = sluice("help").out
    assert "language" in listed and "tcp" in listed
    assert sluice("help", "language").out == (ROOT / "docs" / "language.md").read_text() + "\n"
    assert sluice("help", "tcp").out.startswith("# tcp")
    assert "usage: sluice explain" in sluice("help", "explain").out
    section = sluice("help", "Compiled", "code").out
    assert "## Compiled code" in section and "## Outputs" not in section


def test_a_text_is_found_under_its_heading(sluice: Command) -> None:
    assert "security: Outputs" in sluice("help", "--search", ".sluice-files").out.splitlines()


def test_the_nearest_name_is_suggested(mistake: Command, misuse: Command, tmp_path: Path) -> None:
    assert "did you mean 'language'?" in mistake("help", "langauge").err
    assert "did you mean 'run'?" in misuse("rum", "tcp_ip").err
    assert "did you mean 'tcp_ip'?" in mistake("show", "tcp_ipp").err
    assert "did you mean 'flow_log'?" in mistake("run", "tcp_ip", "-r", "x", "-f", "flow_lg").err
    assert "did you mean '--json'?" in misuse("show", "tcp_ip", "--jsno").err
