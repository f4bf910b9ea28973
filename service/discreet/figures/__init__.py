"""What charts of any kind are made of: `charts`, `series`, `timelines`, `traces` (for plotly.js, as
plain data), and pictures in files: `curves`, `network` (matplotlib).

Figures are matplotlib objects with a canvas of their own and never pyplot's, so that drawing needs
no display, leaves no global state behind and can be done in any thread.
"""
