"""Between model and page: one shared, read-only model; runs as frozen traces. No Gradio here."""

import hashlib
import queue
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from leo_core.analysis.contributions import attributions, contributions
from leo_core.analysis.faithfulness import VISUAL, Progress, source_map, test_map, visual_map
from leo_core.checkpoint import EMBEDDED, load, part_names
from leo_core.errors import InputError, LeoError
from leo_core.generation import generate_answer
from leo_core.parts import Parts
from leo_core.picture import load_picture
from leo_core.tracing.intervene import Interventions
from leo_core.tracing.record import lock_of
from leo_core.tracing.run import Asked, ask, encode, trace_run, with_analysis
from leo_core.tracing.trace import Trace
from leo_core.tracing.trace_file import as_saved

REMEMBERED = 16
"""Pictures' features and prepared questions kept for asking again; the oldest go first."""


@dataclass(frozen=True)
class Update:
    """One step of a run as the page sees it. trace: what is known so far, None while the answer is still being written."""

    note: str
    answer: str = ""
    probability: tuple[float, ...] = ()
    trace: Trace | None = None
    done: bool = False


class Session:
    """The model, loaded once in the background, shared by all users; it holds no user's picture beyond a small cache.

    Whoever runs the model takes its lock, so one run at a time; runs are values that belong to whoever asked.
    """

    def __init__(self, model: str | Path = EMBEDDED, device: str = "cpu", dtype: torch.dtype = torch.float32, parts: Parts | None = None):
        self._path, self._device, self._dtype, self._parts = model, device, dtype, parts
        self._ready, self._error, self._started = threading.Event(), None, threading.Lock()
        self._features: OrderedDict[str, tuple] = OrderedDict()
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._stops: dict[str, threading.Event] = {}
        self._guard = threading.Lock()

    # --- loading ---

    def start(self) -> "Session":
        """Load in the background; a second call changes nothing."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._load, daemon=True).start()
        return self

    def _load(self) -> None:
        try:
            parts = self._parts or Parts()
            parts.fetch(part_names(self._path))
            self.model, self.processor = load(self._path, parts, self._device, self._dtype)
        except LeoError as error:
            self._error = str(error)
        except (OSError, RuntimeError, ImportError) as error:  # a library's own words, first line only
            self._error = f"The model could not be loaded ({type(error).__name__}: {str(error).splitlines()[0][:200]})."
        self._ready.set()

    @property
    def status(self) -> str:
        """One sentence: loading, ready, or why not."""
        if not self._ready.is_set():
            return "The model is loading; the recorded run below can be looked at meanwhile."
        return self._error or f"The model is ready: {Path(str(self._path)).name}."

    @property
    def loaded(self) -> bool:
        return self._ready.is_set()

    def wait(self) -> None:
        """Until the model is there. Raises LeoError with the reason when it could not be loaded."""
        self.start()
        self._ready.wait()
        if self._error:
            raise LeoError(self._error)

    # --- asking ---

    def ask(self, picture, question: str, user: str = "", most: int = 48) -> Iterator[Update]:
        """Run one question, step by step. Raises LeoError before the first step for anything the user can put right.

        user: any string that tells browsers apart; `stop(user)` ends that user's run.
        """
        if picture is None:
            raise InputError("There is no picture: upload or paste one, or choose an example.")
        if not question or not question.strip():
            raise InputError("There is no question: type one, for example 'What is in the picture?'.")
        self._begin(user)
        try:
            image = load_picture(picture)
            self.wait()
            yield from self._steps(image, question, self._stops[user], most)
        finally:
            with self._guard:
                self._stops.pop(user, None)

    def stop(self, user: str = "") -> None:
        """End this user's run after the current token; what there is so far stays."""
        with self._guard:
            if user in self._stops:
                self._stops[user].set()

    def _begin(self, user: str) -> None:
        with self._guard:
            if user in self._stops:
                raise InputError("Your last question is still being answered: wait for it, or press Stop.")
            self._stops[user] = threading.Event()

    def _steps(self, image, question: str, stop: threading.Event, most: int) -> Iterator[Update]:
        words: queue.Queue = queue.Queue()
        probability: list[float] = []

        def work() -> None:
            try:
                asked = self._prepare(image, question)
                trace = trace_run(self.model, self.processor, asked, max_new_tokens=most, stop=stop, on_token=lambda *token: words.put(token))
                words.put((asked, trace))
            except Exception as error:  # handed to the user's thread below, whatever it is
                words.put(error)

        yield Update("Looking at the picture")
        threading.Thread(target=work, daemon=True).start()
        while isinstance((item := words.get()), tuple) and isinstance(item[0], str):
            probability.append(item[1])
            yield Update("Answering", item[0], tuple(probability))
        if isinstance(item, Exception):
            raise item
        asked, trace = item
        run = secrets.token_hex(8)
        self._remember(self._asked, run, asked)
        trace = as_saved(replace(trace, provenance={**trace.provenance, "run": run}))
        yield Update("Measuring the vision experts", trace.answer, tuple(trace.probability.tolist()), trace)
        if not stop.is_set():
            trace = self.measured(asked, trace)
        note = "Stopped; this is the answer so far" if stop.is_set() else "Done"
        yield Update(note, trace.answer, tuple(trace.probability.tolist()), trace, done=True)

    def _prepare(self, image, question: str) -> Asked:
        key = hashlib.sha256(image.tobytes() + repr(image.size).encode()).hexdigest()
        with self._guard:
            known = self._features.get(key)
        started = time.perf_counter()
        encoded = known or encode(self.model, [image])
        seconds = 0.0 if known else time.perf_counter() - started
        self._remember(self._features, key, encoded)
        asked = ask(self.model, self.processor, [image], question, encoded)
        return replace(asked, timings={"experts": seconds, "experts_from_cache": known is not None})

    def _remember(self, memory: OrderedDict, key: str, value) -> None:
        with self._guard:
            memory[key] = value
            memory.move_to_end(key)
            while len(memory) > REMEMBERED:
                memory.popitem(last=False)

    # --- measuring ---

    def measured(self, asked: Asked, trace: Trace) -> Trace:
        """The trace with Shapley values, leave-one-out, input x gradient, and the answer without the picture."""
        answer_ids = torch.from_numpy(trace.token_ids[trace.prompt_length :])
        shares = contributions(self.model, asked, answer_ids)
        gradient = attributions(self.model, asked, answer_ids)
        blind = ask(self.model, self.processor, [], trace.question)
        with lock_of(self.model):
            without = generate_answer(self.model, self.processor.tokenizer, blind.inputs)
        trace = with_analysis(trace, "without_picture", {"answer": without.text, "probability": without.log_probability.exp().tolist()})
        values = {
            "names": list(shares.names), "shapley": shares.shapley.tolist(), "leave_one_out": shares.leave_one_out.tolist(),
            "subsets": shares.subsets.tolist(), "v_all": shares.v_all, "v_none": shares.v_none,
            "completeness_error": shares.completeness_error, "input_x_gradient": gradient.tolist(),
        }  # fmt: skip
        return with_analysis(trace, "contributions", values)

    def asked_again(self, trace: Trace) -> Asked:
        """The prepared question of a run: remembered, or made again from the picture's copy in the trace."""
        self.wait()
        with self._guard:
            known = self._asked.get(trace.provenance.get("run", ""))
        if known is not None:
            return known
        if not trace.pictures or trace.pictures[0].content is None:
            raise InputError("This run's picture is not in the trace, so nothing new can be measured on it: ask again with the picture.")
        return ask(self.model, self.processor, [picture.content for picture in trace.pictures], trace.question)

    def map_test(self, trace: Trace, name: str, user: str = "") -> Iterator[Progress | Trace]:
        """Causal test of one map (a vision expert's, or VISUAL): progress, then the trace that holds the result.

        `stop(user)` ends it without a result.
        """
        self._begin(user)
        try:
            asked, answer_ids = self.asked_again(trace), torch.from_numpy(trace.token_ids[trace.prompt_length :])
            scores = visual_map(self.model, asked, answer_ids) if name == VISUAL else source_map(trace, name)
            for step in test_map(self.model, asked, answer_ids, name, scores, stop=self._stops[user]):
                yield step if isinstance(step, Progress) else with_analysis(trace, step.key, step.as_dict())
        finally:
            with self._guard:
                self._stops.pop(user, None)

    def integrated_gradients(self, trace: Trace, steps: int = 32) -> Trace:
        """captum's integrated gradients from "absent" to the run's tokens, with their own completeness error."""
        answer_ids = torch.from_numpy(trace.token_ids[trace.prompt_length :])
        values = attributions(self.model, self.asked_again(trace), answer_ids, "integrated_gradients", steps)
        result = {"values": values.tolist(), "steps": steps}
        if shares := trace.analyses.get("contributions"):
            result["completeness_error"] = abs(float(values.sum()) - (shares["v_all"] - shares["v_none"]))
        return with_analysis(trace, "integrated_gradients", result)

    def answers_without(self, trace: Trace, progress: Callable[[int, int], None] | None = None) -> Trace:
        """The answer the model gives with each vision expert absent."""
        asked, names = self.asked_again(trace), trace.expert_names
        answers = {}
        for index, name in enumerate(names):
            one = trace_run(self.model, self.processor, asked, Interventions(drop_experts=(name,)))
            answers[name] = {"answer": one.answer, "probability": float(one.probability.prod())}
            if progress is not None:
                progress(index + 1, len(names))
        return with_analysis(trace, "answers_without", answers)
