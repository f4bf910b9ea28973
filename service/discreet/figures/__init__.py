"""What charts of any kind are made of: `charts`, `series`, `timelines` and `traces` for plotly.js,
as plain data; `curves`, `network`, `points` and `simplexes` for picture files, by matplotlib.

The figures of picture files are matplotlib objects with a canvas of their own and never pyplot's,
so that drawing needs no display, leaves no global state behind and can be done in any thread.
"""
