"""Looking into a trained model: pictures of what it attends to, and numbers beside them."""
