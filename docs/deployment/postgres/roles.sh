#!/bin/sh
# Makes discreet's two roles and its database, once, as a superuser of PostgreSQL. In compose.yaml PostgreSQL's image runs it
# on the first start; by hand: OWNER_PASSWORD_FILE=… APP_PASSWORD_FILE=… PGHOST=… PGUSER=postgres sh roles.sh
#
# discreet_owner owns the database and migrates it. discreet_app is the service's: it owns nothing, so that it can neither
# change nor delete a ledger entry; migrations grant it what it needs.
set -eu
: "${OWNER_PASSWORD_FILE:=/run/secrets/owner_password}" "${APP_PASSWORD_FILE:=/run/secrets/app_password}"
# psql's \password would ask at a terminal; `\set` from a file keeps the passwords off the command line.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-${PGUSER:-postgres}}" --dbname postgres <<SQL
\set owner_password \`cat "$OWNER_PASSWORD_FILE"\`
\set app_password \`cat "$APP_PASSWORD_FILE"\`
SET log_statement = 'none';
CREATE ROLE discreet_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE discreet_app LOGIN PASSWORD :'app_password';
CREATE DATABASE discreet OWNER discreet_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE discreet FROM PUBLIC;
GRANT CONNECT ON DATABASE discreet TO discreet_app;
SQL
