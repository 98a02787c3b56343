"""Pictures of the dashboards in several states: real guarded programs, Prometheus, and Grafana's own components."""
