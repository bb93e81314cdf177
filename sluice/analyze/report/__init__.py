"""What the tool found, for people: `model.py` reads its JSON, `text.py` prints it, `page.py` adds the source."""
