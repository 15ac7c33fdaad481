"""How the farm is brought up: services from wheels, the demo, units and images."""
