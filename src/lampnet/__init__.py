"""lampnet: multi-label classification by Label Message Passing."""
