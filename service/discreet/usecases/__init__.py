"""What the product does, whichever way it is asked: there is no HTTP, gRPC or queue here."""
