"""What the choice of LoRA expert tells about a label, layer by layer, beside what chance would show."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from studio.figures.positions import ticks
from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, ink, mixed, name_axis


@redrawable
def information_per_layer(
    bits: Float[np.ndarray, "l"], null: Float[np.ndarray, "draws l"], layers: Sequence[str], title: str, caption: str, dark: bool = False
) -> go.Figure:
    """Mutual information in bits per layer, over the 5th to 95th percentile of the same with shuffled labels."""
    bits, null = np.asarray(bits, dtype=np.float64), np.asarray(null, dtype=np.float64)
    if null.ndim != 2 or not len(bits) == len(layers) == null.shape[1]:
        raise ValueError(f"{len(layers)} layers, {len(bits)} values and a null of shape {null.shape} do not fit.")
    place, grey = np.arange(len(bits)), mixed(ink(dark), "#8c8c8c", 0.4)
    low, middle, high = np.percentile(null, [5, 50, 95], axis=0)
    fig = go.Figure()
    fig.add_trace(go.Scatter(x=place, y=high, mode="lines", line_width=0, hoverinfo="skip", showlegend=False,
                             meta={"series": "95th percentile, shuffled"}))  # fmt: skip
    fig.add_trace(go.Scatter(x=place, y=low, mode="lines", line_width=0, fill="tonexty", fillcolor=mixed(grey, grey, 1, 0.3), hoverinfo="skip",
                             name="shuffled labels, 5 to 95 %", showlegend=True, meta={"series": "5th percentile, shuffled"}))  # fmt: skip
    fig.add_trace(go.Scatter(x=place, y=middle, mode="lines", line=dict(color=grey, dash="dash", width=1.4), name="shuffled, median", showlegend=True,
                             hovertemplate="shuffled %{y:.4f} bits"))  # fmt: skip
    fig.add_trace(go.Scatter(x=place, y=bits, mode="lines+markers", line_color=category(0, dark), name="these runs", showlegend=True,
                             hovertemplate="%{y:.4f} bits"))  # fmt: skip
    name_axis(fig, "x", {"layer": layers})
    fig.update_xaxes(title_text="layer", range=[-0.6, len(bits) - 0.4], showgrid=False, zeroline=False, **ticks(layers, most=16))
    fig.update_yaxes(title_text="mutual information (bits)", range=[0, 1.08 * float(max(bits.max(), high.max(), 1e-3))])
    fig.update_layout(legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"), margin_t=100)
    above = int((bits > high).sum())
    return finish(fig, title, f"{caption} {len(null)} shuffles; {above} of {len(bits)} layers lie above the 95th percentile of the shuffles.", dark)
