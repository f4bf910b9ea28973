#!/bin/sh
# An archive of a PostgreSQL server in an object storage, by Barman 3.14 or later (barman-cloud-…), from which the server can be
# restored as of any moment:
#
#     archive.sh wal PATH               archive_command of PostgreSQL: keep a file of the write-ahead log
#     archive.sh fetch NAME PATH        restore_command of PostgreSQL: bring it back
#     archive.sh base                   copy the server while it runs (every day), and drop what is older than ARCHIVE_RETENTION
#     archive.sh restore FOLDER [TIME]  make a data folder that PostgreSQL, once started on it, brings to that time, or to the end
#
# Run it on the server's machine as PostgreSQL's user. Settings are those of archive.env, if it lies beside this file, or of the
# environment; libpq's (PGHOST, …) say how `base` reaches the server.
set -eu
umask 077
here=$(cd "$(dirname "$0")" && pwd)
if [ -e "$here/archive.env" ]; then
    set -a
    . "$here/archive.env"
    set +a
fi
: "${ARCHIVE_URL:?is not set: s3://BUCKET/FOLDER}" "${ARCHIVE_SERVER:=discreet}" "${ARCHIVE_RETENTION:=RECOVERY WINDOW OF 4 WEEKS}"
barman() { # PROGRAM OPTION… ARGUMENT…: all take the storage and the server before their own arguments
    program=$1
    shift
    "barman-cloud-$program" ${ARCHIVE_ENDPOINT:+--endpoint-url "$ARCHIVE_ENDPOINT"} "$@"
}

case ${1-} in
wal)
    barman wal-archive --gzip "$ARCHIVE_URL" "$ARCHIVE_SERVER" "$2"
    ;;
fetch)
    status=0
    barman wal-restore --no-partial "$ARCHIVE_URL" "$ARCHIVE_SERVER" "$2" "$3" || status=$?
    # 1: it was never archived. PostgreSQL takes that for the end of its log, and goes on without what comes later; a
    # storage that fails is no such end, and above 125 PostgreSQL ends instead.
    [ "$status" -le 1 ] || status=255
    exit "$status"
    ;;
base)
    began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    barman backup --gzip --immediate-checkpoint --dbname "${PGDATABASE:=discreet}" "$ARCHIVE_URL" "$ARCHIVE_SERVER"
    # As `discreet note-backup` does, which needs the secrets file: metrics, alerts and the page Operations tell its age.
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --dbname "$PGDATABASE" --command "INSERT INTO backups (made_at, made_with, schema)
        SELECT '$began', 'other', version_num FROM alembic_version"
    barman backup-delete --retention-policy "$ARCHIVE_RETENTION" "$ARCHIVE_URL" "$ARCHIVE_SERVER"
    ;;
restore)
    folder=$2 moment=${3-}
    mkdir -p -m 700 "$folder"
    barman restore ${moment:+--target-time "$moment"} "$ARCHIVE_URL" "$ARCHIVE_SERVER" auto "$folder"
    {
        echo "restore_command = 'sh \"$here/archive.sh\" fetch \"%f\" \"%p\"'"
        echo "recovery_target_action = 'promote'"
        [ -z "$moment" ] || echo "recovery_target_time = '$moment'"
    } >>"$folder/postgresql.auto.conf"
    : >"$folder/recovery.signal"
    echo "start PostgreSQL on $folder, and before any process of discreet run: discreet adopt"
    ;;
*)
    echo "usage: archive.sh wal PATH | fetch NAME PATH | base | restore FOLDER [TIME]" >&2
    exit 2
    ;;
esac
