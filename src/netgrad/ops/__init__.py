"""The operators, one declaration each, a module per family. Families load when one of their names is asked for."""
