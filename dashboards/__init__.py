"""Grafana dashboards and alert rules as code; ``python -m dashboards.build`` writes the generated files."""
