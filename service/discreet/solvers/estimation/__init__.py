"""What may be said of counts that noise was added to."""
