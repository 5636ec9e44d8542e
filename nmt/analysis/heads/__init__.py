"""What heads attend to and what they are worth, in numbers."""
