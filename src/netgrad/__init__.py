"""Operator graphs on named, mutable blobs, and their backward passes."""
