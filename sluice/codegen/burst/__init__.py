"""The two stages of a burst: arrival through the stateless layers, then processing in order."""
