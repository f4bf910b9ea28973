"""Watching a transparency log from outside: monitors, and witnesses that sign what they have seen.
They need no database, no secrets of the service and no data of any tenant."""
