"""Database migrations, run by alembic; a merged migration is never edited."""
