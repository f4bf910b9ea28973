"""The worker: it claims jobs, runs them in isolated child processes, publishes their results, and
repairs jobs that other workers left."""
