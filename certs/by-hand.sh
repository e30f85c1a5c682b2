#!/usr/bin/env bash
# An authority and a serving certificate for Rollcall, with openssl alone: certs/by-hand.sh DIR [NAMESPACE] [HOST...]
# Writes ca.crt, ca.key, tls.crt and tls.key to DIR; an authority that is there already signs again, so that a
# certificate is renewed by running it once more. Keep ca.key somewhere else: no server needs it.
set -euo pipefail

folder=${1:?where to write, such as certs}
namespace=${2:-rollcall-system}
hosts=("${@:3}")
ca_days=${CA_DAYS:-365} leaf_days=${LEAF_DAYS:-30}

mkdir -p "$folder"
umask 077

if [[ ! -f $folder/ca.key ]]; then
    openssl ecparam -name prime256v1 -genkey -noout -out "$folder/ca.key"
    openssl req -x509 -new -sha256 -key "$folder/ca.key" -days "$ca_days" -out "$folder/ca.crt" \
        -subj "/CN=rollcall authority by hand" \
        -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -addext "subjectKeyIdentifier=hash"
fi

# The API server calls the server by the third of these.
names="DNS:rollcall,DNS:rollcall.$namespace,DNS:rollcall.$namespace.svc,DNS:rollcall.$namespace.svc.cluster.local"
for host in "${hosts[@]}"; do
    case $host in
        *[!0-9.]*) names+=",DNS:$host" ;;
        *) names+=",IP:$host" ;;
    esac
done

openssl ecparam -name prime256v1 -genkey -noout -out "$folder/tls.key"
openssl req -new -sha256 -key "$folder/tls.key" -subj "/CN=rollcall" -out "$folder/tls.csr"
openssl x509 -req -sha256 -in "$folder/tls.csr" -days "$leaf_days" -out "$folder/tls.crt" \
    -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -set_serial "0x$(openssl rand -hex 16)" \
    -extfile <(
        echo "basicConstraints=critical,CA:FALSE"
        echo "keyUsage=critical,digitalSignature"
        echo "extendedKeyUsage=serverAuth"
        echo "subjectAltName=$names"
        echo "subjectKeyIdentifier=hash"
        echo "authorityKeyIdentifier=keyid"
    )
rm "$folder/tls.csr"
chmod 644 "$folder/ca.crt" "$folder/tls.crt"
