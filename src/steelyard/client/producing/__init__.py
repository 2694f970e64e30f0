"""From a message to a broker's word that it is stored."""
