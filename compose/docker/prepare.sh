#!/bin/sh
# Make .env, the secrets and a first token, unless they are there. The token is printed once: only its hash is kept.
# Called again it changes nothing; `sh prepare.sh token PRINCIPAL RIGHT...` adds a token, e.g. `token person-ana ask publish`.
set -eu
cd "$(dirname "$0")"
umask 077

random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

# An entry of the tokens file for the token $1: principal $2, and the rights that follow.
entry() {
    hash=$(printf %s "$1" | sha256sum | cut -d' ' -f1)
    who=$2
    shift 2
    rights=$(printf '"%s", ' "$@")
    printf '{"sha256": "%s", "tenant": "%s", "principal": "%s", "rights": [%s]}\n' "$hash" "$tenant" "$who" "${rights%, }"
}

if [ ! -e .env ]; then
    # 16 bytes in URL-safe base64 without its padding; the leading zero bits keep it from looking like an option
    id=$(printf 'A%s' "$(head -c 15 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')" | cut -c1-21)A
    sed -e "s|^KAFKA_CLUSTER_ID=.*|KAFKA_CLUSTER_ID=$id|" -e "s|^REDIS_PASSWORD=.*|REDIS_PASSWORD=$(random 24)|" \
        .env.example > .env.new
    mv .env.new .env
fi
tenant=$(sed -n 's/^CORTEX_TENANT=//p' .env)

# The folder is its owner's alone. The files in it are readable, for the containers' users are not the owner.
mkdir -p secrets
if [ ! -e secrets/prometheus_token ]; then
    token=$(random 32)
    printf %s "$token" > secrets/prometheus_token
    entry "$token" '*' admin >> secrets/tokens.jsonl
    first=$(random 32)
    entry "$first" '*' ask publish admin >> secrets/tokens.jsonl
    echo "a token with every right in the tenant $tenant: $first"
fi
if [ "${1-}" = token ]; then
    [ $# -ge 3 ] || { echo "usage: sh prepare.sh token PRINCIPAL RIGHT..." >&2; exit 2; }
    shift
    token=$(random 32)
    entry "$token" "$@" >> secrets/tokens.jsonl
    echo "$token"
fi
chmod 644 secrets/*
