#!/bin/bash
# The first start of a database server, in the steps of the official image: initialise, start a
# server that only the Unix socket reaches, run what lies in /docker-entrypoint-initdb.d, stop it.
set -euo pipefail
export PGDATA="${PGDATA:-/var/lib/postgresql/data}"
if [ "$1" != postgres ]; then
	exec "$@"
fi
if [ "$(id -u)" = 0 ]; then
	install --directory --owner=postgres /var/run/postgresql
	install --directory --owner=postgres --mode=0700 "$PGDATA"
	chown -R postgres "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	user="${POSTGRES_USER:-postgres}"
	database="${POSTGRES_DB:-$user}"
	initdb --username="$user" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD")
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	pg_ctl --wait --options="-c listen_addresses=''" start
	if [ "$database" != postgres ]; then
		psql --no-psqlrc --username="$user" --dbname=postgres --command="CREATE DATABASE \"$database\""
	fi
	shopt -s nullglob
	for file in /docker-entrypoint-initdb.d/*.sql; do
		psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$user" --dbname="$database" --file="$file"
	done
	pg_ctl --wait --mode=fast stop
fi
exec "$@"
