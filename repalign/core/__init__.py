"""Mathematics: arrays in, frozen values out. No files, no printing, no state."""
