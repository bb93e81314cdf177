"""Laws: what must hold for every connection and every datagram, tried on generated ones."""
