kubectl -n "$NAMESPACE" delete configmap settings
