"""PostgreSQL by asyncpg: one statement for each unit of work (docs/adr/0002)."""
