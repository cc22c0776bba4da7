"""Does a label survive a change of batch?"""
