"""Who watches a transparency log from outside: monitors, and witnesses that sign what they have
seen. No database, no secrets of the service, nothing of any tenant."""
