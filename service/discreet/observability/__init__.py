"""How the service is watched: traces and logs, metrics and health of a process, its heartbeat, and
fault points."""
