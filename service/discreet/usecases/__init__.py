"""What the product does, whoever asks and however: no HTTP, no gRPC, no queue in here."""
