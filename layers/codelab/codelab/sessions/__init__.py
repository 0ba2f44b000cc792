"""Sessions as DynamoDB keeps them: keys, the register, history and the table's access paths."""
