"""Prices of later times, and how GPUs are paid for.

The first price of a version of a flavor stays where it is, so that services of before go on.
What was held of spot flavors was paid for as spot.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0056"
down_revision = "0055"

PRICES_SQL = """
CREATE TABLE quota.dated_price (
    flavor text NOT NULL,
    version bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    microdollars_per_gpu_hour bigint NOT NULL CHECK (microdollars_per_gpu_hour >= 0),
    epoch bigint NOT NULL,
    PRIMARY KEY (flavor, version, applied_at_ms)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON quota.dated_price TO muster_quota;
CREATE TABLE monitoring.dated_price (
    flavor text NOT NULL,
    version bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    microdollars_per_gpu_hour bigint NOT NULL,
    purchase text NOT NULL,
    PRIMARY KEY (flavor, version, applied_at_ms)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON monitoring.dated_price TO muster_monitoring;
ALTER TABLE monitoring.flavor_price ADD COLUMN purchase text NOT NULL DEFAULT 'on-demand';
ALTER TABLE gateway.gpu_usage ADD COLUMN purchase text NOT NULL DEFAULT 'on-demand';
CREATE TEMPORARY TABLE spot ON COMMIT DROP AS
    SELECT name FROM gateway.document
    WHERE kind = 'flavor' AND body <> '' AND (body::json ->> 'spot')::boolean;
UPDATE monitoring.flavor_price SET purchase = 'spot' WHERE flavor IN (SELECT name FROM spot);
UPDATE gateway.gpu_usage SET purchase = 'spot' WHERE flavor IN (SELECT name FROM spot);
"""
# The last version applied by then, and of it the last price by then; before the first version,
# that; 0 without any.
PRICE_AT_SQL = """
CREATE OR REPLACE FUNCTION monitoring.price_at(wanted_flavor text, at_ms bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT coalesce(
            (SELECT d.microdollars_per_gpu_hour FROM monitoring.dated_price d
             WHERE d.flavor = p.flavor AND d.version = p.version AND d.applied_at_ms <= at_ms
             ORDER BY d.applied_at_ms DESC LIMIT 1),
            p.microdollars_per_gpu_hour)
         FROM monitoring.flavor_price p
         WHERE p.flavor = wanted_flavor AND p.applied_at_ms <= at_ms
         ORDER BY p.version DESC LIMIT 1),
        (SELECT microdollars_per_gpu_hour FROM monitoring.flavor_price
         WHERE flavor = wanted_flavor ORDER BY version LIMIT 1),
        0)
$$
"""
BEFORE_SQL = """
CREATE OR REPLACE FUNCTION monitoring.price_at(wanted_flavor text, at_ms bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT microdollars_per_gpu_hour FROM monitoring.flavor_price
         WHERE flavor = wanted_flavor AND applied_at_ms <= at_ms ORDER BY version DESC LIMIT 1),
        (SELECT microdollars_per_gpu_hour FROM monitoring.flavor_price
         WHERE flavor = wanted_flavor ORDER BY version LIMIT 1),
        0)
$$;
ALTER TABLE monitoring.flavor_price DROP COLUMN purchase;
ALTER TABLE gateway.gpu_usage DROP COLUMN purchase;
DROP TABLE quota.dated_price, monitoring.dated_price
"""


def upgrade() -> None:
    """Make the tables and columns with their rights, and let the cost ledger know them."""
    execute(PRICES_SQL)
    execute(PRICE_AT_SQL)


def downgrade() -> None:
    """Back to one price a version: later times are forgotten."""
    execute(BEFORE_SQL)
