"""What the API and the dashboard share: bodies, uploads, problem details, who asks, middleware,
events of jobs."""
