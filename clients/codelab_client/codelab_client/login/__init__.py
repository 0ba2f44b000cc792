"""`codelab login`: signs a user in at the identity provider of a server, and keeps the token."""
