"""Sums over a sparse graph of masks, from which agents may drop in every round.

After Bell, Bonawitz, Gascón, Lepoint and Raykova (CCS 2020), "Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead". Each agent has masks with k neighbours only, k of the order of log n,
and neighbours hold Shamir shares of what the server needs when somebody drops. The rules against a
server that lies, and why they suffice, are in docs/decisions/0025-sparse-masks.md; in short:

- A `Plan` gives k, the threshold t and a jury from n, the share of corrupt agents and the share of
  those that drop, by exact hypergeometric tails.
- A `Group` is who takes part: keys, and a seed of the graph that is fixed by commitments of all
  before anybody knows it.
- In each round an `Agent` shares two fresh secrets, sends one masked vector, and gives for each
  neighbour a share of one of the two: of its own mask if it is among the survivors that the jury
  has signed, of its masks with others if not. A round is answered once.
- The `Server` opens the sum over the survivors, or says why it cannot.
- A `Roster` is what an owner signs before a run, and `Demands` what an agent asks of it.
- A `DurableAgent` has its claims on disk: killed, it comes back and answers nothing twice.
- A `Conductor` and `answer` speak of all this in messages; `python -m discreet_client.sparse_sum`
  carries them between real processes.

- `exchanges` counts the same as exchanges of a federated session (`multi_agent` with masks).

The server sees the sum, unlike in `discreet_client.secure_sum`.
"""

from discreet_client.sparse_sum.agent import Agent
from discreet_client.sparse_sum.conversation import Conductor, Step, answer
from discreet_client.sparse_sum.durable import DurableAgent
from discreet_client.sparse_sum.group import Candidate, Group, Member
from discreet_client.sparse_sum.plan import Plan
from discreet_client.sparse_sum.roster import Demands, Roster
from discreet_client.sparse_sum.server import Server

__all__ = [
    "Agent",
    "Candidate",
    "Conductor",
    "Demands",
    "DurableAgent",
    "Group",
    "Member",
    "Plan",
    "Roster",
    "Server",
    "Step",
    "answer",
]
