"""Input that is cut, damaged or hostile: nothing crashes, and every packet ends in a counted reason."""
