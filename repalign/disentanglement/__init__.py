"""Do latents recover known factors?"""
