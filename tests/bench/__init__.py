"""What bench/ measures with: programs and traces mean what they say, tables what was measured. Nothing is timed."""
