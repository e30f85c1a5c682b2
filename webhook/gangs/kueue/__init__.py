"""What Kueue says about a gang (no I/O): the gang's Workload, why Kueue holds it, and its place in the queue."""
