"""The claims, in the order of the README. A claim that fails stays in the list."""

from leo_core.experiments.claims import (
    Claim,
    all_of,
    as_good,
    balanced,
    better,
    gains_more,
    information,
    more_information,
    needed,
    rising,
    shapley_positive,
)
from leo_core.experiments.configuration import TERMS
from leo_core.experiments.lab_sizes import EXPERTS

REF = "CoTR, 16 tokens"
PAPER, SECOND, OURS = "paper (abstract)", "paper (second-hand)", "ours"
IMPLIED = "implied by the paper, no such figure seen"


def _claim(sentence: str, expected: str, grid: str, measure) -> Claim:
    return Claim(sentence, expected, grid, measure)


CLAIMS = (
    _claim("The lab's model looks at the picture: it answers far more with it than without or with another one.", f"a large gain; {OURS}", "reducers",
           all_of(better(REF, "no picture"), needed(REF, "another picture"))),
    _claim("At 16 tokens CoTR answers more than average pooling.", f"more; {IMPLIED}", "reducers", better(REF, "average pooling, 16")),
    _claim("At 16 tokens CoTR answers more than random choice.", f"more; {IMPLIED}", "reducers", better(REF, "random choice, 16")),
    _claim("At 16 tokens CoTR answers more than a resampler that is blind to the question.", f"more; {IMPLIED}", "reducers", better(REF, "resampler, 16")),
    _claim("CoTR with a quarter of the tokens is as good as all tokens (within two points).",
           f"as good; {SECOND}, its scores beside its stage-2 model's", "reducers", as_good(REF, "all 64 tokens")),
    _claim("With four times the training steps CoTR answers more than average pooling.", f"more; {OURS}", "length",
           better("CoTR, 16 tokens, 4 times as long", "average pooling, 16, 4 times as long")),
    _claim("CoTR gains more than average pooling from longer training.", f"gains more; {OURS}", "length",
           gains_more("CoTR, 16 tokens, 4 times as long", REF, "average pooling, 16, 4 times as long", "average pooling, 16")),
    _claim("More tokens answer more: 1, 4, 16, 64.", f"rising; {SECOND}, Table 2", "budget",
           rising("CoTR, 1 token", "CoTR, 4 tokens", REF, "CoTR, 64 tokens")),
    _claim("CoTR's lead over average pooling grows as the budget shrinks: it leads at 1 token and at 4.", f"leads; {OURS}", "budget",
           all_of(better("CoTR, 1 token", "average pooling, 1"), better("CoTR, 4 tokens", "average pooling, 4"))),
    *(_claim(f"CoTR's {term.upper()} term helps: retrained without it, fewer questions are answered.", f"fewer; {IMPLIED} (Eq. 2-5)",
             "terms", better(REF, f"without {term.upper()}")) for term in TERMS),
    *(_claim(f"A trained CoTR uses its {term.upper()} term: switched off at inference, fewer questions are answered.", f"fewer; {OURS}",
             "terms", needed(REF, f"{term.upper()} off")) for term in TERMS),
    _claim("CoTR's TEXT term helps when it starts from a regression of questions onto what they name.", f"helps; {OURS}", "terms",
           better("TEXT started by regression", REF)),
    _claim("Mean pooling trains, sum pooling (as printed) does not: dot product, root scale.", f"mean better; {OURS}, papers' readings B and C", "terms",
           better("dot, mean, sqrt_d", "dot, sum, sqrt_d")),
    _claim("Cosine similarity with grid queries is better than the printed dot product with random queries.", f"better; {OURS}", "terms",
           better(REF, "dot, mean, sqrt_d")),
    _claim("Queries scaled to a QUERY term of deviation 1 are better than queries of 0.02.", f"better; {OURS}", "terms",
           better("dot, mean, sqrt_d", "dot, mean, sqrt_d, queries of std 0.02")),
    _claim("Queries that start on a grid are better than random ones.", f"better; {OURS}", "terms",
           all_of(better(REF, "cosine, random queries"), better("dot, mean, sqrt_d, grid queries", "dot, mean, sqrt_d"))),
    _claim("CoTR needs a position code.", f"needed; {OURS}", "terms", better(REF, "position: none")),
    _claim("The position code belongs into the similarity only, not into the output.", f"better; {OURS}", "terms", better(REF, "position: token")),
    _claim("A position code that is louder than what tokens show (amplitude 2.4 instead of 0.6) makes CoTR better.", f"better; {OURS}", "terms",
           better("position amplitude 2.4", REF)),
    _claim("With the louder position code CoTR answers more than average pooling.", f"more; {OURS}", "terms",
           better("position amplitude 2.4", "average pooling, 16")),
    _claim("With the louder position code and a TEXT term from regression CoTR answers more than average pooling.", f"more; {OURS}", "terms",
           better("position amplitude 2.4, TEXT started by regression", "average pooling, 16")),
    _claim("LoRA experts in the decoder help at all.", f"more; {IMPLIED}", "mmoe", better(REF, "no MMoE")),
    _claim("Routed experts are better than one LoRA of equal active rank.", f"better; {IMPLIED}", "mmoe", better(REF, "one LoRA, equal active rank")),
    _claim("Routed experts are better than one LoRA with as many parameters.", f"better; {IMPLIED}", "mmoe", better(REF, "one LoRA, equal parameters")),
    _claim("A router that sees visual and text tokens is better than one that sees the hidden state only.", f"better; {PAPER}", "mmoe",
           better(REF, "router: hidden")),
    _claim("Three experts are better than one.", f"better; {IMPLIED}", "mmoe", better(REF, "E = 1")),
    _claim("Six experts are better than three.", f"open; {OURS}", "mmoe", better("E = 6", REF)),
    _claim("The general expert helps.", f"helps; {IMPLIED}", "mmoe", better(REF, "without general expert")),
    _claim("A balance loss spreads the work.", f"spreads; {SECOND}", "mmoe",
           all_of(balanced(REF, "no balance loss"), balanced("squared balance", "no balance loss"))),
    _claim("A balance loss does not cost answers (within two points).", f"costs nothing; {OURS}", "mmoe", as_good(REF, "no balance loss")),
    _claim("Straight-through gating is as good as gating by probability (within two points).", f"as good; {OURS}", "mmoe",
           as_good(REF, "gate by probability")),
    _claim("The chosen expert tells the question's domain: mutual information above chance.", f"above; {IMPLIED}", "mmoe", information(REF)),
    _claim("With visual and text tokens in the router, the chosen expert tells more about the domain than with the hidden state only.",
           f"more; {IMPLIED}", "mmoe", more_information(REF, "router: hidden")),
    *(_claim(f"The {name} expert earns its place: without it, fewer questions are answered.", f"fewer; {IMPLIED}", "experts", needed(REF, f"without {name}"))
      for name in EXPERTS),
    _claim("Every vision expert's Shapley value is positive.", f"positive; {IMPLIED}", "experts", shapley_positive(REF)),
    _claim("Stage 3 should train the projector too.", f"better; {SECOND}, Table 6", "stages", better(REF, "projector frozen")),
    _claim("Stage 1 helps (here ridge regression, before a decoder that starts from nothing).", f"better; {SECOND}, Table 6", "stages",
           better(REF, "without stage 1")),
)  # fmt: skip
