"""The own tables of the services in memory, held equal to PostgreSQL's by a contract test."""
