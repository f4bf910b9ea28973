"""Rehearsals: any problem on synthetic data of its public shape, over a ladder of epsilons."""
