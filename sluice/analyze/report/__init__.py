"""The tool's findings, for people: `model.py` reads its JSON, `text.py` prints it, `page.py` adds the source."""
