"""What account and abacus are held against: scripts by somebody who had not seen Sluice."""
