"""scripts/dist.py: the archive and the wheel have everything, and the wheel runs without a checkout."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from sluice.engine.functions import VENDOR

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("setuptools", reason="no setuptools")
    if not VENDOR.is_dir():
        pytest.skip("no llhttp (scripts/setup.sh)")
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run([sys.executable, ROOT / "scripts" / "dist.py", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(list(out.glob("*.tar.gz"))) == 1
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "sluice"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = {name for name in listed.split() if (ROOT / name).is_file()}
    wanted |= {f"sluice/cli/manual/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    wanted |= {str(path.relative_to(ROOT)) for path in VENDOR.rglob("*.[ch]")}
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


@pytest.mark.slow_matrix
def test_the_wheel_runs_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    """In a clean environment, in a folder with nothing but a capture."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLUICE"))}
    clean |= {"SLUICE_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}

    def run(*command: object) -> str:
        done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel)
    assert str(tmp_path) in run(python, "-c", "import sluice; print(sluice.__file__)")
    (tmp_path / "a.pcap").write_bytes((ROOT / "examples" / "logs" / "capture.pcap").read_bytes())
    sluice = tmp_path / "env" / "bin" / "sluice"
    rows = run(sluice, "flows", "-r", "a.pcap", "--stack", "tcp_ip")
    assert rows.count('"schema":"sluice-flows-1"') == 3
    assert "sluice flows" in run(sluice, "help", "commands")
    run(sluice, "report", "a.pcap", "--stack", "tcp_ip")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
