"""Say whether a checkpoint can be opened, and what is missing."""

import argparse

from leo_core.commands.ready import quiet_libraries, use_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="checkpoint folder or hub id")
    parser.add_argument("--cache", help="folder for parts and converted weights")


def run(options: argparse.Namespace) -> int:
    from leo_core.checkpoint import Sources, checkpoint_folder, load, read_config
    from leo_core.errors import LeoError

    quiet_libraries()
    use_cache(options)
    folder = checkpoint_folder(options.path)
    config = read_config(folder)
    print(f"config.json   {config.model_type}, reducer {config.reducer['kind']} ({config.reducer['tokens']} tokens), {len(config.experts)} vision experts")
    sources, problems = Sources(folder), []
    wanted = [("decoder", config.decoder_source)] if config.decoder_source else []
    for expert in config.experts:
        settings = expert["settings"]
        wanted += [(f"{expert['name']} ({key})", settings[key]) for key in ("graph", "detector", "recogniser", "source") if key in settings]
    for name, source in wanted:
        try:
            print(f"{name:<22} {sources(source)}")
        except LeoError as error:
            problems.append(str(error))
            print(f"{name:<22} MISSING: {error}")
    if not problems:
        model, _ = load(folder)
        print(f"weights       fit; {sum(p.numel() for p in model.parameters()):,} parameters")
    print("This checkpoint can be opened." if not problems else f"This checkpoint cannot be opened: {len(problems)} parts are missing.")
    return 1 if problems else 0
