"""Ready functions."""
