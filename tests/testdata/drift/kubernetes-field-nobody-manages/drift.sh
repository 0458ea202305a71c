kubectl -n "$NAMESPACE" patch configmap settings -p '{"metadata":{"labels":{"cost-center":"42"}}}'
