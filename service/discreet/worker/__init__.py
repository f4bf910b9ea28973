"""The worker: claims jobs, hands them to isolated child processes, publishes, repairs what others
left."""
