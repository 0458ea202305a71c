kubectl -n "$NAMESPACE" scale deployment web --replicas=3
