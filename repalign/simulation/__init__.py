"""Data whose causes are known, and small trainings on them."""
