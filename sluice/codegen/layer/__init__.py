"""The instructions of one layer as C, and the layout of its instances."""
