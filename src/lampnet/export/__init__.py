"""Models as files that run without lampnet."""
