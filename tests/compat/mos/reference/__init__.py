"""What the sample programs of the monitoring API should say of a capture, told from the capture alone."""
