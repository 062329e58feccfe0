"""One file per command; each has add_arguments(parser) and run(options)."""
