kubectl -n "$NAMESPACE" rollout status deployment web --timeout=120s
