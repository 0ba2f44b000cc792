"""The AWS services that ministack emulates: DynamoDB, S3, Secrets Manager, CloudFormation."""
