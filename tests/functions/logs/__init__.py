"""The logs httplog, tlslog, dnslog and flowlog: against tshark's fields, and however their input is cut."""
