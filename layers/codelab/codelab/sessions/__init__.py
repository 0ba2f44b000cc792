"""Sessions as DynamoDB stores them: keys, the register, the other items, and the table's access paths."""
