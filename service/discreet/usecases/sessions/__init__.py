"""Federated sessions: tokens, enrolment, the owner's roster, and the coordinator's steps.

    submit → create_tokens → enroll … → approve → (agents accept) → begin → touch → keep … → publish
                                                                      └ end: failed or cancelled

The price is reserved on every agent's account, and on the caps, when the owner approves the roster:
all or none. From the first message of an agent on it is charged in full.
"""
