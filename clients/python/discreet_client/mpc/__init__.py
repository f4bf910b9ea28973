"""Coupled problems of few agents on secret shares: each agent is opened its own answer, nobody
anything else.

`terms` what is public; `responses` an agent's data as prices and quantities; `prices` the
algorithm; `engine` one party of it on Shamir shares (MPyC), `links` its connections and `party` its
process; `keys` what binds it to a roster.
"""
