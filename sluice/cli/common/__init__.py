"""What several commands share: options, errors, pictures, text of descriptions, generated folders."""
