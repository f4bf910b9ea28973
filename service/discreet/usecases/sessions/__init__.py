"""Federated sessions: tokens, enrolment, the owner's roster, and the coordinator's steps.

    submit → create_tokens → enroll … → approve → (agents accept) → begin → touch → keep … → publish
                                                                      └ end: failed or cancelled

When the owner approves the roster, the price is reserved on every agent's account and on the caps,
or on none of them. From an agent's first message on it is charged in full.
"""
