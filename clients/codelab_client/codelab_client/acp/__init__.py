"""`codelab acp`: an agent of the Agent Client Protocol (https://agentclientprotocol.com) for editors, on stdio."""
