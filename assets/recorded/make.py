"""Record the runs that the page can open without a model: python assets/recorded/make.py"""

import json
from dataclasses import replace
from pathlib import Path

from leo_core.checkpoint import ASSETS
from leo_core.commands.ready import quiet_libraries
from leo_core.tracing.trace_file import save_trace
from studio.session import Session


def main() -> None:
    quiet_libraries()
    session = Session().start()
    session.wait()
    for index, one in enumerate(json.loads((ASSETS / "examples" / "examples.json").read_text())):
        trace = list(session.ask(ASSETS / "examples" / one["picture"], one["question"]))[-1].trace
        trace = replace(trace, provenance={name: value for name, value in trace.provenance.items() if name != "run"})
        name = "first" if index == 0 else Path(one["picture"]).stem
        save_trace(trace, ASSETS / "recorded" / f"{name}.safetensors")
        print(f"{name}: {trace.question} -> {trace.answer}")


if __name__ == "__main__":
    main()
