"""Control of Markov chains: policies of linearly solvable problems, counted transitions and their
shrinkage."""
