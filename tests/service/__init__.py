"""Services: programs in FLICK, from their text to real peers."""
