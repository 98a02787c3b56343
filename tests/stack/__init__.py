"""The real collector, Prometheus and Alertmanager, started on free ports."""
