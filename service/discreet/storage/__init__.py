"""PostgreSQL: tables, repositories (all queries), unit of work, encryption at rest."""
