"""Results of jobs in a class of their kind, as the contract declares their fields."""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from discreet_client.rest import models
from discreet_client.results import Answer, Floats, Ints, Price

__all__ = [
    "ANSWERS",
    "Answer",
    "CoupledQpAnswer",
    "DrEnsembleAnswer",
    "Floats",
    "Ints",
    "MultiAgentAnswer",
    "OffPolicyEvaluationAnswer",
    "Price",
    "RoutingAnswer",
    "answer_of",
]


class CoupledQpAnswer(Answer):
    """Result of `coupled_qp`. For a session only rounds, transcript and evidence; each agent
    finds its own optimum itself."""

    KIND: ClassVar[str] = "coupled_qp"
    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "multipliers": ("constraint",),
        "violations": ("constraint",),
    }
    bytes_sent: int
    """By an agent, at most; of protocol job; unit: bytes"""
    evidence: dict[str, Any]
    """The roster and the agents' signatures; of protocol federated"""
    multipliers: Floats
    """Of the constraints; of protocol job; [constraint]"""
    objective: float
    """The joint cost at `x`; of protocol job"""
    rounds: int
    """Rounds of the sums that were opened; 0 with protocol mpc, which opens none"""
    status: Literal["converged", "iteration_limit", "infeasible"]
    """`converged`: within `tolerance` of what agents use at the end, x is the best that they can
    do and keeps the constraints; of agents apart all of them have signed it.
    `iteration_limit`: that is not so, or, of protocol mpc, its bounds are too wide to tell; x
    is no optimum. `infeasible`: of protocol mpc, nothing that the agents can do keeps the
    limit in every hour"""
    transcript: str
    """Hash of all broadcasts, hexadecimal"""
    violation: float
    """Largest entry of the constraints above zero; of protocol job"""
    violations: Floats
    """By how much each constraint is above zero, in its own unit; of protocol job; [constraint]"""
    x: Any
    """The optimum, one list an agent; of protocol job"""


class DrEnsembleAnswer(Answer):
    """Result of `dr_ensemble`. What follows from the released transitions."""

    KIND: ClassVar[str] = "dr_ensemble"
    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "achieved_power": ("step",),
        "block_transitions": ("block", "from", "to"),
        "cost_of_privacy": ("step", "state"),
        "cost_to_go": ("state",),
        "default_power": ("step",),
        "expected_power": ("step",),
        "policy": ("step", "from", "to"),
        "signal": ("step", "state"),
        "transitions": ("from", "to"),
        "true_default_power": ("step",),
        "true_expected_power": ("step",),
    }
    achieved_policy_saving: float
    """What ordering the probabilities of `policy` saves the true loads; only for simulations;
    unit: the money of the price"""
    achieved_power: Floats
    """Expected power of the true loads if they follow the signal; only for simulations; unit:
    the unit of power of the states; [step]"""
    achieved_saving: float
    """What the true loads save by following the signal; only for simulations; unit: the money of
    the price"""
    block_transitions: Floats
    """Instead of `transitions`, if the dataset has a `day`: [block][from][to]; [block, from, to]"""
    combined: models.Combined
    """For several releases: what combining them gained"""
    cost_of_privacy: Floats
    """Extra cost of following the signal over the best control of the true loads; only for
    simulations; unit: the money of the price; [step, state]"""
    cost_to_go: Floats
    """Expected cost of following the signal from each state at step 0, discomfort included;
    unit: the money of the price; [state]"""
    default_power: Floats
    """Expected power without control; unit: the unit of power of the states; [step]"""
    energy_ratio: float
    """Energy over all steps if the signal is followed, divided by that without control: below 1
    load is shed, at 1 it is shifted"""
    event: Any
    """The steps of `event_saving`, as asked or the expensive ones"""
    event_saving: float
    """Energy that a load that follows draws less than without control during the event, over all
    its steps; unit: kWh of steps of meters, else the unit of power times a step"""
    expected_power: Floats
    """Expected power in each step of a load that follows the signal, from `initial`; unit: the
    unit of power of the states; [step]"""
    limits: models.LimitsTold
    """How the policy keeps the `limits` that were asked for"""
    policy: Floats
    """For loads whose moves can be ordered, probabilities that are optimal for the released
    transitions: [step][from][to]. What that saves is `policy_saving`; [step, from, to]"""
    policy_saving: float
    """What ordering the probabilities of `policy` saves at least, net of discomfort; often a
    loss, as discomfort grows with every error of the released transitions; unit: the money of
    the price"""
    rebound: float
    """Energy that a load that follows draws more than without control outside the event, before
    or after it; unit: kWh of steps of meters, else the unit of power times a step"""
    saving: float
    """What following the signal saves over all steps from `initial`, net of discomfort: of loads
    that may lie behind the release, the lower of two models' medians; unit: the money of the
    price"""
    signal: Floats
    """The signal that loads follow: what each state of a step costs more than the cheapest one,
    from there on. A load draws its own next state a, accepts it with probability
    exp(-signal[step + 1][a] / discomfort_weight), else draws again. All 0: no control; unit:
    the money of the price; [step, state]"""
    states: models.States
    """Meaning of the states, from the problem and the public part of the dataset"""
    transitions: Floats
    """The released default transition matrix P[from][to]; rows sum to 1; [from, to]"""
    true_default_power: Floats
    """Expected power of the true loads without control; only for simulations; unit: the unit of
    power of the states; [step]"""
    true_expected_power: Floats
    """Expected power under the best control of the true loads; only for simulations; unit: the
    unit of power of the states; [step]"""
    true_saving: float
    """The most that control of the true loads can save; only for simulations; unit: the money of
    the price"""
    uncertainty: models.Uncertainty
    """How far the noise may have moved the numbers of this result"""


class MultiAgentAnswer(Answer):
    """Result of `multi_agent`. Functions of only the noised outputs."""

    KIND: ClassVar[str] = "multi_agent"
    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "average_multipliers": ("constraint",),
        "multipliers": ("constraint",),
        "noisy_values": ("constraint",),
        "state_path": ("point", "agent"),
    }
    agreement: models.Agreement
    """How the chain of all broadcasts ends, and who signed it; of protocol federated"""
    average_multipliers: Floats
    """Averaged over the second half of the steps; [constraint]"""
    average_state: dict[str, float]
    """Averaged over the second half of the steps; only for simulations"""
    multiplier_path: list[models.MultiplierPoint]
    """Multipliers at up to 100 public steps"""
    multipliers: Floats
    """Of each constraint, after the last step; [constraint]"""
    noisy_gradients: list[models.NoisyGradient]
    """Noised derivatives of the constraints, averaged over the second half"""
    noisy_values: Floats
    """Noised values of the constraints, averaged over the second half; [constraint]"""
    state: dict[str, float]
    """State of each agent after the last step; only for simulations"""
    state_path: Floats
    """States at the steps of `multiplier_path`, by agent; only for simulations; [point, agent]"""
    survivors: list[str]
    """Who was in the sum of each step, a bitmap in hexadecimal whose first bit is the roster's
    first agent; of protocol federated with masks"""
    uncertainty: models.Uncertainty
    """How far the noise may have moved the numbers of this result"""


class OffPolicyEvaluationAnswer(Answer):
    """Result of `off_policy_evaluation`. The values of two policies over the people in the data,
    or a linear value function of the target policy."""

    KIND: ClassVar[str] = "off_policy_evaluation"
    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {"values": ("state",), "weights": ("feature",)}
    behaviour_value: float
    """Value of the policy that was followed, over the people in the data (importance_sampling);
    unit: the unit of rewards"""
    clipped_difference: models.Range
    """The same of the difference (importance_sampling); unit: the unit of rewards"""
    clipped_mass: float
    """How much of the weights, whose mean is 1, was cut off (importance_sampling)"""
    clipped_value: models.Range
    """The interval of 90 % of the value of the target policy with clipped weights, which the
    true value may lie outside of; where any may be cut off (importance_sampling); unit: the
    unit of rewards"""
    combined: models.Combined
    """For several releases: what combining them gained"""
    covers: str
    """What the interval of policy_value covers, as a sentence (importance_sampling)"""
    difference: float
    """policy_value - behaviour_value, for the same people (importance_sampling); unit: the unit
    of rewards"""
    doubt: str
    """A warning if the mean of the weights is impossible for correct probabilities, with that
    mean (importance_sampling)"""
    effective_size: float
    """Effective sample size: so many trajectories of equal weight would be as informative
    (importance_sampling)"""
    estimand: str
    """What the values are of: which rewards, and in which visits (importance_sampling)"""
    largest_weight: float
    """The value at which weights of trajectories are clipped (importance_sampling)"""
    policy_value: float
    """Of the target policy: over the people in the data, estimated with clipped weights
    (importance_sampling; its interval is without clips), or the mean of the value function
    over `initial`, where it is given; unit: the unit of rewards"""
    robust_bounds: models.Range
    """Bounds on the value of the target policy without clipping, with 90 % confidence, whatever
    was cut off (importance_sampling); unit: the unit of rewards"""
    target_policy: str
    """What the target policy does, if the dataset's owner has described it"""
    uncertainty: models.Uncertainty
    """How far the noise may have moved the numbers of this result"""
    values: Floats
    """The value of each state; only for tabular features; unit: the unit of rewards; [state]"""
    weights: Floats
    """Theta, one number per feature; unit: the unit of rewards; [feature]"""


class RoutingAnswer(Answer):
    """Result of `routing`. The post-processing of released trips or, with the method gradient,
    of the released routing."""

    KIND: ClassVar[str] = "routing"
    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "demand": ("origin", "destination"),
        "demand_by_class": ("user_class", "origin", "destination"),
        "link_flow_changes": ("link",),
        "link_flows": ("link",),
        "link_flows_by_class": ("user_class", "link"),
        "policy": ("origin", "destination", "share"),
        "policy_by_class": ("user_class", "origin", "destination", "share"),
        "select_link": ("link", "origin", "destination", "share"),
        "select_link_by_class": ("user_class", "link", "origin", "destination", "share"),
        "skims": ("origin", "destination"),
        "skims_by_class": ("user_class", "origin", "destination"),
        "unit_flows": ("pair", "link"),
    }
    closed: list[str]
    """The links of `closed_links`, as people call them: nobody can take these"""
    combined: models.Combined
    """For several releases: what combining them gained"""
    demand: Floats
    """Released mean demand of a period, zones by zones; of the method counts; unit: trips a
    period; [origin, destination]"""
    demand_by_class: Floats
    """Released mean demand of a period of each class, zones by zones; unit: trips a period;
    [user_class, origin, destination]"""
    iterations: int
    """Steps that the assignment took"""
    latency_law: str
    """The law by which travel times grow with flows, as a sentence"""
    link_flow_changes: Floats
    """What closing adds to the flow of each link, in the order of the request; with
    closed_links; unit: trips a period; [link]"""
    link_flows: Floats
    """Flow of each link, in the order of the request; of the method counts. Of classes of users
    in passenger cars, by their `pce`; unit: trips a period; [link]"""
    link_flows_by_class: Floats
    """Trips of each class over each link, one of several divisions of the same flows where ways
    differ by no fixed cost: so it has no interval; unit: trips a period; [user_class, link]"""
    policy: list[models.RoutingPair]
    """Paths with their shares, for every ordered pair of distinct zones"""
    policy_by_class: list[models.RoutingClassPair]
    """The same of each class of users for itself, where trips have classes: `policy` is of the
    trips of all then"""
    relative_gap: float
    """Upper bound on how far the assignment is above its minimum"""
    select_link: list[models.RoutingSelected]
    """Which pairs' trips use the links of `select_links`; intervals: the true trips on this
    policy"""
    select_link_by_class: list[models.RoutingClassSelected]
    """The same of each class of users, in the place of `select_link` where trips have classes"""
    skims: Floats
    """Travel time of a trip of each pair, in the mean of its paths at the released flows, fixed
    costs among it; intervals: where the true trips follow this policy; unit: the unit of
    free_flow_time; [origin, destination]"""
    skims_by_class: Floats
    """The same of each class of users, with its own weight of fixed costs, in the place of
    `skims` where trips have classes; unit: the unit of free_flow_time; [user_class, origin,
    destination]"""
    status: Literal["converged", "iteration_limit"]
    """Whether the assignment reached the gap that was asked for"""
    total_travel_time: float
    """Of the released demand, fixed costs of links among it, by each class's own weight; of the
    method counts; unit: trips a period times the unit of free_flow_time"""
    total_travel_time_change: float
    """What closing adds to the total travel time of the same released demand on all roads; with
    closed_links; unit: trips a period times the unit of free_flow_time"""
    true_best_total_travel_time: float
    """Cost of the best policy for the true mean demand; only for simulations; unit: trips a
    period times the unit of free_flow_time"""
    true_total_travel_time: float
    """Cost of the policy for the true mean demand; only for simulations; unit: trips a period
    times the unit of free_flow_time"""
    uncertainty: models.Uncertainty
    """How far the noise may have moved the numbers of this result"""
    undetermined_links: Any
    """Positions of links whose flow the model does not determine, from 0: they cost the same at
    any flow and others are as good, so that optimal assignments differ there. Such flows have
    no interval; the total travel time is the same in all"""
    unit_flows: Floats
    """Share of each pair's trips at each link; of the method gradient; [pair, link]"""
    user_classes: list[str]
    """The classes of users, in the order of what is told by class; where trips have some"""


ANSWERS: dict[str, type[Answer]] = {
    one.KIND: one
    for one in (
        CoupledQpAnswer,
        DrEnsembleAnswer,
        MultiAgentAnswer,
        OffPolicyEvaluationAnswer,
        RoutingAnswer,
    )
}


def answer_of(document: Mapping[str, Any], tables: Mapping[str, bytes]) -> Answer:
    """The answer in the class of its kind; a kind that this client does not know yet is an
    `Answer`."""
    return ANSWERS.get(document["job"]["kind"], Answer)(document, tables)
