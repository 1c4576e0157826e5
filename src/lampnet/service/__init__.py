"""Models behind HTTP: `lampnet serve`."""
