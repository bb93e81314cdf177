"""Instances of a chain's functions on other hosts.

A process of another host works in a copy of the chain's shared memory. Two processes mirror it through a UDP tunnel:
the relay, which the controller has in the place of the instance's own process, and the agent, which starts that on the
other host (tunnel.py, relay.py, agent.py). An engine such as Ray places agents (engine.py).
"""
