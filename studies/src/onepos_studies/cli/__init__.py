"""The commands `onepos bench` and `onepos datasets`."""
