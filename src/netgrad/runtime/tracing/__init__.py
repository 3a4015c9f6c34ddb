"""What runs of nets with control flow and recurrence did, as operators without any."""
