"""One file per tab; each exposes build(...) and wires its own events."""
