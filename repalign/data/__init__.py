"""The inputs that users bring: texts, images, factors."""
