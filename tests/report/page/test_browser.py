"""The page in Chromium: search, sort, keys, light and dark, a narrow window; no error and no request."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.report.page.document import page
from sluice.report.page.facts import Facts

ROOT = Path(__file__).resolve().parents[3]
playwright: Any = pytest.importorskip("playwright.sync_api", reason="no playwright (scripts/setup.sh --browser)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (scripts/setup.sh --browser)")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about the rows of two examples, and many copies of a flow."""
    facts = Facts()
    lines = [
        line
        for name in ("logs", "more_logs")
        for line in (ROOT / "examples" / name / "expected.jsonl").read_text().splitlines()
    ]
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    flow = next(row for row in rows if "schema" in row)
    rows += [flow | {"flow": 1000 + number, "sport": 2000 + number, "src_bytes": number} for number in range(250)]
    for row in rows:
        function = "flowlog" if "schema" in row else f"{row['log']}log"
        if function not in ("ntplog", "gtplog", "sctplog"):
            facts.sink(function).write(json.dumps(row).encode())
    begin = {"ts": "1700000000.000000000", "width": 1_000_000, "captured": 60, "rexmit": 1}
    for number in range(0, 130, 3):
        facts.sink("timeline").write(json.dumps(begin | {"interval": number, "packets": 1, "bytes": 60}).encode())
    facts.sink("portscan").write(b'{"scanner":"10.0.0.11","time":"1.0","packet":1}')
    found = facts.facts(captures=["a.pcap"], octets=1, counters={}, reports={}, alerts=False)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(found), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def shown(browser: Any, file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, without a network. Fails for a message on the console, an error, and a request."""
    settings: dict[str, Any] = getattr(request, "param", {})
    context = browser.new_context(offline=True, **settings)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda asked: problems.append(asked.url) if asked.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert problems == []


def rows(shown: Any) -> int:
    return shown.locator("#rows tr[data-row]").count()


def test_search_and_its_links(shown: Any) -> None:
    total = int(shown.inner_text("#found").split()[0])
    assert total > 250
    assert rows(shown) == 100
    shown.click("#more-flows")
    assert rows(shown) == total
    shown.keyboard.press("/")
    shown.keyboard.type("http 192.0.2.80")
    playwright.expect(shown.locator("#rows tr")).to_have_count(1)
    shown.keyboard.press("Escape")
    assert shown.input_value("#search") == ""
    shown.locator("#look button.find", has_text="10.0.0.11").first.click()
    assert shown.input_value("#search") == "10.0.0.11"
    shown.fill("#search", "#1003")
    playwright.expect(shown.locator("#rows tr")).to_have_count(1)
    shown.fill("#search", "nothing has this")
    playwright.expect(shown.locator("#rows tr")).to_have_count(0)


def test_sort(shown: Any) -> None:
    def column(number: int) -> list[str]:
        return shown.locator(f"#rows tr td:nth-child({number})").all_inner_texts()

    names = shown.locator("#flow-table th button").all_inner_texts()
    flow = names.index("#") + 1
    shown.click("#flow-table th button[data-column=flow]")
    assert column(flow) == sorted(column(flow), key=int)
    assert shown.get_attribute("#flow-table th:has(button[data-column=flow])", "aria-sort") == "ascending"
    shown.click("#flow-table th button[data-column=flow]")
    assert column(flow)[0] == "1249"
    shown.click("#flow-table th button[data-column=client]")
    assert column(names.index("client") + 1)[0] <= column(names.index("client") + 1)[-1]


def test_keys_move_between_flows_and_open_them(shown: Any) -> None:
    shown.focus("#search")
    shown.keyboard.press("ArrowDown")
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate("document.activeElement === document.querySelectorAll('#rows tr')[1]")
    shown.keyboard.press("Enter")
    assert "layers" in shown.inner_text("#rows .detail")
    shown.keyboard.press("Enter")
    assert shown.locator("#rows .detail").count() == 0


@pytest.mark.parametrize("shown", [{"color_scheme": "dark"}, {"color_scheme": "light"}], indirect=True, ids=str)
def test_light_and_dark(shown: Any) -> None:
    def brightness() -> int:
        text = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, text.removeprefix("rgb(").removesuffix(")").split(",")))

    before = brightness()
    assert (before < 200) == shown.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    shown.click("#theme")
    assert (before < 200) != (brightness() < 200)


@pytest.mark.parametrize("shown", [{"viewport": {"width": 380, "height": 800}}], indirect=True, ids=str)
def test_a_narrow_window_needs_no_scrolling_of_the_page(shown: Any) -> None:
    assert shown.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.parametrize("shown", [{"java_script_enabled": False}], indirect=True, ids=str)
def test_without_scripts_all_but_the_table_is_there(shown: Any) -> None:
    assert "The table of flows needs JavaScript." in shown.inner_text("#flows")
    assert shown.locator("svg.time .column").count() > 10
