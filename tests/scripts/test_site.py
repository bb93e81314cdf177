"""scripts/site.py: every link of the pages that it makes leads to a page; MkDocs agrees where it is installed."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_of_manual", ROOT / "scripts" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_link_leads_to_a_page(site: ModuleType, tmp_path: Path) -> None:
    """Needs no package."""
    assert site.write_sources(tmp_path) > 100
    pages = list(tmp_path.rglob("*.md"))
    assert (tmp_path / "index.md").is_file() and (tmp_path / "report.md") in pages
    links = 0
    for page in pages:
        text = re.sub(r"^(```|~~~~~~).*?^\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if "://" not in target:
                links += 1
                assert (page.parent / target).is_file(), f"{page.relative_to(tmp_path)}: {target}"
    assert links > 200


def test_a_link_that_leads_nowhere_is_an_error(site: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"docs/a\.md: missing\.md does not exist"):
        site.linked("[x](missing.md)", ROOT / "docs" / "a.md", [])
    assert site.linked("```\n[x](missing.md)\n```", ROOT / "docs" / "a.md", []).count("missing.md") == 1


@pytest.mark.slow_matrix
def test_mkdocs_finds_no_mistake(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="no MkDocs Material (scripts/setup.sh --site)")
    command = [sys.executable, ROOT / "scripts" / "site.py", tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "search" / "search_index.json").is_file()
