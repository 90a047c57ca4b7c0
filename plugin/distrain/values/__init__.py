"""Check the chart's values against its schema, and edit values files without losing comments."""
