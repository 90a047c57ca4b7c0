"""Run Helm: render the chart, and install, upgrade and read releases."""
