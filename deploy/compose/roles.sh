#!/bin/sh
# Runs once, when the database is made: the owner, who makes the tables, and the application's login, who may
# only work in them. `crw db upgrade` grants the group crw_app what the application needs, and no more.
set -eu
: "${CRW_OWNER_PASSWORD:?write it into env/postgres.env}" "${CRW_APP_PASSWORD:?write it into env/postgres.env}"
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=owner_password="$CRW_OWNER_PASSWORD" --set=app_password="$CRW_APP_PASSWORD" --set=database="$POSTGRES_DB" <<'SQL'
create role crw_app nologin;
create role crw_owner login password :'owner_password';
create role crw login password :'app_password' in role crw_app;
grant crw_app to crw_owner with admin option;
alter database :"database" owner to crw_owner;
alter schema public owner to crw_owner;
-- A client that froze inside a transaction must not keep its locks; a proxy would drop these as start-up options.
alter role crw set idle_in_transaction_session_timeout = '5s';
alter role crw set lock_timeout = '30s';
SQL
