#!/bin/sh
# Writes the secrets that compose.yaml reads into ./secrets: sh docs/deployment/prepare-secrets.sh [FOLDER [PROGRAM…]]
# PROGRAM runs discreet; the default is the image: docker run --rm --user "$(id -u)" …
#
# No existing secret is replaced. Containers run as user 10001, and only this user may read these files:
# run this as root, or `chown -R 10001 secrets` afterwards. Keep a copy of the folder: without secrets.json the content of
# all datasets is lost.
set -eu
umask 077
folder=${1:-secrets}
[ $# -gt 0 ] && shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ $# -gt 0 ] || set -- docker run --rm --user "$(id -u)" --volume "$folder:$folder" discreet

word() { # 256 random bits, safe in a URL
    [ -s "$1" ] || od -An -vtx1 -N32 /dev/urandom | tr -d ' \n' > "$1"
}
word "$folder/superuser_password"
word "$folder/owner_password"
word "$folder/app_password"
url() { # the service reads each file as the setting that has the file's name
    printf 'postgresql://%s:%s@postgres:5432/discreet' "$2" "$(cat "$folder/$3")" > "$folder/$1"
}
url discreet_database_url discreet_app app_password
url discreet_migration_database_url discreet_owner owner_password
[ -s "$folder/secrets.json" ] || "$@" create-secrets "$folder/secrets.json"
# The certificate of gRPC: agents' tokens pin it, so it needs no certificate authority. The API reads it; the rpc process has the key.
if ! [ -s "$folder/rpc.key" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=discreet-rpc \
        -addext "subjectAltName=DNS:discreet.rpc,DNS:${RPC_NAME:-localhost},DNS:rpc,IP:127.0.0.1" \
        -keyout "$folder/rpc.key" -out "$folder/rpc.crt" 2>/dev/null
fi
if [ "$(id -u)" = 0 ]; then
    chown -R 10001:10001 "$folder"
fi
echo "the secrets are in $folder"
