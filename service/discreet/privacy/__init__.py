"""The privacy core: integer prices, mechanism events, calibration, exact noise, adaptive filters,
black-box audit.

No I/O, no transport, no database, no solver. Layers: `units` → `mechanism` → `mechanisms/*` →
`events` → `calibration`, `noise`, `attacks`; `zcdp` → `filters`. The mathematics is in
`docs/privacy.md`, each proof beside its code.
"""
