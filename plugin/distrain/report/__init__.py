"""Draw a report of runs (an HTML page and a PNG) from their records alone. See docs/report.md."""
