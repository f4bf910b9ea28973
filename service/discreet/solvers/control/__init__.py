"""Control of Markov chains: policies of linearly-solvable problems, transition counts and their
shrinkage."""
