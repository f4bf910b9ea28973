"""Coupled problems of few agents, solved on secret shares: each agent learns its own answer, and
nobody anything else.

`terms` holds what is public, `responses` an agent's data as prices and quantities, and `prices` the
algorithm. Where agents couple their hours, `own_programs` holds their data, and `over_time` is the
algorithm. `engine` runs one party on Shamir shares (MPyC), over the connections of `links` and in
the process of `party`; `keys` and `member` bind it to a roster, and `evidence` holds what agents
sign.
"""
