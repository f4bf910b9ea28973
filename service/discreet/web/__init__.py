"""What the API and the dashboard share: bodies, uploads, problem details, authentication,
middleware, events of jobs."""
