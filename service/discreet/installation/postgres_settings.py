"""The configuration of an embedded server: its settings, who may connect, and its environment."""

from __future__ import annotations

import os

# No value of a row and no text of a statement in the log: both may be private.
SETTINGS = """\
listen_addresses = ''
port = {port}
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 128MB
dynamic_shared_memory_type = {shared_memory}
max_parallel_workers_per_gather = 0
io_method = sync
max_wal_size = 256MB
max_wal_senders = 0
max_logical_replication_workers = 0
fsync = {durable}
synchronous_commit = {durable}
full_page_writes = {durable}
password_encryption = scram-sha-256
allow_alter_system = off
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = stderr
logging_collector = off
log_checkpoints = off
log_line_prefix = '%m [%p] %q%u@%d '
log_error_verbosity = terse
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""
ACCESS = "local all all scram-sha-256\n"
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
