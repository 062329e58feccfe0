"""Numbers about runs: pure functions on weights, and causal measurements that ask the model again."""
