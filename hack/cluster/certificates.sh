#!/usr/bin/env bash
# Makes the cluster's keys, certificates and kubeconfigs in PKI_DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"
umask 077
mkdir -p "$PKI_DIR"
cd "$PKI_DIR"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

authority() { # NAME
  key "$1"
  openssl req -x509 -new -key "$1.key" -subj "/CN=$1" -days 365 -out "$1.crt" \
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,digitalSignature'
}

certificate() { # NAME AUTHORITY SUBJECT serverAuth|clientAuth [ALTERNATIVE_NAMES]
  key "$1"
  {
    echo "extendedKeyUsage=$4"
    echo "keyUsage=critical,digitalSignature"
    [ -z "${5:-}" ] || echo "subjectAltName=$5"
  } > "$1.ext"
  openssl req -new -key "$1.key" -subj "$3" |
    openssl x509 -req -CA "$2.crt" -CAkey "$2.key" -set_serial "0x$(openssl rand -hex 8)" -days 365 -extfile "$1.ext" -out "$1.crt" 2> /dev/null
}

kubeconfig() { # NAME SUBJECT FILE
  certificate "$1" ca "$2" clientAuth
  cat > "$3" << YAML
apiVersion: v1
kind: Config
clusters:
- name: $CLUSTER
  cluster:
    server: https://$NODE_IP:6443
    certificate-authority-data: $(base64 -w0 < ca.crt)
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 < "$1.crt")
    client-key-data: $(base64 -w0 < "$1.key")
contexts:
- name: $CLUSTER
  context: {cluster: $CLUSTER, user: $1}
current-context: $CLUSTER
YAML
}

authority ca
authority front-proxy-ca
openssl genrsa -out sa.key 2048 2> /dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2> /dev/null
certificate apiserver ca /CN=kube-apiserver serverAuth \
  "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$API_IP,IP:$NODE_IP"
certificate apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
certificate front-proxy-client front-proxy-ca /CN=front-proxy-client clientAuth
certificate kubelet-server ca "/CN=$NODE" serverAuth "DNS:$NODE,IP:$NODE_IP"
kubeconfig controller-manager /CN=system:kube-controller-manager controller-manager.kubeconfig
kubeconfig scheduler /CN=system:kube-scheduler scheduler.kubeconfig
kubeconfig kube-proxy /CN=system:kube-proxy kube-proxy.kubeconfig
kubeconfig kubelet "/O=system:nodes/CN=system:node:$NODE" kubelet.kubeconfig
kubeconfig admin /O=system:masters/CN=admin "$CLUSTER_KUBECONFIG"
