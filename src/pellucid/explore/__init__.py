"""A representation becomes one HTML page that shows what each dimension means."""
