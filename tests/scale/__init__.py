"""A million connections at once: what they cost, and what happens when there is no room for them."""
