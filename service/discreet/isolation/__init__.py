"""The sandbox: walls, the fork server, its children and their messages; the reader of uploads is
one more child."""
