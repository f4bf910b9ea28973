"""The one sandbox: walls, the fork server, its children and what they say; the reader of uploads is
one more child."""
