"""Pictures of results.

Figures are matplotlib objects with a canvas of their own and never pyplot's, so that drawing needs no display, leaves
no global state behind and can be done in any thread.
"""

from __future__ import annotations

from discreet.figures.curves import Curve, draw_curves
from discreet.figures.network import draw_link_flows
from discreet.figures.results import draw_result

__all__ = ["Curve", "draw_curves", "draw_link_flows", "draw_result"]
