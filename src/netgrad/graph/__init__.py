"""What a net is: blobs, scopes, devices, operators and their declarations, nets, plans, SSA versions, records."""
