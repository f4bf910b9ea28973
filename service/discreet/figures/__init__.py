"""Pictures of results: `results.draw_result`, `curves`, `network` (matplotlib), `plots` (for plotly.js, as plain data).

Figures are matplotlib objects with a canvas of their own and never pyplot's, so that drawing needs no display, leaves
no global state behind and can be done in any thread.
"""
