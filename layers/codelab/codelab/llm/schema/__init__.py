"""JSON Schemas: what they may cost, their strict form, and validation. Pure."""
