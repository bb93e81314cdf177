"""Code that several commands share: options, errors, pictures, descriptions as text, generated folders."""
