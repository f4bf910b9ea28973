"""Rehearsals: any problem on synthetic data of its public shape, for several values of epsilon."""
