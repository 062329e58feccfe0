"""What can be asked about a chart."""

import numpy as np

from leo_core.data.asking import Group, choose, single, yes_and_no
from leo_core.data.chart_facts import Chart
from leo_core.data.english import NUMBERS
from leo_core.data.samples import Question

TYPE = ("What kind of chart is this?", "What type of chart is shown?", "Which chart type is it?", "Name the type of this chart.")
LARGEST = ("Which label has the largest value?", "What is the largest?", "Which one is the highest?", "Which label has the most?",
           "Which {part} is the largest?")  # fmt: skip
SMALLEST = ("Which label has the smallest value?", "What is the smallest?", "Which one is the lowest?", "Which label has the least?",
            "Which {part} is the smallest?")  # fmt: skip
VALUE = ("What is the value of {label}?", "How much is {label}?", "What value does {label} have?", "Which number belongs to {label}?")
BARS = ("How many {parts} are there?", "How many {parts} does the chart have?", "Count the {parts}.", "How many {parts} do you see?")
COLOUR = ("What colour is the {part} for {label}?", "Which colour has the {part} of {label}?", "What is the colour of {label}?",
          "Name the colour of the {part} for {label}.")  # fmt: skip
COMPARE = ("Is {first} larger than {second}?", "Does {first} have more than {second}?", "Is the value of {first} above that of {second}?",
           "Is {first} higher than {second}?")  # fmt: skip
DIFFERENCE = ("How much larger is {first} than {second}?", "What is the difference between {first} and {second}?",
              "By how much is {first} above {second}?", "What is {first} minus {second}?")  # fmt: skip
CHART_NAMES = {"vertical": "bar chart", "horizontal": "bar chart", "pie": "pie chart", "line": "line chart"}
PARTS = {"vertical": "bar", "horizontal": "bar", "pie": "slice", "line": "point"}


def ask_chart(rng: np.random.Generator, chart: Chart) -> tuple[Question, ...]:
    """Three to five questions; `compare` comes as a yes with a no."""
    part = PARTS[chart.kind]
    order = np.argsort(chart.values)
    one = int(rng.integers(len(chart.labels)))
    low, high = (order[i] for i in sorted(rng.permutation(len(order))[:2]))

    def about(templates: tuple[str, ...], answer: str, kind: str, **fields: str) -> Group:
        return single(rng, templates, answer, kind, "charts", **fields)

    extremes = [about(LARGEST, chart.labels[order[-1]].lower(), "largest", part=part),
                about(SMALLEST, chart.labels[order[0]].lower(), "smallest", part=part)]  # fmt: skip
    optional = [
        *extremes,
        about(VALUE, chart.printed[one], "value", label=chart.labels[one]),
        about(BARS, NUMBERS[len(chart.labels)], "bars", parts=f"{part}s"),
        about(TYPE, CHART_NAMES[chart.kind], "chart_type"),
        _compare(rng, chart),
        about(DIFFERENCE, str(chart.values[high] - chart.values[low]), "difference", first=chart.labels[high], second=chart.labels[low]),
    ]
    if chart.kind != "line":
        label = chart.labels[rng.integers(len(chart.labels))]
        colour = chart.fills[chart.labels.index(label)]
        optional.append(about(COLOUR, colour, "bar_colour", part=part, label=label))
    return choose(rng, [extremes[rng.integers(2)]], optional)


def _compare(rng: np.random.Generator, chart: Chart) -> Group:
    i, j = sorted(rng.permutation(len(chart.values))[:2], key=lambda k: chart.values[k])
    small, large = chart.labels[i], chart.labels[j]
    return yes_and_no(rng, COMPARE, {"first": large, "second": small}, {"first": small, "second": large}, "compare", "charts")
