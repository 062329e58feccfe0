"""Figures: functions from a trace or plain arrays to a Plotly figure with a title, axes and a caption. No model, no page."""

from studio.figures.against import against
from studio.figures.answer_table import answer_table
from studio.figures.bars import bars
from studio.figures.contributions import answer_shares, answer_tokens, expert_shares
from studio.figures.curves import curves
from studio.figures.differences import differences
from studio.figures.information import information_per_layer
from studio.figures.map_test import map_curves, map_gains
from studio.figures.numbers import token_numbers
from studio.figures.picture_map import kept_map
from studio.figures.redraw import code, code_of_all
from studio.figures.routing_load import expert_norms, load_per_layer, routing_entropy
from studio.figures.routing_map import routing_map
from studio.figures.scores import scores
from studio.figures.signed_matrix import signed_matrix
from studio.figures.style import notice, template
from studio.figures.table import csv_text, table
from studio.figures.terms import likeness_matrix, term_shares
from studio.figures.token_text import visible

__all__ = [
    "against", "answer_shares", "answer_table", "answer_tokens", "bars", "code", "code_of_all", "csv_text", "curves", "differences",
    "expert_norms", "expert_shares", "information_per_layer", "kept_map", "likeness_matrix", "load_per_layer", "map_curves",
    "map_gains", "notice", "routing_entropy", "routing_map", "scores", "signed_matrix", "table", "template", "term_shares", "token_numbers",
    "visible",
]  # fmt: skip
