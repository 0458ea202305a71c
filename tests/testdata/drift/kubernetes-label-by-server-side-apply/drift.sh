kubectl -n "$NAMESPACE" apply --server-side --force-conflicts --field-manager=another-team -f - <<Y
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: theirs}}
Y
