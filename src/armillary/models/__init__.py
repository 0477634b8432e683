"""Trained decoders: loaded, proved, captured and put into conditions."""
