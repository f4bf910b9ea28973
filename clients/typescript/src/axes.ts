/** The names of the axes of each array in a result, by kind and field. */
// Made from openapi/openapi.json by `make sdk`.

export const AXES = {
  coupled_qp: {
    multipliers: ["constraint"],
    violations: ["constraint"],
  },
  dr_ensemble: {
    achieved_power: ["step"],
    block_transitions: ["block", "from", "to"],
    cost_of_privacy: ["step", "state"],
    cost_to_go: ["state"],
    default_power: ["step"],
    expected_power: ["step"],
    policy: ["step", "from", "to"],
    signal: ["step", "state"],
    transitions: ["from", "to"],
    true_default_power: ["step"],
    true_expected_power: ["step"],
  },
  multi_agent: {
    average_multipliers: ["constraint"],
    multipliers: ["constraint"],
    noisy_values: ["constraint"],
    state_path: ["point", "agent"],
  },
  off_policy_evaluation: {
    values: ["state"],
    weights: ["feature"],
  },
  routing: {
    demand: ["origin", "destination"],
    demand_by_class: ["user_class", "origin", "destination"],
    link_flow_changes: ["link"],
    link_flows: ["link"],
    link_flows_by_class: ["user_class", "link"],
    skims: ["origin", "destination"],
    skims_by_class: ["user_class", "origin", "destination"],
    unit_flows: ["pair", "link"],
  },
} as const;
