"""Tables by their names in catalogs: find their locations, get credentials for them."""
