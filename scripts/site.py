"""Builds the manual as a searchable site (make site). Needs MkDocs Material: scripts/setup.sh --site.

Pages of docs/ become pages of the site. Files of the checkout that they link to become pages, too: text as it is, code
in a block. A link that leads nowhere, or to a heading that does not exist, is an error.

    python scripts/site.py FOLDER
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(```|    )")
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".cpp": "cpp"}


def configuration(docs: Path, out: Path) -> dict[str, object]:
    """mkdocs.yml; JSON is YAML. No font or script of other sites is loaded."""
    return {
        "site_name": "Sluice",
        "site_url": "",
        "use_directory_urls": False,
        "docs_dir": str(docs),
        "site_dir": str(out),
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.top", "search.suggest", "search.highlight", "content.code.copy"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "teal"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "teal"},
            ],
        },
        "plugins": ["search"],
        "markdown_extensions": ["tables", "fenced_code", "sane_lists", {"toc": {"permalink": True}}],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn"}},
        "strict": True,
    }


def place(source: Path) -> Path:
    """Where a file of the checkout is in the site's sources."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    name = source.relative_to(ROOT)
    return Path("checkout", name if name.suffix == ".md" else f"{name}.md")


def linked(text: str, source: Path, waiting: list[Path]) -> str:
    """A page with the links of the site. Files that it links to are added to `waiting`. Raises SystemExit."""

    def link(match: re.Match[str]) -> str:
        if "://" in match[2] or match[2].startswith("mailto:"):
            return match[0]
        target = (source.parent / match[2]).resolve()
        if target.is_dir():
            target = target / "README.md"
        if not target.is_file():
            sys.exit(f"site: {source.relative_to(ROOT)}: {match[2]} does not exist")
        waiting.append(target)
        path = place(target) if target.suffix not in (".svg", ".png") else Path(os.path.relpath(target, DOCS))
        return f"{match[1]}{os.path.relpath(path, place(source).parent)}{match[3] or ''}{match[4]}"

    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        lines.append(line if fenced or FENCE.match(line) else LINK.sub(link, line))
    return "\n".join(lines) + "\n"


def write_sources(docs: Path) -> int:
    """Write all pages. Returns their number."""
    waiting, done = sorted(DOCS.rglob("*.md")), set[Path]()
    while waiting:
        source = waiting.pop()
        if source in done:
            continue
        done.add(source)
        if source.suffix in (".svg", ".png"):
            target = docs / source.relative_to(DOCS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            continue
        target = docs / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        if source.suffix == ".md":
            text = linked(text, source, waiting)
        else:
            language = LANGUAGES.get(source.suffix, "text")
            text = f"# {source.relative_to(ROOT)}\n\n~~~~~~{language}\n{text}\n~~~~~~\n"
        target.write_text(text, encoding="utf-8")
    return len(done)


def main(out: Path) -> None:
    """Build the site in a folder."""
    with tempfile.TemporaryDirectory(prefix="sluice-site-") as folder:
        docs = Path(folder, "docs")
        docs.mkdir()
        pages = write_sources(docs)
        file = Path(folder, "mkdocs.yml")
        file.write_text(json.dumps(configuration(docs, out.resolve())))
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--clean", "--config-file", str(file)]
        if subprocess.run(command, env=environment).returncode:
            sys.exit("site: mkdocs found mistakes")
    print(f"{pages} pages: {out / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
