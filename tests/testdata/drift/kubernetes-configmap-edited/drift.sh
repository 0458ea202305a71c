kubectl -n "$NAMESPACE" patch configmap settings -p '{"data":{"greeting":"hacked"}}'
