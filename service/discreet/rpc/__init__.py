"""gRPC: the federation service, its interceptors, the coordinators of sessions, health and
reflection."""
